//! What is wrong with a store.

use std::path::PathBuf;

/// What is wrong with the store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// It does not answer. The change may have been made.
    #[error("the store does not answer: {0}")]
    Unavailable(String),
    /// Its disk is full, so it takes no changes.
    #[error("the store takes no changes: {0}")]
    Full(String),
    /// It cannot be opened or created.
    #[error("cannot open the store `{}`: {why}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// What failed.
        why: String,
    },
    /// The database cannot be used.
    #[error("cannot use the store `{address}`: {why}")]
    Connect {
        /// Its address, without a password.
        address: String,
        /// What failed.
        why: String,
    },
    /// The database cannot be reached now.
    #[error("the store `{address}` does not answer: {why}")]
    Away {
        /// Its address, without a password.
        address: String,
        /// The failure.
        why: String,
    },
    /// Another server uses it.
    #[error("the store `{}` is used by {holder}; stop that server, or use another `--data`", path.display())]
    InUse {
        /// The file.
        path: PathBuf,
        /// The process that holds the lock.
        holder: String,
    },
    /// Its content is not valid. It is left as it is.
    #[error(
        "the store `{}` is damaged: {why}; `butler-runner store restore FILE` puts a backup in its \
         place", path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// A newer version has written it.
    #[error(
        "the store `{}` has schema version {found}, and this version of butler-runner knows \
         versions up to {known}; use a newer butler-runner", path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// The version of its schema.
        found: u32,
        /// The newest version that is known.
        known: u32,
    },
}

impl StoreError {
    /// Whether it does not answer now, and can answer later without a change of anything.
    #[must_use]
    pub const fn is_away(&self) -> bool {
        matches!(self, Self::Away { .. } | Self::Unavailable(_))
    }
}

/// The result of a transaction.
pub type StoreResult<T> = Result<T, StoreError>;
