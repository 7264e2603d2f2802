//! What is remembered of an installed executable: its verified sum, and what its file looked like.
//!
//! As long as the file looks the same (device, inode, size, times, owner, mode), it is the one that
//! was summed up; a process without root's powers cannot change a file and keep its change time.
//! When it looks different, only the sum says whether it still is the one that was verified.

use std::fs::Metadata;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::digest::Sha256Sum;

/// How the names of files begin that are being written.
pub(super) const UNFINISHED: &str = ".record-";

/// What tells one state of a file from another without reading it.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(super) struct Identity {
    device: u64,
    inode: u64,
    size: u64,
    /// Seconds and nanoseconds.
    modified: (i64, i64),
    /// Seconds and nanoseconds.
    changed: (i64, i64),
    owner: u32,
    mode: u32,
}

impl Identity {
    /// The same, but as no file can look like.
    pub(super) fn unlike_any(&self) -> Self {
        Self { inode: 0, changed: (0, 0), ..self.clone() }
    }
}

impl From<&Metadata> for Identity {
    fn from(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
            owner: metadata.uid(),
            mode: metadata.mode(),
        }
    }
}

/// An installed executable, as `install.json` beside it says.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Record {
    /// The platform that it is for: a cache may be shared by machines of several kinds.
    pub(super) platform: String,
    /// The sum of the executable, taken while it was unpacked from the verified archive.
    pub(super) executable_sha256: Sha256Sum,
    /// The sum of the archive, as it was signed.
    pub(super) archive_sha256: Sha256Sum,
    /// Where the archive came from.
    pub(super) archive_url: String,
    /// The fingerprint of the certificate that signed; none where nobody did, and only the
    /// checksum that was published beside the archive was checked.
    pub(super) signer: Option<String>,
    /// When, by RFC 3339.
    pub(super) installed_at: String,
    /// What the executable's file looked like when it was last summed up.
    pub(super) identity: Identity,
}

/// Reads a JSON file of the cache. What is not there, cannot be read or has another shape is none.
pub(super) fn read<T: DeserializeOwned>(path: &Path) -> Option<T> {
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}

/// Writes a JSON file of the cache: beside, synced, and put in place at once.
pub(super) fn write(path: &Path, value: &impl Serialize) -> std::io::Result<()> {
    let directory = path.parent().unwrap_or(path);
    let mut file = tempfile::Builder::new()
        .prefix(UNFINISHED)
        .permissions(std::fs::Permissions::from_mode(0o600))
        .tempfile_in(directory)?;
    file.write_all(&serde_json::to_vec_pretty(value)?)?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}
