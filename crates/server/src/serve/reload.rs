//! Reads the configuration again when its files change.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::desired::Desired;
use crate::config::{self, ConfigError};

/// The time between two looks at the files.
const INTERVAL: Duration = Duration::from_secs(1);

/// What tells two versions of a file apart without reading it.
type Version = (PathBuf, Option<(SystemTime, u64)>);

/// The files of a configuration, and their versions before they were read.
#[derive(Clone, Debug)]
pub struct ConfigFiles {
    path: PathBuf,
    versions: Vec<Version>,
}

impl ConfigFiles {
    /// The file or directory at `path`. It must be called before the configuration is read: a change
    /// that is made between the two is read again, and one before them is not missed.
    #[must_use]
    pub fn at(path: &Path) -> Self {
        Self { path: path.to_owned(), versions: versions(path) }
    }
}

/// Puts each valid configuration of `files` into force. One with errors leaves the last valid one in
/// force. `data` is the data directory. Never ends.
pub(super) async fn reload(files: Option<ConfigFiles>, data: &Path, desired: &Desired) {
    let Some(ConfigFiles { path, versions: mut known }) = files else {
        return std::future::pending().await;
    };
    let mut last = known.clone();
    loop {
        tokio::time::sleep(INTERVAL).await;
        let found = versions(&path);
        // A file that is still being written is read when two looks see the same.
        let is_settled = found == last;
        last.clone_from(&found);
        if found == known || !is_settled {
            continue;
        }
        known = found;
        let loaded = config::load(&path, Some(data));
        match loaded.and_then(|config| desired.configure(config)) {
            Ok(()) => tracing::info!("the configuration has changed, and is in force"),
            Err(errors) => {
                let errors: Vec<String> = errors.iter().map(ConfigError::to_string).collect();
                for error in &errors {
                    tracing::error!("the new configuration is not used: {error}");
                }
                desired.refuse(errors);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::RemoteLimits;

    #[tokio::test]
    async fn change_after_the_configuration_was_read_is_not_missed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("butler.yaml");
        std::fs::write(&path, "repositories: {a: {url: 'file:///a'}}").unwrap();
        let files = ConfigFiles::at(&path);
        let config = config::load(&path, None).unwrap();
        let desired = Desired::new(config, RemoteLimits::default());
        std::fs::write(&path, "repositories: {other: {url: 'file:///a'}}").unwrap();
        let mut configs = desired.configs();
        tokio::select! {
            () = reload(Some(files), directory.path(), &desired) => {}
            changed = configs.changed() => changed.unwrap(),
        }
        assert!(desired.config().repositories.contains_key("other"));
    }
}
