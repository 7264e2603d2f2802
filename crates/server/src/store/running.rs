//! How many attempts run.

use std::collections::BTreeMap;

/// The attempts that run, counted for each repository.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Running {
    repositories: BTreeMap<String, RunningCount>,
}

/// How many attempts run.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct RunningCount {
    /// All of them.
    pub attempts: u32,
    /// Those that are checks for drift.
    pub drift: u32,
}

impl RunningCount {
    const fn plus(self, other: Self) -> Self {
        Self { attempts: self.attempts + other.attempts, drift: self.drift + other.drift }
    }
}

impl Running {
    pub(super) fn add(&mut self, repository: &str, count: RunningCount) {
        let known = self.repositories.entry(repository.to_owned()).or_default();
        *known = known.plus(count);
    }

    /// Those of all repositories.
    #[must_use]
    pub fn total(&self) -> RunningCount {
        self.repositories.values().copied().fold(RunningCount::default(), RunningCount::plus)
    }

    /// Those of one repository.
    #[must_use]
    pub fn of(&self, repository: &str) -> RunningCount {
        self.repositories.get(repository).copied().unwrap_or_default()
    }
}
