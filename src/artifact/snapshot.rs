//! Finds the files that a plan creates, by comparing the directory before and after.
//!
//! Data sources such as `archive_file` write files when they are planned, and Terraform needs these
//! when the plan is applied.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::LOCK_FILE;
use super::manifest::EXCLUDED_DIRECTORIES;

/// Extensions of states, their backups and locks, which only Terraform writes.
const STATES: [&str; 3] = [".tfstate", ".tfstate.backup", ".tfstate.lock.info"];

/// Directories of states of other workspaces, and of Terragrunt's copies.
const NOT_CREATED: [&str; 2] = ["terraform.tfstate.d", ".terragrunt-cache"];

/// The files below a directory at one moment.
#[derive(Debug, Default)]
pub struct Snapshot(BTreeMap<PathBuf, (u64, Option<SystemTime>)>);

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
                } else if found.is_file() && !is_state_or_lock_file(&path) {
                    files.insert(path, (found.len(), found.modified().ok()));
                }
            }
        }
        Self(files)
    }

    /// The files that are new or were written since `before`, in the order of their names.
    #[must_use]
    pub fn created_since(self, before: &Self) -> Vec<PathBuf> {
        let is_new = |(path, stamp): &(PathBuf, _)| before.0.get(path) != Some(stamp);
        self.0.into_iter().filter(is_new).map(|(path, _)| path).collect()
    }
}

fn is_state_or_lock_file(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path == Path::new(LOCK_FILE) || STATES.iter().any(|ending| name.ends_with(ending))
}
