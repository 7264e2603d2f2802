//! Finds out from a mirror whether two commits have a common ancestor.
//!
//! A mirror has only the recent history of its commits, so the result can be unknown. The parents of a commit are read
//! from the commit itself: libgit2 hides those that a shallow repository does not have.

use std::collections::{HashSet, VecDeque};
use std::path::Path;

use git2::{ObjectType, Odb, Oid, Repository};
use serde::{Deserialize, Serialize};

use super::failure::FetchError;

/// The number of commits in the recent history of a commit.
const RECENT: u32 = 50;

/// The most commits that are read to compare two histories.
const MOST_READ: usize = 2_000_000;

/// The part of the history of its commits that a mirror gets.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MirrorHistory {
    /// A few commits, for commits that the mirror does not have.
    #[default]
    Recent,
    /// At least this many commits, also for commits that the mirror has.
    Commits(u32),
    /// All of it, also for commits that the mirror has.
    Whole,
}

impl MirrorHistory {
    /// The number of commits; `None` for all.
    pub(super) const fn commits(self) -> Option<u32> {
        match self {
            Self::Recent => Some(RECENT),
            Self::Commits(count) => Some(count),
            Self::Whole => None,
        }
    }
}

/// The result of a comparison of two histories.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Histories {
    /// A commit is in both.
    Shared,
    /// No commit is in both.
    Unrelated,
    /// The mirror does not have enough of them, or they are too long to be read.
    Unknown,
}

/// Whether a mirror has a commit with its files. Of the recent history of its commits, it has only the commits.
///
/// Packs are written as a whole: all files of a tree are there if the tree is.
#[must_use]
pub fn has_files(mirror: &Repository, commit: Oid) -> bool {
    mirror.find_commit(commit).and_then(|commit| commit.tree()).is_ok()
}

/// Compares the histories of two commits. A commit belongs to its own history. The mirror need not have the commits.
///
/// # Errors
/// When the mirror cannot be opened, or an id is not valid.
pub fn compare_histories(mirror: &Path, one: &str, other: &str) -> Result<Histories, FetchError> {
    let failed = |error| FetchError::git("read the history in the mirror", &error);
    let mirror = Repository::open_bare(mirror).map_err(failed)?;
    let objects = mirror.odb().map_err(failed)?;
    let id = |text| Oid::from_str(text).map_err(failed);
    let (mut one, mut other) = (History::of(id(one)?), History::of(id(other)?));
    // In turns: the common commit of a few recent commits is found before a long history is read.
    while one.seen.len() + other.seen.len() < MOST_READ {
        if one.meets(&other) {
            return Ok(Histories::Shared);
        }
        let has_more = one.read_next(&objects);
        if other.meets(&one) {
            return Ok(Histories::Shared);
        }
        if !other.read_next(&objects) && !has_more && one.news.is_empty() && other.news.is_empty() {
            let is_known = one.is_complete && other.is_complete;
            return Ok(if is_known { Histories::Unrelated } else { Histories::Unknown });
        }
    }
    Ok(Histories::Unknown)
}

/// The history of a commit, as far as it was read.
struct History {
    seen: HashSet<Oid>,
    /// The commits whose parents were not read yet.
    waiting: VecDeque<Oid>,
    /// The commits that were not compared yet.
    news: Vec<Oid>,
    /// Whether no commit was missing.
    is_complete: bool,
}

impl History {
    fn of(commit: Oid) -> Self {
        Self {
            seen: HashSet::from([commit]),
            waiting: VecDeque::from([commit]),
            news: vec![commit],
            is_complete: true,
        }
    }

    /// Whether a commit that was read since the last call is in `other`.
    fn meets(&mut self, other: &Self) -> bool {
        self.news.drain(..).any(|commit| other.seen.contains(&commit))
    }

    /// Reads the parents of the next commit. Returns false if there is none.
    fn read_next(&mut self, objects: &Odb<'_>) -> bool {
        let Some(commit) = self.waiting.pop_front() else { return false };
        let Some(parents) = parents(objects, commit) else {
            self.is_complete = false;
            return true;
        };
        for parent in parents {
            if self.seen.insert(parent) {
                self.waiting.push_back(parent);
                self.news.push(parent);
            }
        }
        true
    }
}

/// The parents of a commit, also those that the repository does not have. `None` if it does not have the commit.
pub(super) fn parents(objects: &Odb<'_>, commit: Oid) -> Option<Vec<Oid>> {
    let object = objects.read(commit).ok().filter(|object| object.kind() == ObjectType::Commit)?;
    let header = object.data().split(|byte| *byte == b'\n').take_while(|line| !line.is_empty());
    let parents =
        header.filter_map(|line| std::str::from_utf8(line.strip_prefix(b"parent ")?).ok());
    Some(parents.filter_map(|id| Oid::from_str(id).ok()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Commits with these parents, by their numbers; those in `missing` are not written.
    fn compared(commits: &[&[usize]], missing: &[usize], one: usize, other: usize) -> Histories {
        let directory = tempfile::tempdir().unwrap();
        let mirror = Repository::init_bare(directory.path()).unwrap();
        let mut ids: Vec<Oid> = Vec::new();
        for (number, parents) in commits.iter().enumerate() {
            let parents: Vec<String> =
                parents.iter().map(|at| format!("parent {}\n", ids[*at])).collect();
            let parents = parents.concat();
            let text = format!(
                "tree {}\n{parents}author a <a> {number} +0000\ncommitter a <a> {number} +0000\n\n{number}\n\nparent {}\n",
                Oid::ZERO_SHA1,
                "1".repeat(40)
            );
            ids.push(if missing.contains(&number) {
                Oid::hash_object(ObjectType::Commit, text.as_bytes()).unwrap()
            } else {
                mirror.odb().unwrap().write(ObjectType::Commit, text.as_bytes()).unwrap()
            });
        }
        let name = |number: usize| ids[number].to_string();
        compare_histories(directory.path(), &name(one), &name(other)).unwrap()
    }

    #[test]
    fn common_commit_is_found_and_its_absence_is_known_only_with_both_histories() {
        // 0-1-2-3 with 4 beside 2 and 3, 5-6 without a common commit, and 7, which merges both.
        let commits: &[&[usize]] = &[&[], &[0], &[1], &[2], &[1], &[], &[5], &[3, 6]];
        for (missing, one, other, expected) in [
            (&[][..], 3, 3, Histories::Shared),
            (&[], 3, 2, Histories::Shared),
            (&[], 0, 3, Histories::Shared),
            (&[], 3, 4, Histories::Shared),
            (&[], 3, 6, Histories::Unrelated),
            (&[], 6, 3, Histories::Unrelated),
            (&[], 7, 6, Histories::Shared),
            (&[], 0, 5, Histories::Unrelated),
            // A commit names its parents, also those that the mirror does not have.
            (&[0, 1, 2], 3, 2, Histories::Shared),
            (&[0, 1], 2, 4, Histories::Shared),
            (&[0, 1, 3], 3, 4, Histories::Unknown),
            (&[0, 1, 2], 3, 4, Histories::Unknown),
            (&[0], 3, 6, Histories::Unknown),
            (&[3], 3, 6, Histories::Unknown),
            (&[5], 3, 6, Histories::Unknown),
            (&[0, 1, 2, 3, 4, 5, 6, 7], 6, 6, Histories::Shared),
        ] {
            assert_eq!(
                compared(commits, missing, one, other),
                expected,
                "{missing:?} {one} {other}"
            );
        }
    }
}
