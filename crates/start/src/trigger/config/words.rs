//! The names of CI systems and events in `ci_config` and on the command line.

/// A CI system that can start runs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ProviderName {
    /// GitHub Actions.
    GitHub,
    /// GitLab CI.
    GitLab,
    /// Jenkins.
    Jenkins,
}

impl ProviderName {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::GitHub, Self::GitLab, Self::Jenkins];

    /// The name in `ci_config` and on the command line.
    #[must_use]
    pub const fn id(self) -> &'static str {
        match self {
            Self::GitHub => "github-actions",
            Self::GitLab => "gitlab-ci",
            Self::Jenkins => "jenkins",
        }
    }

    /// The display name.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::GitHub => "GitHub",
            Self::GitLab => "GitLab",
            Self::Jenkins => "Jenkins",
        }
    }
}

/// The event by which GitHub starts a workflow.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Event {
    /// Starts one workflow, with inputs.
    #[default]
    WorkflowDispatch,
    /// Starts every workflow that has the event type `butler-run`, with a payload.
    RepositoryDispatch,
}

impl Event {
    /// GitHub's name of the event.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::WorkflowDispatch => "workflow_dispatch",
            Self::RepositoryDispatch => "repository_dispatch",
        }
    }

    /// The event with this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        [Self::WorkflowDispatch, Self::RepositoryDispatch].into_iter().find(|it| it.name() == name)
    }
}
