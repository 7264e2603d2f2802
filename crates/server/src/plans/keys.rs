//! The keys that encrypt saved plans.

use std::io;
use std::path::{Path, PathBuf};

use butler_base::platform::fs::{MetadataExt, OpenOptionsExt};
use fs_err as fs;
use secrecy::{ExposeSecret, SecretBox};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

/// The size of a key, in bytes.
const SIZE: usize = 32;

/// The file of keys cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// It cannot be read or created.
    #[error("cannot read the key file `{}`", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// It contains something else.
    #[error(
        "line {line} of the key file `{}` is not a key: 64 hexadecimal digits, such as \
         `openssl rand -hex 32` prints", path.display()
    )]
    Line {
        /// The file.
        path: PathBuf,
        /// Its line, from 1.
        line: usize,
    },
    /// It contains no key.
    #[error(
        "the key file `{}` contains no key; `openssl rand -hex 32` makes one", path.display()
    )]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// Others can read it.
    #[error("other users can read the key file `{}`; set its mode to 0600", path.display())]
    Mode {
        /// The file.
        path: PathBuf,
    },
}

/// Which key it is, without saying anything about the key: the beginning of its SHA-256.
pub(super) type KeyId = [u8; 8];

/// One key.
pub(super) struct PlanKey {
    bytes: SecretBox<[u8; SIZE]>,
}

impl PlanKey {
    pub(super) fn id(&self) -> KeyId {
        let mut id = KeyId::default();
        let hash = Sha256::digest(self.bytes.expose_secret());
        id.iter_mut().zip(hash).for_each(|(to, from)| *to = from);
        id
    }

    pub(super) fn bytes(&self) -> &[u8; SIZE] {
        self.bytes.expose_secret()
    }

    fn parse(text: &str) -> Option<Self> {
        let mut bytes = SecretBox::new(Box::new([0; SIZE]));
        hex::decode_to_slice(text, secrecy::ExposeSecretMut::expose_secret_mut(&mut bytes)).ok()?;
        Some(Self { bytes })
    }
}

/// The file of keys: one key of 64 hexadecimal digits a line. The first one encrypts, the others only
/// decrypt what they have encrypted before. Empty lines and those that begin with `#` do not count.
///
/// The file is read each time a plan is saved or applied, so that new keys need no restart.
#[derive(Clone, Debug)]
pub struct PlanKeys {
    path: PathBuf,
}

impl PlanKeys {
    /// The keys in the file at `path`, which must exist and be valid.
    ///
    /// # Errors
    /// If it cannot be used.
    pub fn at(path: &Path) -> Result<Self, KeyError> {
        let keys = Self { path: path.to_owned() };
        keys.read()?;
        Ok(keys)
    }

    /// The same. If the file does not exist, it is created with a new key and mode 0600.
    ///
    /// # Errors
    /// If it cannot be created or used.
    pub fn at_or_new(path: &Path) -> Result<Self, KeyError> {
        match create(path) {
            Err(source) if source.kind() != io::ErrorKind::AlreadyExists => {
                Err(KeyError::File { path: path.to_owned(), source })
            }
            _ => Self::at(path),
        }
    }

    /// All keys, the one that encrypts first. There is at least one.
    fn read(&self) -> Result<Vec<PlanKey>, KeyError> {
        let path = || self.path.clone();
        let failed = |source| KeyError::File { path: path(), source };
        let mode = fs::metadata(&self.path).map_err(failed)?.mode();
        if mode & 0o007 != 0 {
            return Err(KeyError::Mode { path: path() });
        }
        let text = Zeroizing::new(fs::read_to_string(&self.path).map_err(failed)?);
        let mut keys = Vec::new();
        for (index, line) in text.lines().map(str::trim).enumerate() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let key = PlanKey::parse(line);
            keys.push(key.ok_or_else(|| KeyError::Line { path: path(), line: index + 1 })?);
        }
        if keys.is_empty() { Err(KeyError::Empty { path: path() }) } else { Ok(keys) }
    }

    /// The key that encrypts.
    pub(super) fn newest(&self) -> Result<PlanKey, KeyError> {
        let first = self.read()?.into_iter().next();
        first.ok_or_else(|| KeyError::Empty { path: self.path.clone() })
    }

    /// The key with this id; `None` if it was removed from the file.
    pub(super) fn find(&self, id: KeyId) -> Result<Option<PlanKey>, KeyError> {
        Ok(self.read()?.into_iter().find(|key| key.id() == id))
    }
}

/// Creates the file with a new key. It is complete when it has its name.
fn create(path: &Path) -> io::Result<()> {
    if path.try_exists()? {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    let mut bytes = Zeroizing::new([0; SIZE]);
    getrandom::fill(&mut *bytes).map_err(io::Error::other)?;
    let text = Zeroizing::new(format!("{}\n", *Zeroizing::new(hex::encode(*bytes))));
    let directory = path.parent().unwrap_or(Path::new("."));
    let mut builder = tempfile::Builder::new();
    let file = builder.prefix(".plan.key").make_in(directory, |path| {
        std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
    })?;
    io::Write::write_all(&mut file.as_file(), text.as_bytes())?;
    file.as_file().sync_all()?;
    file.persist_noclobber(path).map(drop).map_err(|error| error.error)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn key_file_is_made_once_and_only_its_owner_can_read_it() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("plan.key");
        let first = PlanKeys::at_or_new(&path).unwrap().newest().unwrap().id();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(PlanKeys::at_or_new(&path).unwrap().newest().unwrap().id(), first);
        assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 1);
    }

    #[test]
    fn first_key_encrypts_and_others_are_found_by_their_id() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("keys");
        let keys = PlanKeys::at_or_new(&path).unwrap();
        let old = keys.newest().unwrap().id();
        let rotated =
            format!("# new\n{}\n\n{}", "ab".repeat(32), std::fs::read_to_string(&path).unwrap());
        std::fs::write(&path, rotated).unwrap();
        let new = keys.newest().unwrap().id();
        assert_ne!(new, old);
        assert!(keys.find(old).unwrap().is_some() && keys.find(new).unwrap().is_some());
        std::fs::write(&path, "ab".repeat(32)).unwrap();
        assert!(keys.find(old).unwrap().is_none());
    }

    #[test]
    fn unusable_key_files_are_refused_without_their_content() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("keys");
        let refused = |content: &str, mode: u32| {
            std::fs::write(&path, content).unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
            let error = PlanKeys::at_or_new(&path).unwrap_err();
            format!("{error} {error:?}")
        };
        let key = "ab".repeat(32);
        assert!(refused(&format!("{key}\nprecious"), 0o600).starts_with("line 2 of the key file"));
        assert!(!refused("precious", 0o600).contains("precious"));
        assert!(refused("# none\n", 0o600).contains("contains no key"));
        assert!(refused(&key, 0o644).contains("set its mode to 0600"));
        std::fs::remove_file(&path).unwrap();
        assert!(PlanKeys::at(&path).unwrap_err().to_string().contains("cannot read"));
    }
}
