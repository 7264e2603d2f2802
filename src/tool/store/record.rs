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

use crate::tool::digest::Sha256Sum;

/// How the names of files begin that are being written.
pub(in crate::tool) const UNFINISHED: &str = ".record-";

/// What tells one state of a file from another without reading it.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(in crate::tool) struct Identity {
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
    pub(in crate::tool) fn unlike_any(&self) -> Self {
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

/// Why an archive is trusted.
///
/// Written as one text, so that what older versions wrote can be read.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(from = "String", into = "String")]
pub(in crate::tool) enum Trusted {
    /// Its sum is in a checksum file that a trusted key signed.
    Signature {
        /// The fingerprint of the certificate that signed.
        fingerprint: String,
    },
    /// Its sum is the one that the user gave, together with its URL.
    Checksum,
    /// Its sum is in a checksum file on the vendor's own site, from before the vendor signed.
    Unsigned,
}

impl Trusted {
    /// The fingerprint of the certificate that signed, if one did.
    pub(in crate::tool) fn fingerprint(&self) -> Option<&str> {
        match self {
            Self::Signature { fingerprint } => Some(fingerprint),
            Self::Checksum | Self::Unsigned => None,
        }
    }
}

/// What stands where the fingerprint of a signer does.
const BY_USER: &str = "none, checksum given by the user";
const BY_NOBODY: &str = "none, published without a signature";

impl From<String> for Trusted {
    fn from(text: String) -> Self {
        match text.as_str() {
            BY_USER => Self::Checksum,
            BY_NOBODY => Self::Unsigned,
            _ => Self::Signature { fingerprint: text },
        }
    }
}

impl From<Trusted> for String {
    fn from(trusted: Trusted) -> Self {
        trusted.to_string()
    }
}

impl std::fmt::Display for Trusted {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Signature { fingerprint } => fingerprint,
            Self::Checksum => BY_USER,
            Self::Unsigned => BY_NOBODY,
        })
    }
}

/// An installed executable, as `install.json` beside it says.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::tool) struct Record {
    /// The platform that it is for: a cache may be shared by machines of several kinds.
    pub(in crate::tool) platform: String,
    /// The sum of the executable, taken while it was unpacked from the verified archive.
    pub(in crate::tool) executable_sha256: Sha256Sum,
    /// The sum of the archive, as it was signed.
    pub(in crate::tool) archive_sha256: Sha256Sum,
    /// Where the archive came from.
    pub(in crate::tool) archive_url: String,
    /// Why the archive was trusted.
    pub(in crate::tool) signer: Trusted,
    /// When, by RFC 3339.
    pub(in crate::tool) installed_at: String,
    /// What the executable's file looked like when it was last summed up.
    pub(in crate::tool) identity: Identity,
}

/// Reads a JSON file of the cache. What is not there, cannot be read or has another shape is none.
pub(in crate::tool) fn read<T: DeserializeOwned>(path: &Path) -> Option<T> {
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}

/// Writes a JSON file of the cache: beside, synced, and put in place at once.
pub(in crate::tool) fn write(path: &Path, value: &impl Serialize) -> std::io::Result<()> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn why_an_archive_is_trusted_is_one_text() {
        for (trusted, text) in [
            (Trusted::Checksum, "\"none, checksum given by the user\""),
            (Trusted::Signature { fingerprint: "C874".to_owned() }, "\"C874\""),
        ] {
            assert_eq!(serde_json::to_string(&trusted).unwrap(), text);
            assert_eq!(serde_json::from_str::<Trusted>(text).unwrap(), trusted);
        }
    }
}
