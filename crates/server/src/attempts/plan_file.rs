//! The saved plans of attempts, encrypted in the directories of the attempts.

use std::io;

use axum::body::Body;
use butler_registry::PLAN_FILE_LIMIT;
use fs_err as fs;
use futures_util::StreamExt as _;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::archive_stream::stream;
use super::directory::AttemptDirectory;
use super::file_names::SAVED_PLAN;
use crate::data::create_private;
use crate::model::{Digest, PlanDigest, Run, RunId};
use crate::plans::{KeyError, OpenError, PlanKeys, Sealer, open};

/// An encrypted plan that has not arrived completely.
const INCOMPLETE: &str = "saved-plan.new";

/// What is known about it.
const RECORD: &str = "saved-plan.json";

/// What is known about a saved plan without its key.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Record {
    sha256: PlanDigest,
}

/// What a saved plan belongs to. A file that is put elsewhere cannot be decrypted.
#[derive(Clone, Copy, Debug)]
pub struct PlanOwner<'a> {
    /// The run that made it.
    pub run: &'a RunId,
    /// What was planned.
    pub digest: &'a Digest,
}

impl<'a> PlanOwner<'a> {
    /// The plan that `run` has made.
    pub(super) const fn of(run: &'a Run) -> Self {
        Self { run: &run.id, digest: run.digest() }
    }

    fn text(self) -> String {
        format!("{} {}", self.run, self.digest.as_str())
    }
}

/// A saved plan cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PlanFileError {
    /// It was never saved, or was removed.
    #[error("its file does not exist any more")]
    Missing,
    /// It cannot be decrypted.
    #[error("its file cannot be decrypted: {0}")]
    Unreadable(String),
    /// The disk failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The keys cannot be used.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// It has too many bytes.
    #[error("the saved plan has more than {PLAN_FILE_LIMIT} bytes")]
    TooLarge,
    /// The attempt did not send all of it.
    #[error("the saved plan did not arrive: {0}")]
    Interrupted(String),
}

impl PlanFileError {
    /// Whether the plan can never be read again.
    pub(super) const fn is_final(&self) -> bool {
        matches!(self, Self::Missing | Self::Unreadable(_))
    }
}

impl From<OpenError> for PlanFileError {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Key(error) => Self::Key(error),
            OpenError::Io(error) => Self::Io(error),
            error => Self::Unreadable(error.to_string()),
        }
    }
}

/// The saved plans of all attempts.
#[derive(Clone, Debug)]
pub struct PlanFiles {
    keys: PlanKeys,
}

impl PlanFiles {
    /// Files that are encrypted with these keys.
    #[must_use]
    pub const fn new(keys: PlanKeys) -> Self {
        Self { keys }
    }

    /// The keys.
    #[must_use]
    pub const fn keys(&self) -> &PlanKeys {
        &self.keys
    }

    /// Encrypts a plan as it arrives, in place of an earlier one of the same attempt.
    ///
    /// # Errors
    /// If it cannot be received or written.
    pub async fn save(
        &self,
        directory: &AttemptDirectory,
        owner: PlanOwner<'_>,
        body: Body,
    ) -> Result<PlanDigest, PlanFileError> {
        let (path, new) = (directory.path().join(SAVED_PLAN), directory.path().join(INCOMPLETE));
        let output = io::BufWriter::new(create_private(&new)?);
        let mut sealer = Sealer::new(output, &self.keys, &owner.text())?;
        let (mut hash, mut size) = (Sha256::new(), 0);
        let mut pieces = body.into_data_stream();
        while let Some(piece) = pieces.next().await {
            let piece = piece.map_err(|error| PlanFileError::Interrupted(error.to_string()))?;
            size += piece.len() as u64;
            if size > PLAN_FILE_LIMIT {
                return Err(PlanFileError::TooLarge);
            }
            hash.update(&piece);
            // A piece takes microseconds; the disk's cache takes the rest.
            sealer.write(&piece)?;
        }
        let digest = PlanDigest::new(hex::encode(hash.finalize()));
        let (directory, recorded) = (directory.clone(), digest.clone());
        tokio::task::spawn_blocking(move || {
            let file = sealer.finish()?.into_inner().map_err(io::IntoInnerError::into_error)?;
            // The record follows: a plan that has one is complete, also after a power cut.
            file.sync_all()?;
            fs::rename(new, path)?;
            directory.write_json(RECORD, &Record { sha256: recorded })
        })
        .await
        .map_err(io::Error::other)??;
        Ok(digest)
    }

    /// The plan in the directory of the attempt that made it, if it is the one with this digest. All of it
    /// is checked before any of it is sent.
    ///
    /// # Errors
    /// If it is missing, or cannot be decrypted.
    pub fn read(
        &self,
        directory: &AttemptDirectory,
        owner: PlanOwner<'_>,
        digest: &PlanDigest,
    ) -> Result<Body, PlanFileError> {
        let (path, belongs_to) = (directory.path().join(SAVED_PLAN), owner.text());
        let mut hash = HashWriter::default();
        self.open(&path, &belongs_to, &mut hash)?;
        if hex::encode(hash.0.finalize()) != digest.as_str() {
            return Err(PlanFileError::Unreadable("it is another plan".to_owned()));
        }
        let files = self.clone();
        Ok(stream(move |mut output| {
            files.open(&path, &belongs_to, &mut output).map_err(io::Error::other)?;
            io::Write::flush(&mut output)
        }))
    }

