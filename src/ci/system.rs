//! The list of CI systems, and their recognition.

use super::description::{CiSystem, Recognition};
use super::systems;

macro_rules! systems {
    ($($(#[$documentation:meta])* $system:ident => $file:ident,)*) => {
        /// The CI system that the runner runs in.
        #[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
        pub enum System {
            $($(#[$documentation])* $system,)*
        }

        impl System {
            /// All of them, in the order in which they are recognised.
            pub const ALL: [Self; [$(Self::$system),*].len()] = [$(Self::$system),*];

            /// The description in the system's file.
            #[must_use]
            pub const fn description(self) -> &'static CiSystem {
                match self {
                    $(Self::$system => &systems::$file::SYSTEM,)*
                }
            }
        }
    };
}

systems! {
    /// GitHub Actions.
    GitHubActions => github_actions,
    /// GitLab CI.
    GitLabCi => gitlab_ci,
    /// Jenkins.
    Jenkins => jenkins,
    /// Azure Pipelines.
    AzurePipelines => azure_pipelines,
    /// Bitbucket Pipelines.
    BitbucketPipelines => bitbucket_pipelines,
    /// `CircleCI`.
    CircleCi => circleci,
    /// Buildkite.
    Buildkite => buildkite,
    /// `TeamCity`.
    TeamCity => teamcity,
    /// Tekton.
    Tekton => tekton,
    /// A CI system that is not in this list.
    Plain => generic,
    /// Not a CI system: a terminal or a script.
    #[default]
    None => no_ci,
}

impl System {
    /// The name on the command line.
    #[must_use]
    pub const fn id(self) -> &'static str {
        self.description().id
    }

    /// The display name.
    #[must_use]
    pub const fn title(self) -> &'static str {
        self.description().title
    }

    /// The variable that only jobs of the system have.
    #[must_use]
    pub const fn variable(self) -> Option<&'static str> {
        match self.description().recognition {
            Recognition::Variable(name) => Some(name),
            Recognition::Path(_) | Recognition::SharedVariable(_) | Recognition::Fallback => None,
        }
    }

    /// The imperative clause that tells a user how to give a secret to a job; `None` if the system is unknown.
    #[must_use]
    pub const fn secret_place(self) -> Option<&'static str> {
        self.description().secret_place
    }

    /// Whether a running job can register values that the system masks.
    #[must_use]
    pub const fn reads_masks(self) -> bool {
        self.description().reads_masks
    }

    /// Whether the system shows the report files of [`super::terraform_report`] and [`super::dotenv`].
    #[must_use]
    pub const fn reads_report_files(self) -> bool {
        self.description().reads_report_files
    }

    /// The system with this name on the command line.
    #[must_use]
    pub fn named(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|system| system.id() == id)
    }

    /// Whether the runner is in a job of the system. `has` tells whether a variable is set and not `false`,
    /// `exists` whether a path exists.
    #[must_use]
    pub fn is_here(self, has: impl Fn(&str) -> bool, exists: impl Fn(&str) -> bool) -> bool {
        match self.description().recognition {
            Recognition::Variable(name) | Recognition::SharedVariable(name) => has(name),
            Recognition::Path(path) => exists(path),
            Recognition::Fallback => true,
        }
    }

    /// The first system that is recognised.
    #[must_use]
    pub fn detect(has: impl Fn(&str) -> bool, exists: impl Fn(&str) -> bool) -> Self {
        let mut systems = Self::ALL.into_iter();
        systems.find(|system| system.is_here(&has, &exists)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_is_recognised_by_its_variable_and_named_by_its_id() {
        for system in System::ALL {
            assert_eq!(System::named(system.id()), Some(system));
            if let Some(variable) = system.variable() {
                let has = |name: &str| name == variable || name == "CI";
                assert_eq!(System::detect(has, |_| false), system);
            }
        }
        assert_eq!(System::detect(|name| name == "CI", |_| false), System::Plain);
        assert_eq!(System::detect(|_| false, |path| path == "/tekton/steps"), System::Tekton);
        assert_eq!(System::detect(|_| false, |_| false), System::None);
    }
}
