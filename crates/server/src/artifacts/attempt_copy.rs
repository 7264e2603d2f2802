//! How the files of an attempt are copied into the object store, and back.
//!
//! Below `attempts/RUN-NUMBER/`, each file is a directory of chunks, which are named by their offsets. The log grows
//! while the attempt runs; the other files are copied when it has ended. `end.json` is written last: with it, the copy
//! is complete. A chunk is never changed, so a copy that was interrupted goes on behind the last one.

use std::collections::BTreeMap;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;

use butler_base::blocking::blocking;
use butler_base::platform::fs::{DirBuilderExt, OpenOptionsExt};
use serde::{Deserialize, Serialize};

use super::bucket::{Bucket, BucketError};
use crate::attempts::AttemptDirectory;
use crate::attempts::file_names::{self, LOG, SAVED_PLAN};
use crate::data::create_private;

/// The most bytes of a chunk. Each chunk that is copied is in memory.
const CHUNK: u64 = 8 << 20;

/// The object that says that a copy is complete.
const END: &str = "end.json";

/// The file in the directory of an own attempt that says that it was copied.
const COPIED: &str = "copied.json";

/// The file in the directory of an attempt of another server that says how far it was copied.
const COPY: &str = "copy.json";

/// The lengths of all files.
#[derive(Debug, Default, Deserialize, Serialize)]
struct End {
    files: BTreeMap<String, u64>,
}

/// What was copied of an own attempt.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub(super) struct Copied {
    /// Whether the object store has the saved plan.
    pub(super) has_plan: bool,
}

/// How far the attempt of another server was copied.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
struct CopyState {
    is_complete: bool,
}

/// What the names of an attempt's objects begin with.
pub(crate) fn prefix(attempt: &str) -> String {
    format!("attempts/{attempt}")
}

/// What was copied of the attempt in a directory; `None` if something is missing.
pub(super) fn copied(directory: &AttemptDirectory) -> io::Result<Option<Copied>> {
    directory.read_json(COPIED)
}

/// Whether the directory is a copy of that of another server.
pub(super) fn is_copy(directory: &AttemptDirectory) -> bool {
    directory.path().join(COPY).exists()
}

/// Whether the directory is a complete copy of that of another server.
pub(super) fn is_complete_copy(directory: &AttemptDirectory) -> bool {
    let state = directory.read_json::<CopyState>(COPY);
    state.is_ok_and(|state| state.is_some_and(|state| state.is_complete))
}

/// Copies the lines that were added to the log of an attempt that runs. `from` is how much of it was copied, if it
/// is known. Returns how much of it is copied now.
///
/// # Errors
/// If the object store does not answer, or the log cannot be read.
pub(super) async fn copy_log(
    bucket: &Bucket,
    attempt: &str,
    directory: &AttemptDirectory,
    from: Option<u64>,
) -> Result<u64, BucketError> {
    let from = match from {
        Some(from) => from,
        None => contiguous(bucket.chunks(&prefix(attempt)).await?.get(LOG)),
    };
    copy_file(bucket, attempt, directory, LOG, from, Part::CompleteLines).await
}

/// Copies what an attempt has left that has ended, and records that the copy is complete.
///
/// # Errors
/// If the object store does not answer, or a file cannot be read.
pub(super) async fn copy_out(
    bucket: &Bucket,
    attempt: &str,
    directory: &AttemptDirectory,
) -> Result<Copied, BucketError> {
    let known = bucket.chunks(&prefix(attempt)).await?;
    let mut end = End::default();
    for file in file_names::ALL {
        if directory.path().join(file).exists() {
            let from = contiguous(known.get(file));
            let length = copy_file(bucket, attempt, directory, file, from, Part::All).await?;
            end.files.insert(file.to_owned(), length);
        }
    }
    let copied = Copied { has_plan: end.files.contains_key(SAVED_PLAN) };
    let end = serde_json::to_vec(&end).map_err(io::Error::other)?;
    bucket.put(&format!("{}/{END}", prefix(attempt)), 0, end).await?;
    directory.write_json(COPIED, &copied)?;
    Ok(copied)
}

/// Removes the saved plan of an own attempt from the object store. Returns what is left there.
///
/// # Errors
/// If the object store does not answer.
pub(super) async fn remove_plan(
    bucket: &Bucket,
    attempt: &str,
    directory: &AttemptDirectory,
) -> Result<Copied, BucketError> {
    bucket.delete(&format!("{}/{SAVED_PLAN}", prefix(attempt))).await?;
    let copied = Copied { has_plan: false };
    directory.write_json(COPIED, &copied)?;
    Ok(copied)
}

