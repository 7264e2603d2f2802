//! The version constraints of a module, and which of them a version of a tool checks.
//!
//! - Terraform reads `*.tf`, and so does `OpenTofu` before 1.8.
//! - `OpenTofu` from 1.8 on also reads `*.tofu`, and instead of an `x.tf` only the `x.tofu` beside it.
//! - `OpenTofu` from 1.12 on ignores `required_version` in `*.tf`. `opentofu` in `language { compatible_with { … } }`
//!   limits it in both kinds of files. Earlier versions do not know this block, so it limits them too.

use semver::Version;

use super::constraint::{Constraint, ConstraintError};
use super::tool::{Product, ToolRequest};

/// The first `OpenTofu` that reads `*.tofu`.
pub const FIRST_WITH_TOFU_FILES: Version = Version::new(1, 8, 0);

/// The first `OpenTofu` that ignores `required_version` in `*.tf`.
const FIRST_WITH_LANGUAGE: Version = Version::new(1, 12, 0);

/// The kind of file or block that contains a constraint.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ConstraintPlace {
    /// `required_version` in a `*.tf`.
    TerraformFile,
    /// `required_version` in a `*.tofu`.
    TofuFile,
    /// `opentofu` in a block `compatible_with`.
    Language,
}

/// A constraint of a module.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RequiredVersion {
    /// The constraint, as it is written.
    pub text: String,
    /// The kind of file or block that contains it.
    pub place: ConstraintPlace,
    /// The name of the file.
    pub file: String,
    /// Whether the file is an override file, whose constraint replaces those before it.
    pub is_override: bool,
    /// Whether the file is a `*.tf` beside a `*.tofu` of the same name.
    pub is_replaced: bool,
}

/// The constraints of a module, in the order in which its files are read.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct RequiredVersions {
    /// The constraints.
    pub constraints: Vec<RequiredVersion>,
    /// Whether the module consists of `*.tofu` only.
    pub needs_tofu: bool,
}

impl RequiredVersions {
    /// Constraints in one `*.tf`.
    #[must_use]
    pub fn in_terraform_file(texts: &[&str]) -> Self {
        let constraint = |text: &&str| RequiredVersion {
            text: (*text).to_owned(),
            place: ConstraintPlace::TerraformFile,
            file: "main.tf".to_owned(),
            is_override: false,
            is_replaced: false,
        };
        Self { constraints: texts.iter().map(constraint).collect(), needs_tofu: false }
    }

    /// The limit of the versions of `product`; `None` if there is none.
    ///
    /// # Errors
    /// If one of the constraints cannot be read.
    pub fn limit(&self, product: Product) -> Result<Option<ModuleLimit>, ConstraintError> {
        let oldest = Version::new(0, 0, 0);
        let first = match product {
            Product::Terraform => vec![oldest],
            Product::OpenTofu => vec![oldest, FIRST_WITH_TOFU_FILES, FIRST_WITH_LANGUAGE],
            Product::Terragrunt => return Ok(None),
        };
        let mut ranges = Vec::new();
        for version in first {
            let tool = ToolRequest { product, version };
            let texts = self.texts_for(&tool);
            let all = if texts.is_empty() { None } else { Some(Constraint::all(&texts)?) };
            ranges.push((tool.version, all));
        }
        let needs_tofu = self.needs_tofu && product == Product::OpenTofu;
        let is_limited = needs_tofu || ranges.iter().any(|(_, all)| all.is_some());
        Ok(is_limited.then_some(ModuleLimit { ranges, needs_tofu }))
    }

    /// The constraints that `tool` checks.
    fn texts_for(&self, tool: &ToolRequest) -> Vec<String> {
        let is_tofu = tool.product == Product::OpenTofu;
        let reads_tofu = reads_tofu_files(tool);
        let knows_language = is_tofu && tool.version >= FIRST_WITH_LANGUAGE;
        let counts = |it: &&RequiredVersion| match it.place {
            _ if it.is_replaced && reads_tofu => false,
            ConstraintPlace::TerraformFile => !knows_language,
            ConstraintPlace::TofuFile => reads_tofu,
            ConstraintPlace::Language => is_tofu,
        };
        let mut kept: Vec<&RequiredVersion> = Vec::new();
        for constraint in self.constraints.iter().filter(counts) {
            // From this version on, each file is checked on its own.
            let replaces = constraint.is_override
                && !knows_language
                && constraint.place != ConstraintPlace::Language;
            if replaces {
                let stays = |it: &&RequiredVersion| {
                    it.place == ConstraintPlace::Language || it.file == constraint.file
                };
                kept.retain(stays);
            }
            kept.push(constraint);
        }
        kept.into_iter().map(|it| it.text.clone()).collect()
    }
}

/// Whether `tool` reads `*.tofu`.
#[must_use]
pub fn reads_tofu_files(tool: &ToolRequest) -> bool {
    tool.product == Product::OpenTofu && core(&tool.version) >= FIRST_WITH_TOFU_FILES
}

/// A limit of the versions of one product. A prerelease is judged by its core, as Terraform and `OpenTofu` do.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ModuleLimit {
    /// The constraints, by the first version that they are for.
    ranges: Vec<(Version, Option<Constraint>)>,
    needs_tofu: bool,
}

impl ModuleLimit {
    /// Whether the module can be used with `version`.
    #[must_use]
    pub fn allows(&self, version: &Version) -> bool {
        let version = core(version);
        let limited = self.of(&version).is_none_or(|constraint| constraint.allows(&version));
        limited && (!self.needs_tofu || version >= FIRST_WITH_TOFU_FILES)
    }

