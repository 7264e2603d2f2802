//! The supported CI systems, and their detection.

/// The CI system that the runner runs in.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum System {
    /// GitHub Actions.
    GitHubActions,
    /// GitLab CI.
    GitLabCi,
    /// Jenkins.
    Jenkins,
    /// Azure Pipelines.
    AzurePipelines,
    /// Bitbucket Pipelines.
    BitbucketPipelines,
    /// `CircleCI`.
    CircleCi,
    /// Buildkite.
    Buildkite,
    /// `TeamCity`.
    TeamCity,
    /// Tekton.
    Tekton,
    /// Some other one, or none that people do not watch: plain lines.
    Plain,
    /// Not a CI system: a terminal or a script.
    #[default]
    None,
}

impl System {
    /// All of them, in the order in which they are recognised.
    pub const ALL: [Self; 11] = [
        Self::GitHubActions,
        Self::GitLabCi,
        Self::Jenkins,
        Self::AzurePipelines,
        Self::BitbucketPipelines,
        Self::CircleCi,
        Self::Buildkite,
        Self::TeamCity,
        Self::Tekton,
        Self::Plain,
        Self::None,
    ];

    /// The name on the command line.
    #[must_use]
    pub const fn id(self) -> &'static str {
        match self {
            Self::GitHubActions => "github-actions",
            Self::GitLabCi => "gitlab-ci",
            Self::Jenkins => "jenkins",
            Self::AzurePipelines => "azure-pipelines",
            Self::BitbucketPipelines => "bitbucket-pipelines",
            Self::CircleCi => "circleci",
            Self::Buildkite => "buildkite",
            Self::TeamCity => "teamcity",
            Self::Tekton => "tekton",
            Self::Plain => "plain",
            Self::None => "none",
        }
    }

    /// The display name.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::GitHubActions => "GitHub Actions",
            Self::GitLabCi => "GitLab CI",
            Self::Jenkins => "Jenkins",
            Self::AzurePipelines => "Azure Pipelines",
            Self::BitbucketPipelines => "Bitbucket Pipelines",
            Self::CircleCi => "CircleCI",
            Self::Buildkite => "Buildkite",
            Self::TeamCity => "TeamCity",
            Self::Tekton => "Tekton",
            Self::Plain => "a CI system",
            Self::None => "no CI system",
        }
    }

    /// The variable that its jobs have, and no others.
    #[must_use]
    pub const fn variable(self) -> Option<&'static str> {
        match self {
            Self::GitHubActions => Some("GITHUB_ACTIONS"),
            Self::GitLabCi => Some("GITLAB_CI"),
            Self::Jenkins => Some("JENKINS_URL"),
            Self::AzurePipelines => Some("TF_BUILD"),
            Self::BitbucketPipelines => Some("BITBUCKET_BUILD_NUMBER"),
            Self::CircleCi => Some("CIRCLECI"),
            Self::Buildkite => Some("BUILDKITE"),
            Self::TeamCity => Some("TEAMCITY_VERSION"),
            Self::Tekton | Self::Plain | Self::None => None,
        }
    }

    /// What to do so that its jobs have a secret in their environment, as an imperative clause; none
    /// for what has no place of its own for secrets.
    #[must_use]
    pub const fn secret_place(self) -> Option<&'static str> {
        match self {
            Self::GitHubActions => Some(
                "add the secret under Settings > Secrets and variables > Actions and map it in the workflow's `env` (`generate github-actions --secret NAME`)",
            ),
            Self::GitLabCi => Some(
                "add a masked variable under Settings > CI/CD > Variables; protected ones reach protected branches only",
            ),
            Self::Jenkins => Some(
                "add a secret text under Manage Jenkins > Credentials and bind it in the Jenkinsfile (`generate jenkins --secret NAME=CREDENTIAL`)",
            ),
            Self::AzurePipelines => Some(
                "add a secret variable to the pipeline or to a variable group and map it in the step's `env` (`generate azure-pipelines --secret NAME`)",
            ),
            Self::BitbucketPipelines => {
                Some("add a secured variable under Repository settings > Repository variables")
            }
            Self::CircleCi => {
                Some("add the variable to the job's context under Organization Settings > Contexts")
            }
            Self::Buildkite => Some(
                "add the secret to the cluster under Agents > Secrets and name it in the step's `secrets`",
            ),
            Self::TeamCity => {
                Some("add a parameter `env.NAME` of the type Password to the build configuration")
            }
            Self::Tekton => Some(
                "put it into a Secret and name that in the step's `env` (`generate tekton --secret NAME`)",
            ),
            Self::Plain | Self::None => None,
        }
    }

    /// The one with this id.
    #[must_use]
    pub fn named(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|system| system.id() == id)
    }

    /// Whether the runner is in one of its jobs: `has` says whether a variable is there and not
    /// `false`, `exists` whether a path is.
    #[must_use]
    pub fn is_here(self, has: impl Fn(&str) -> bool, exists: impl Fn(&str) -> bool) -> bool {
        match self {
            // It sets no variable, but mounts this into each step.
            Self::Tekton => exists("/tekton/steps"),
            Self::Plain => has("CI"),
            Self::None => true,
            known => known.variable().is_some_and(has),
        }
    }

    /// The first that the runner is in a job of.
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
    fn each_system_is_known_by_its_variable_and_its_id() {
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
