//! What a server has read from a repository, for the next one: which directories its layer sets
//! contain, which modules have a backend, and at which commits its includes were valid. With it, a
//! server that starts knows all layers before it has reached any git host. It is kept in files of the
//! mirror, and is lost with it.

use std::io;
use std::path::Path;

use fs_err as fs;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::data::write_private;
use crate::layers::Reading;

/// The file with what the repository contains for layers.
pub(super) const READING: &str = "butler-reading.json";

/// The file with the last valid commits of includes.
pub(super) const INCLUDES: &str = "butler-includes.json";

/// Keeps a reading in the mirror, if it `is_new` or the mirror does not have one.
pub(super) fn remember_reading(mirror: &Path, reading: &Reading, is_new: bool) -> io::Result<()> {
    let path = mirror.join(READING);
    if !is_new && path.exists() {
        return Ok(());
    }
    // Without the file, the next reading is written even if it has nothing new.
    remember(mirror, READING, reading).inspect_err(|_| drop(fs::remove_file(&path)))
}

/// Writes a file of the mirror atomically.
pub(super) fn remember(mirror: &Path, file: &str, value: &impl Serialize) -> io::Result<()> {
    let temporary = mirror.join(format!("{file}.new"));
    write_private(&temporary, &serde_json::to_vec(value)?)?;
    fs::File::open(&temporary)?.sync_all()?;
    fs::rename(&temporary, mirror.join(file))
}

/// What a file of the mirror contains. If it cannot be read, the server waits for the next reading.
pub(super) fn recall<T: DeserializeOwned>(mirror: &Path, file: &str) -> Option<T> {
    let path = mirror.join(file);
    let text = match std::fs::read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "cannot read what a repository contains");
            return None;
        }
    };
    serde_json::from_slice(&text)
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
        assert_eq!(recall::<Reading>(mirror.path(), READING), None);
        let reading = Reading {
            directories: BTreeMap::from([("all".to_owned(), vec!["envs/a".to_owned()])]),
            with_backend: BTreeSet::from(["all.envs.a".parse().unwrap()]),
            problems: vec!["two".to_owned()],
            ..Reading::default()
        };
        remember_reading(mirror.path(), &reading, false).unwrap();
        assert_eq!(recall(mirror.path(), READING), Some(reading.clone()));
        remember_reading(mirror.path(), &Reading::default(), false).unwrap();
        assert_eq!(recall(mirror.path(), READING), Some(reading));
        remember_reading(mirror.path(), &Reading::default(), true).unwrap();
        assert_eq!(recall(mirror.path(), READING), Some(Reading::default()));
        std::fs::write(mirror.path().join(READING), "{\"directories\": ").unwrap();
        assert_eq!(recall::<Reading>(mirror.path(), READING), None);
    }
}
