//! What errors of SQLite mean.

use std::path::PathBuf;

use crate::store::StoreError;

/// The advice if no space is left.
pub(super) const FULL: &str = "its disk is full; free space on it";

impl From<rusqlite::Error> for StoreError {
    /// The path is added by the store ([`super::SqliteStore`]), which knows it.
    fn from(error: rusqlite::Error) -> Self {
        let is_damaged = match &error {
            rusqlite::Error::SqliteFailure(failure, _) => matches!(
                failure.code,
                rusqlite::ErrorCode::DatabaseCorrupt | rusqlite::ErrorCode::NotADatabase
            ),
            rusqlite::Error::FromSqlConversionFailure(..) => true,
            _ => false,
        };
        let is_full = matches!(
            &error,
            rusqlite::Error::SqliteFailure(failure, _)
                if failure.code == rusqlite::ErrorCode::DiskFull
        );
        if is_damaged {
            Self::Damaged { path: PathBuf::new(), why: error.to_string() }
        } else if is_full {
            Self::Full(FULL.to_owned())
        } else {
            Self::Unavailable(error.to_string())
        }
    }
}
