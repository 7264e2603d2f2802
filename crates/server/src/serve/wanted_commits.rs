//! Commits that this server has to fetch before it starts an attempt.
//!
//! If several servers share a store, another one can have read a commit that a branch has left meanwhile. A poll reads
//! only the newest commit of a branch, so the older one has to be named.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::model::Commit;

/// The commits of each repository that are wanted.
#[derive(Debug, Default)]
pub struct WantedCommits(Mutex<BTreeMap<(String, Commit), Answer>>);

/// The state of a commit that is wanted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Answer {
    /// The next poll fetches it.
    Awaited,
    /// The repository does not have it.
    Missing,
}

impl WantedCommits {
    /// Asks for a commit that the mirror does not have. Returns whether to wait for it. A commit that the repository does
    /// not have is not waited for: the attempt fails, and says so.
    pub(super) fn want(&self, repository: &str, commit: &Commit) -> bool {
        let key = (repository.to_owned(), commit.clone());
        let mut commits = self.lock();
        if commits.get(&key) == Some(&Answer::Missing) {
            commits.remove(&key);
            return false;
        }
        commits.insert(key, Answer::Awaited);
        true
    }

    /// The commits that the next poll of a repository fetches.
    pub(super) fn awaited(&self, repository: &str) -> Vec<Commit> {
        let commits = self.lock();
        let of_repository = commits
            .iter()
            .filter(|((of, _), answer)| of == repository && **answer == Answer::Awaited);
        of_repository.map(|((_, commit), _)| commit.clone()).collect()
    }

    /// Notes whether a poll has found a commit.
    pub(super) fn found(&self, repository: &str, commit: &Commit, is_there: bool) {
        let key = (repository.to_owned(), commit.clone());
        if is_there {
            self.lock().remove(&key);
        } else {
            self.lock().insert(key, Answer::Missing);
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<(String, Commit), Answer>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commit_is_awaited_until_a_poll_has_found_it_or_knows_that_it_is_missing() {
        let wanted = WantedCommits::default();
        let (one, two) = (Commit::new("c1"), Commit::new("c2"));
        assert!(wanted.want("infra", &one) && wanted.want("infra", &two));
        assert_eq!(wanted.awaited("infra"), [one.clone(), two.clone()]);
        assert_eq!(wanted.awaited("other"), []);
        wanted.found("infra", &one, true);
        wanted.found("infra", &two, false);
        assert_eq!(wanted.awaited("infra"), []);
        // The attempt is started once without it; another one asks again.
        assert!(!wanted.want("infra", &two));
        assert!(wanted.want("infra", &two));
    }
}
