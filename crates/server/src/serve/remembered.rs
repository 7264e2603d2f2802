//! What a server has read from a repository, for the next one: which directories its layer sets
//! contain, and which modules have a backend. With it, a server that starts knows all layers before it
//! has reached any git host. It is a file in the mirror, and is lost with it.

use std::io;
use std::path::Path;

use fs_err as fs;

use crate::data::write_private;
use crate::layers::Reading;

/// The name of the file.
const FILE: &str = "butler-reading.json";

/// Keeps a reading in the mirror, if it `is_new` or the mirror does not have one. It is written
/// atomically.
pub(super) fn remember(mirror: &Path, reading: &Reading, is_new: bool) -> io::Result<()> {
    let path = mirror.join(FILE);
    if !is_new && path.exists() {
        return Ok(());
    }
    let temporary = mirror.join(format!("{FILE}.new"));
    let write = || {
        write_private(&temporary, &serde_json::to_vec(reading)?)?;
        fs::File::open(&temporary)?.sync_all()?;
        fs::rename(&temporary, &path)
    };
    // Without the file, the next reading is written even if it has nothing new.
    write().inspect_err(|_| drop(fs::remove_file(&path)))
}

/// The reading in the mirror. If it cannot be read, the server waits for the next one.
pub(super) fn recall(mirror: &Path) -> Option<Reading> {
    let path = mirror.join(FILE);
    let text = match std::fs::read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "cannot read what a repository contains");
            return None;
        }
    };
    let reading = serde_json::from_slice(&text);
    reading
        .inspect_err(|error| {
            tracing::warn!(path = %path.display(), %error, "cannot read what a repository contains");
        })
        .ok()
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    #[test]
    fn reading_is_kept_without_what_the_store_has() {
        let mirror = tempfile::tempdir().unwrap();
        assert_eq!(recall(mirror.path()), None);
        let reading = Reading {
            directories: BTreeMap::from([("all".to_owned(), vec!["envs/a".to_owned()])]),
            with_backend: BTreeSet::from(["all.envs.a".parse().unwrap()]),
            problems: vec!["two".to_owned()],
            ..Reading::default()
        };
        remember(mirror.path(), &reading, false).unwrap();
        assert_eq!(recall(mirror.path()), Some(reading.clone()));
        remember(mirror.path(), &Reading::default(), false).unwrap();
        assert_eq!(recall(mirror.path()), Some(reading));
        remember(mirror.path(), &Reading::default(), true).unwrap();
        assert_eq!(recall(mirror.path()), Some(Reading::default()));
        std::fs::write(mirror.path().join(FILE), "{\"directories\": ").unwrap();
        assert_eq!(recall(mirror.path()), None);
    }
}