    fn open(
        &self,
        path: &std::path::Path,
        belongs_to: &str,
        output: &mut impl io::Write,
    ) -> Result<(), PlanFileError> {
        let mut file = match std::fs::File::open(path) {
            Ok(file) => io::BufReader::new(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(PlanFileError::Missing);
            }
            Err(error) => return Err(error.into()),
        };
        Ok(open(&mut file, &self.keys, belongs_to, output)?)
    }

    /// The digest of the plan that an attempt has saved.
    #[must_use]
    pub fn digest(directory: &AttemptDirectory) -> Option<PlanDigest> {
        let record: Option<Record> = directory.read_json(RECORD).ok().flatten();
        record.map(|record| record.sha256)
    }

    /// Whether there is a plan of an attempt, or a part of one.
    #[must_use]
    pub fn exists(directory: &AttemptDirectory) -> bool {
        [SAVED_PLAN, INCOMPLETE].iter().any(|name| directory.path().join(name).exists())
    }

    /// Removes the plan of an attempt, if there is one.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub fn remove(directory: &AttemptDirectory) -> io::Result<()> {
        remove(&directory.path().join(SAVED_PLAN)).and_then(|()| Self::remove_incomplete(directory))
    }

    /// Removes what has arrived of the plan of an attempt that has ended, if it is not complete.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub fn remove_incomplete(directory: &AttemptDirectory) -> io::Result<()> {
        remove(&directory.path().join(INCOMPLETE))
    }
}

/// Removes a file, if it exists.
fn remove(path: &std::path::Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The SHA-256 of what is written to it.
#[derive(Default)]
struct HashWriter(Sha256);

impl io::Write for HashWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;

    use crate::data::DataAccess;

    use super::*;

    #[tokio::test]
    async fn plan_is_read_as_it_was_saved_and_only_for_what_it_belongs_to() {
        let root = tempfile::tempdir().unwrap();
        let keys = PlanKeys::at_or_new(&root.path().join("plan.key")).unwrap();
        let files = PlanFiles::new(keys);
        let directory = AttemptDirectory::at(&root.path().join("attempt"));
        directory.create(DataAccess::Server).unwrap();
        let (run, layer) = (RunId::new("r"), Digest::new("d"));
        let owner = PlanOwner { run: &run, digest: &layer };
        let content = b"password = precious\n".repeat(20_000);
        for content in [&content[..100], &content] {
            let saved = files.save(&directory, owner, Body::from(content.to_vec())).await.unwrap();
            assert_eq!(saved.as_str(), hex::encode(Sha256::digest(content)));
            assert_eq!(PlanFiles::digest(&directory), Some(saved.clone()));
            let body = files.read(&directory, owner, &saved).unwrap();
            assert_eq!(to_bytes(body, usize::MAX).await.unwrap(), content);
        }
        let file = std::fs::read(directory.path().join(SAVED_PLAN)).unwrap();
        assert!(!file.windows(8).any(|window| window == b"precious"));

        let digest = PlanFiles::digest(&directory).unwrap();
        let other = PlanOwner { run: &RunId::new("q"), digest: &layer };
        let refused = |owner, digest: &PlanDigest| files.read(&directory, owner, digest).map(drop);
        assert!(matches!(refused(other, &digest), Err(PlanFileError::Unreadable(_))));
        let wrong = PlanDigest::new("0");
        assert!(matches!(refused(owner, &wrong), Err(PlanFileError::Unreadable(_))));
        PlanFiles::remove(&directory).unwrap();
        PlanFiles::remove(&directory).unwrap();
        assert!(matches!(refused(owner, &digest), Err(PlanFileError::Missing)));
    }

    #[tokio::test]
    async fn plan_that_does_not_arrive_leaves_the_earlier_one() {
        let root = tempfile::tempdir().unwrap();
        let keys = PlanKeys::at_or_new(&root.path().join("plan.key")).unwrap();
        let files = PlanFiles::new(keys);
        let directory = AttemptDirectory::at(&root.path().join("attempt"));
        directory.create(DataAccess::Server).unwrap();
        let (run, layer) = (RunId::new("r"), Digest::new("d"));
        let owner = PlanOwner { run: &run, digest: &layer };
        let saved = files.save(&directory, owner, Body::from("first")).await.unwrap();
        let pieces = [Ok("seco"), Err(io::Error::other("connection reset"))];
        let broken = Body::from_stream(futures_util::stream::iter(pieces));
        let error = files.save(&directory, owner, broken).await.unwrap_err();
        assert!(matches!(error, PlanFileError::Interrupted(_)), "{error}");
        assert_eq!(PlanFiles::digest(&directory), Some(saved.clone()));
        let body = files.read(&directory, owner, &saved).unwrap();
        assert_eq!(to_bytes(body, usize::MAX).await.unwrap(), "first");
    }
}
