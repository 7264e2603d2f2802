//! The record of an installed executable: its verified checksum and the metadata of its file.
//!
//! As long as the metadata is the same (device, inode, size, times, owner, mode), the file is the
//! one that was verified: a process without root privileges cannot change a file and keep its
//! change time. If the metadata differs, only the checksum shows whether it is still the verified
//! file.

use std::fs::Metadata;
use std::io::Write;
use std::path::Path;
use std::time::SystemTime;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::tool::digest::Sha256Sum;
use butler_base::platform::fs::{MetadataExt, PermissionsExt};

/// The prefix of files that are being written.
pub(in crate::tool) const UNFINISHED: &str = ".record-";

/// The metadata that changes when a file changes.
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
    /// Whether a file with this `metadata` may be a copy with the same time, as in the layers of an image,
    /// which have no nanoseconds.
    pub(in crate::tool) fn may_be_copied_to(&self, metadata: &Metadata) -> bool {
        self.size == metadata.size() && self.modified.0 == metadata.mtime()
    }

    /// A copy that matches no file.
    pub(in crate::tool) fn invalidated(&self) -> Self {
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

/// Why an archive is trusted. Serialized as one text.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(try_from = "String", into = "String")]
pub(in crate::tool) enum Trusted {
    /// Its checksum is in a checksum file that a trusted key signed.
    Signature {
        /// The fingerprint of the certificate that signed.
        fingerprint: String,
    },
    /// The user gave its checksum, together with its URL.
    Checksum,
    /// Its checksum is in an unsigned checksum file on the vendor's own site.
    Unsigned,
}

impl Trusted {
    /// The fingerprint of the signing certificate, if there is one.
    pub(in crate::tool) fn fingerprint(&self) -> Option<&str> {
        match self {
            Self::Signature { fingerprint } => Some(fingerprint),
            Self::Checksum | Self::Unsigned => None,
        }
    }
}

/// The texts that replace the fingerprint of a signer.
const BY_USER: &str = "none, checksum given by the user";
const BY_NO_KEY: &str = "none, published without a signature";

/// The text for the signer is not a fingerprint.
#[derive(Debug, thiserror::Error)]
#[error("the signer must be the fingerprint of a key")]
pub(in crate::tool) struct NoFingerprint;

impl TryFrom<String> for Trusted {
    type Error = NoFingerprint;

    fn try_from(text: String) -> Result<Self, NoFingerprint> {
        match text.as_str() {
            BY_USER => Ok(Self::Checksum),
            BY_NO_KEY => Ok(Self::Unsigned),
            // The fingerprints of OpenPGP keys of versions 4 and 6.
            _ if matches!(text.len(), 40 | 64) && text.bytes().all(|it| it.is_ascii_hexdigit()) => {
                Ok(Self::Signature { fingerprint: text })
            }
            _ => Err(NoFingerprint),
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
            Self::Unsigned => BY_NO_KEY,
        })
    }
}

/// The content of `install.json`, next to an installed executable.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::tool) struct Record {
    /// The platform of the executable. Machines of several platforms may share a cache.
    pub(in crate::tool) platform: String,
    /// The checksum of the executable, computed when it was unpacked from the verified archive.
    pub(in crate::tool) executable_sha256: Sha256Sum,
    /// The checksum of the archive.
    pub(in crate::tool) archive_sha256: Sha256Sum,
    /// The URL of the archive, without credentials.
    pub(in crate::tool) archive_url: String,
    /// Why the archive was trusted.
    pub(in crate::tool) signer: Trusted,
    /// The time of the installation, by RFC 3339.
    pub(in crate::tool) installed_at: String,
    /// The metadata of the executable when its checksum was last computed.
    pub(in crate::tool) identity: Identity,
}

/// A point in time by RFC 3339, to the second.
pub(in crate::tool) fn rfc3339(time: SystemTime) -> String {
    humantime::format_rfc3339_seconds(time).to_string()
}

/// Reads a JSON file of the cache; `None` if it is missing, unreadable, or of another format.
pub(in crate::tool) fn read<T: DeserializeOwned>(path: &Path) -> Option<T> {
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}

/// Writes a JSON file of the cache: to a temporary file that is synced and renamed.
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
    fn trust_of_an_archive_is_serialized_as_text() {
        let signed = |length: usize| Trusted::Signature { fingerprint: "C8".repeat(length / 2) };
        for (trusted, text) in [
            (Trusted::Checksum, "none, checksum given by the user".to_owned()),
            (Trusted::Unsigned, "none, published without a signature".to_owned()),
            (signed(40), "C8".repeat(20)),
            (signed(64), "C8".repeat(32)),
        ] {
            let text = format!("\"{text}\"");
            assert_eq!(serde_json::to_string(&trusted).unwrap(), text);
            assert_eq!(serde_json::from_str::<Trusted>(&text).unwrap(), trusted);
        }
    }

    #[test]
    fn only_a_fingerprint_is_read_as_a_signature() {
        for text in ["", "C874", "none", &"C".repeat(41), &"g".repeat(40), "\u{1b}[2J"] {
            let text = serde_json::to_string(text).unwrap();
            assert!(serde_json::from_str::<Trusted>(&text).is_err(), "{text}");
        }
    }
}
