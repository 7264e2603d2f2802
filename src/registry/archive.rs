//! Downloads tar archives: the files of a module, and saved plans.

use std::fs::File;
use std::io::{Seek, Write};
use std::time::Duration;

use reqwest::Response;
use reqwest::header::CONTENT_ENCODING;

use super::RegistryError;
use super::response::unreachable;

/// The largest archive that is sent or accepted, in bytes. A plain tar is at least as large as its files.
pub(super) const MAX_ARCHIVE: u64 = 256 * 1024 * 1024;

/// The size of the two blocks of zeros at the end of a tar, in bytes.
const END: usize = 1024;

/// Writes the body of `response`, which is the archive `what`, to `file`, from its beginning. Each part of it must arrive within `patience`.
///
/// # Errors
/// When the body ends early, is larger than 256 MiB, is not a complete tar, or cannot be written.
pub(super) async fn store(
    mut response: Response,
    mut file: &File,
    what: &'static str,
    patience: Duration,
) -> Result<(), RegistryError> {
    let act = format!("send {what}");
    let stored = |source| RegistryError::File { act: "store", what, source };
    let unknown = || RegistryError::UnknownFormat { what: act.clone() };
    if response.headers().get(CONTENT_ENCODING).is_some_and(|coding| coding != "identity") {
        return Err(unknown());
    }
    file.set_len(0).and_then(|()| file.rewind()).map_err(stored)?;
    let (mut length, mut end) = (0, Vec::new());
    loop {
        let chunk = tokio::time::timeout(patience, response.chunk()).await;
        let chunk =
            chunk.map_err(|_| RegistryError::Timeout { what: act.clone(), limit: patience })?;
        let Some(chunk) = chunk.map_err(|source| unreachable(&act, source))? else { break };
        length += chunk.len() as u64;
        if length > MAX_ARCHIVE {
            return Err(RegistryError::FileTooLarge { what, limit: MAX_ARCHIVE });
        }
        file.write_all(&chunk).map_err(stored)?;
        end.extend_from_slice(&chunk[chunk.len().saturating_sub(END)..]);
        end.drain(..end.len().saturating_sub(END));
    }
    // Without its end, an archive could lack files, and Terraform would destroy what they describe.
    if end.len() == END && end.iter().all(|byte| *byte == 0) { Ok(()) } else { Err(unknown()) }
}