    /// Whether `version` can be selected from a list: no prerelease, unless a constraint names it.
    #[must_use]
    pub fn suggests(&self, version: &Version) -> bool {
        let is_named = self.of(version).is_some_and(|constraint| constraint.suggests(version));
        (version.pre.is_empty() && self.allows(version)) || is_named
    }

    fn of(&self, version: &Version) -> Option<&Constraint> {
        let range = self.ranges.iter().rfind(|(first, _)| first <= version);
        range.and_then(|(_, constraint)| constraint.as_ref())
    }
}

/// The constraint of the newest versions that have one.
impl std::fmt::Display for ModuleLimit {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.ranges.iter().rev().find_map(|(_, constraint)| constraint.as_ref()) {
            Some(constraint) => constraint.fmt(formatter),
            None => write!(formatter, ">= {FIRST_WITH_TOFU_FILES}"),
        }
    }
}

/// The version without its prerelease and build metadata.
#[must_use]
pub fn core(version: &Version) -> Version {
    Version::new(version.major, version.minor, version.patch)
}

#[cfg(test)]
mod tests {
    use super::ConstraintPlace::{Language, TerraformFile, TofuFile};
    use super::*;

    fn required(file: &str, place: ConstraintPlace, text: &str) -> RequiredVersion {
        RequiredVersion {
            text: text.to_owned(),
            place,
            file: file.to_owned(),
            is_override: file.contains("override"),
            is_replaced: file == "replaced.tf",
        }
    }

    /// Which of the versions the module allows.
    fn allowed(
        constraints: &[RequiredVersion],
        product: Product,
        versions: &[&'static str],
    ) -> Vec<&'static str> {
        let all = RequiredVersions { constraints: constraints.to_vec(), needs_tofu: false };
        let limit = all.limit(product).unwrap();
        let is_allowed = |version: &&&str| {
            limit.as_ref().is_none_or(|limit| limit.allows(&version.parse().unwrap()))
        };
        versions.iter().filter(is_allowed).copied().collect()
    }

    #[test]
    fn constraint_limits_the_versions_that_read_it() {
        use Product::{OpenTofu, Terraform};
        use std::slice::from_ref;
        let versions = ["1.6.0", "1.7.1", "1.8.0", "1.11.4", "1.12.0", "1.13.0"];
        let tf = required("a.tf", TerraformFile, "~> 1.7.0");
        let tofu = required("b.tofu", TofuFile, "< 1.12");
        let language = required("c.tf", Language, ">= 1.12");
        let replaced = required("replaced.tf", TerraformFile, "= 1.7.1");
        let by_override = required("d_override.tf", TerraformFile, ">= 1.11");
        for (constraints, product, expected) in [
            (from_ref(&tf), Terraform, &["1.7.1"][..]),
            (from_ref(&tf), OpenTofu, &["1.7.1", "1.12.0", "1.13.0"]),
            (from_ref(&tofu), Terraform, &versions),
            (from_ref(&tofu), OpenTofu, &["1.6.0", "1.7.1", "1.8.0", "1.11.4"]),
            (&[tf.clone(), tofu.clone()], OpenTofu, &["1.7.1"]),
            (from_ref(&language), Terraform, &versions),
            (from_ref(&language), OpenTofu, &["1.12.0", "1.13.0"]),
            (&[tf.clone(), language.clone()], OpenTofu, &["1.12.0", "1.13.0"]),
            (from_ref(&replaced), Terraform, &["1.7.1"]),
            (from_ref(&replaced), OpenTofu, &["1.7.1", "1.8.0", "1.11.4", "1.12.0", "1.13.0"]),
            (&[tf.clone(), by_override.clone()], Terraform, &["1.11.4", "1.12.0", "1.13.0"]),
            (&[tf.clone(), by_override], OpenTofu, &["1.11.4", "1.12.0", "1.13.0"]),
        ] {
            assert_eq!(allowed(constraints, product, &versions), expected, "{constraints:?}");
        }
    }

    #[test]
    fn module_of_tofu_files_needs_the_first_version_that_reads_them() {
        let module = RequiredVersions { constraints: Vec::new(), needs_tofu: true };
        let limit = module.limit(Product::OpenTofu).unwrap().unwrap();
        assert_eq!(limit.to_string(), ">= 1.8.0");
        for (version, allowed, suggested) in
            [("1.7.9", false, false), ("1.8.0-rc1", true, false), ("1.8.0", true, true)]
        {
            let version = version.parse().unwrap();
            assert_eq!((limit.allows(&version), limit.suggests(&version)), (allowed, suggested));
        }
        assert_eq!(module.limit(Product::Terraform).unwrap(), None);
    }

    #[test]
    fn prerelease_is_judged_by_its_core() {
        let limit = RequiredVersions::in_terraform_file(&[">= 1.12", "< 1.13"]);
        let limit = limit.limit(Product::Terraform).unwrap().unwrap();
        assert_eq!(limit.to_string(), ">= 1.12, < 1.13");
        for (version, allowed) in [
            ("1.12.0-beta1", true),
            ("1.12.3-rc1+build", true),
            ("1.13.0-alpha20250101", false),
            ("1.11.9-rc1", false),
        ] {
            let version = version.parse().unwrap();
            assert_eq!(limit.allows(&version), allowed, "{version}");
            assert!(!limit.suggests(&version));
        }
    }

    #[test]
    fn constraint_that_cannot_be_read_is_an_error_for_its_readers() {
        let broken = RequiredVersions::in_terraform_file(&["newest"]);
        assert!(broken.limit(Product::Terraform).is_err());
        assert!(broken.limit(Product::Terragrunt).unwrap().is_none());
    }
}
