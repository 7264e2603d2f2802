//! The files of a configuration, and when they change.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The time between two looks at the files.
const INTERVAL: Duration = Duration::from_secs(1);

/// What tells two versions of a file apart without reading it.
type Version = (PathBuf, Option<(SystemTime, u64)>);

/// The files of a configuration, and their versions before they were read.
#[derive(Clone, Debug)]
pub struct ConfigFiles {
    path: PathBuf,
    versions: Vec<Version>,
    /// At the last look.
    last: Vec<Version>,
}

impl ConfigFiles {
    /// The file or directory at `path`. It must be called before the configuration is read: a change
    /// that is made between the two is read again, and one before them is not missed.
    #[must_use]
    pub fn at(path: &Path) -> Self {
        let versions = versions(path);
        Self { path: path.to_owned(), last: versions.clone(), versions }
    }

    /// The file or directory.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Waits until the files have changed.
    pub(super) async fn changed(&mut self) {
        loop {
            tokio::time::sleep(INTERVAL).await;
            let found = versions(&self.path);
            // A file that is still being written is read when two looks see the same.
            let is_settled = found == self.last;
            self.last.clone_from(&found);
            if found != self.versions && is_settled {
                self.versions = found;
                return;
            }
        }
    }
}

/// The files at `path`, in the order of their names.
fn versions(path: &Path) -> Vec<Version> {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    files.push(path.to_owned());
    files.sort();
    let version = |path: PathBuf| {
        let found = std::fs::metadata(&path).ok();
        let version = found.and_then(|found| Some((found.modified().ok()?, found.len())));
        (path, version)
    };
    files.into_iter().map(version).collect()
}
