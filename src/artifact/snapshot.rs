//! Finds the files that a plan creates, by comparing the directory before and after.
//!
//! Data sources such as `archive_file` write files when they are planned, and Terraform needs these
//! when the plan is applied.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::LOCK_FILE;
use super::digest::file_digest;
use super::manifest::EXCLUDED_DIRECTORIES;

/// Extensions of states, their backups and locks, which only Terraform writes.
const STATES: [&str; 3] = [".tfstate", ".tfstate.backup", ".tfstate.lock.info"];

/// Directories of states of other workspaces, and of Terragrunt's copies.
const NOT_CREATED: [&str; 2] = ["terraform.tfstate.d", ".terragrunt-cache"];

/// The largest file of a module, in bytes, whose content is compared after a plan. To read larger ones before each plan
/// would take seconds.
const MOST_DIGESTED: u64 = 64 << 20;

/// The files below a directory at one moment.
#[derive(Debug, Default)]
pub struct Snapshot {
    files: BTreeMap<PathBuf, Stamp>,
    /// The SHA-256 sums of their contents.
    digests: BTreeMap<PathBuf, String>,
}

/// The size and the time of the last change.
type Stamp = (u64, Option<SystemTime>);

impl Snapshot {
    /// Lists all files below `directory`, except at and below the paths in `others`, which another program
    /// writes. Links are not followed. Unreadable files are skipped.
    #[must_use]
    pub fn of(directory: &Path, others: &[PathBuf]) -> Self {
        let mut files = BTreeMap::new();
        let mut waiting = vec![PathBuf::new()];
        while let Some(inner) = waiting.pop() {
            let entries = std::fs::read_dir(directory.join(&inner)).into_iter().flatten().flatten();
            for entry in entries {
                let (name, path) = (entry.file_name(), inner.join(entry.file_name()));
                let Ok(found) = entry.metadata() else { continue };
                if others.contains(&directory.join(&path)) {
                    continue;
                }
                if found.is_dir()
                    && !EXCLUDED_DIRECTORIES
                        .iter()
                        .chain(&NOT_CREATED)
                        .any(|closed| name == **closed)
                {
                    waiting.push(path);
                } else if found.is_file() && !is_of_state(&path) {
                    files.insert(path, (found.len(), found.modified().ok()));
                }
            }
        }
        Self { files, digests: BTreeMap::new() }
    }

    /// The same with the contents of the files in `directory`.
    #[must_use]
    pub fn with_contents(mut self, directory: &Path) -> Self {
        let small = self.files.iter().filter(|(_, (size, _))| *size <= MOST_DIGESTED);
        let digest = |(path, _): (&PathBuf, _)| {
            Some((path.clone(), file_digest(&directory.join(path)).ok()?))
        };
        self.digests = small.filter_map(digest).collect();
        self
    }

    /// The SHA-256 sum of a file, in hexadecimal digits, if it is known.
    pub(super) fn digest(&self, path: &Path) -> Option<&str> {
        self.digests.get(path).map(String::as_str)
    }

    /// The files that are new or were written since `before`, in the order of their names, without the lock file of
    /// providers.
    #[must_use]
    pub fn created_since(self, before: &Self) -> Vec<PathBuf> {
        let is_new = |(path, stamp): &(PathBuf, _)| {
            path != Path::new(LOCK_FILE) && before.files.get(path) != Some(stamp)
        };
        self.files.into_iter().filter(is_new).map(|(path, _)| path).collect()
    }
}

fn is_of_state(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    STATES.iter().any(|ending| name.ends_with(ending))
}
