//! The registry of followers, checked.

use std::time::Duration;

use super::stage::Stage;

/// The budget of a source change unless the file sets another one.
pub(crate) const DEFAULT_BUDGET: Duration = Duration::from_mins(2);

/// The followers and the settings of their controller. By default, there are none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Registry {
    /// The settings of the controller.
    pub controller: Controller,
    /// The followers, in the order of the file. Their ids are distinct.
    pub followers: Vec<Follower>,
}

/// The settings of the controller.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Controller {
    /// The namespace of objects whose templates have none.
    pub namespace: String,
    /// The time between two looks at a follower that waits for a commit.
    pub poll: Duration,
    /// The time between two looks at a follower that has an object in flight.
    pub watch: Duration,
    /// The wait after the first failure. It doubles with each further failure.
    pub first_retry: Duration,
    /// The longest wait after a failure.
    pub longest_retry: Duration,
}

impl Default for Controller {
    fn default() -> Self {
        Self {
            namespace: "default".to_owned(),
            poll: Duration::from_secs(30),
            watch: Duration::from_secs(5),
            first_retry: Duration::from_secs(30),
            longest_retry: Duration::from_mins(30),
        }
    }
}

impl Controller {
    /// The wait after this many failures in a row.
    #[must_use]
    pub fn backoff(&self, failures: u32) -> Duration {
        let factor = 1_u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
        self.first_retry.saturating_mul(factor).min(self.longest_retry)
    }
}

/// A follower of a branch.
#[derive(Clone, Debug, PartialEq)]
pub struct Follower {
    /// Its id: a DNS label, or two with a dot between them.
    pub id: String,
    /// The branch that it follows.
    pub source: Source,
    /// What delivers a commit.
    pub adapter: Adapter,
    /// How long a source change should take. A figure that is shown; it stops nothing.
    pub budget: Budget,
    /// Whether an administrator paused it.
    pub is_paused: bool,
    /// References to the configurations that own what is delivered. They are only shown.
    pub config_refs: Vec<String>,
    /// The chain of stages. There is at least one.
    pub stages: Vec<Stage>,
}

impl Follower {
    /// Whether a custom resource defines it, whose id is `NAMESPACE.NAME`. Ids of a registry file have no dots.
    #[must_use]
    pub fn is_resource(&self) -> bool {
        self.id.contains('.')
    }
}

/// A branch of a repository.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Source {
    /// The address of the repository, or its name in the server's configuration.
    pub repository: String,
    /// The branch.
    pub branch: String,
}

/// What delivers a commit.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Adapter {
    /// A layer of the server.
    Terraform,
    /// A workflow of GitHub Actions.
    GithubActions,
    /// A pipeline of GitLab CI.
    GitlabCi,
    /// A job of Jenkins.
    Jenkins,
    /// A chain of native objects.
    Kubernetes,
}

impl Adapter {
    /// The name, as in tables and registry files.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Terraform => "terraform",
            Self::GithubActions => "github-actions",
            Self::GitlabCi => "gitlab-ci",
            Self::Jenkins => "jenkins",
            Self::Kubernetes => "kubernetes",
        }
    }
}

/// How long a source change should take.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Budget {
    /// The time.
    pub limit: Duration,
    /// Who set it.
    pub origin: BudgetOrigin,
}

/// Who set a budget.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum BudgetOrigin {
    /// The follower.
    Follower,
    /// The settings of the controller.
    Controller,
    /// Neither of them: 120 seconds.
    Default,
}

impl BudgetOrigin {
    /// The name, as in tables.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Follower => "follower",
            Self::Controller => "controller",
            Self::Default => "default",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wait_doubles_up_to_the_longest_one() {
        let controller = Controller::default();
        let waits = [0, 1, 2, 3, 8, 40, u32::MAX].map(|count| controller.backoff(count).as_secs());
        assert_eq!(waits, [30, 30, 60, 120, 1800, 1800, 1800]);
    }
}
