//! What limits a version that is chosen: a constraint, or the constraints of a module.

use semver::Version;

use butler_protocol::spec::{Constraint, ModuleLimit, core};

/// A limit of the versions of a product.
#[derive(Clone, Copy)]
pub(super) enum Limit<'a> {
    /// A constraint of a user or a version file.
    Given(&'a Constraint),
    /// The constraints of the module.
    Module(&'a ModuleLimit),
}

impl Limit<'_> {
    /// Whether a version that is on the machine can be used. A prerelease is judged by its core, as Terraform does. A build
    /// with metadata, such as `1.9.8+ent`, is used only if it is named.
    pub(super) fn allows(self, version: &Version) -> bool {
        if !version.build.is_empty() {
            return false;
        }
        match self {
            Self::Given(constraint) => {
                constraint.allows(version) || constraint.allows(&core(version))
            }
            Self::Module(limit) => limit.allows(version),
        }
    }

    /// Whether it can be selected from a list.
    pub(super) fn suggests(self, version: &Version) -> bool {
        if !version.build.is_empty() {
            return false;
        }
        match self {
            Self::Given(constraint) => constraint.suggests(version),
            Self::Module(limit) => limit.suggests(version),
        }
    }
}

impl std::fmt::Display for Limit<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Given(constraint) => constraint.fmt(formatter),
            Self::Module(limit) => limit.fmt(formatter),
        }
    }
}