/// Copies what the object store has of an attempt into a directory, or what was added since the last call. Returns
/// whether the copy is complete.
///
/// # Errors
/// If the object store does not answer, or a file cannot be written.
pub(super) async fn copy_in(
    bucket: &Bucket,
    attempt: &str,
    directory: &AttemptDirectory,
) -> Result<bool, BucketError> {
    // Before the chunks are listed: all of them are there if the end is.
    let end = match bucket.get(&format!("{}/{END}", prefix(attempt)), 0).await? {
        Some(end) => Some(serde_json::from_slice::<End>(&end).map_err(io::Error::other)?),
        None => None,
    };
    let known = bucket.chunks(&prefix(attempt)).await?;
    if known.is_empty() {
        return Ok(false);
    }
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true).mode(0o700).create(directory.reports())?;
    // First: the attempt is not one of this server.
    directory.write_json(COPY, &CopyState::default())?;
    if let Some(chunks) = known.get(LOG) {
        fetch(bucket, attempt, LOG, chunks, &directory.path().join(LOG)).await?;
    }
    let files = end.iter().flat_map(|end| &end.files).filter(|(file, _)| *file != LOG);
    for (file, length) in files {
        let chunks = match known.get(file) {
            Some(chunks) => chunks,
            None if *length == 0 => &BTreeMap::new(),
            // A saved plan that is not needed any more.
            None => continue,
        };
        // A reader finds the whole file or none.
        let path = directory.path().join(file);
        let new = path.with_added_extension("copy");
        drop(create_private(&new)?);
        fetch(bucket, attempt, file, chunks, &new).await?;
        std::fs::rename(new, path)?;
    }
    let is_complete = end.is_some();
    directory.write_json(COPY, &CopyState { is_complete })?;
    Ok(is_complete)
}

/// Which part of a file is copied.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Part {
    All,
    /// A line that is being written is copied later.
    CompleteLines,
}

/// Copies a file from an offset on. Returns the offset that was reached.
async fn copy_file(
    bucket: &Bucket,
    attempt: &str,
    directory: &AttemptDirectory,
    file: &str,
    mut offset: u64,
    part: Part,
) -> Result<u64, BucketError> {
    let key = format!("{}/{file}", prefix(attempt));
    loop {
        let path = directory.path().join(file);
        let chunk = blocking(move |_| read(&path, offset, part)).await?;
        if chunk.is_empty() {
            return Ok(offset);
        }
        offset += bucket.put(&key, offset, chunk).await?;
    }
}

/// The next chunk of a file.
fn read(path: &Path, offset: u64, part: Part) -> io::Result<Vec<u8>> {
    let mut file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    file.seek(SeekFrom::Start(offset))?;
    let mut chunk = Vec::new();
    file.take(CHUNK).read_to_end(&mut chunk)?;
    if part == Part::CompleteLines {
        let end = chunk.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        chunk.truncate(end);
    }
    Ok(chunk)
}

/// Appends the chunks to a file that it does not have yet.
async fn fetch(
    bucket: &Bucket,
    attempt: &str,
    file: &str,
    chunks: &BTreeMap<u64, u64>,
    path: &Path,
) -> Result<(), BucketError> {
    let key = format!("{}/{file}", prefix(attempt));
    let mut options = std::fs::OpenOptions::new();
    let mut output = options.append(true).create(true).mode(0o600).open(path)?;
    let mut length = output.metadata()?.len();
    for (offset, size) in chunks {
        if offset + size <= length || *offset > length {
            continue;
        }
        // It was removed meanwhile: a plan that is not needed any more.
        let Some(chunk) = bucket.get(&key, *offset).await? else { return Ok(()) };
        // A copy that was interrupted can have a part of it.
        let rest = usize::try_from(length - offset).map_err(io::Error::other)?;
        let rest = chunk.get(rest..).unwrap_or_default();
        output.write_all(rest)?;
        length += rest.len() as u64;
    }
    Ok(())
}

/// How much of a file its chunks have, without a gap.
fn contiguous(chunks: Option<&BTreeMap<u64, u64>>) -> u64 {
    let mut end = 0;
    for (offset, size) in chunks.into_iter().flatten() {
        if *offset == end {
            end += size;
        }
    }
    end
}

#[cfg(test)]
#[path = "attempt_copy_tests.rs"]
mod tests;
