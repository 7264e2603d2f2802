//! Copies of a store.

use std::path::Path;
use std::time::Duration;

use rusqlite::backup::Backup;
use rusqlite::{Connection, OpenFlags};

use super::lock::StoreLock;
use super::{at, connect, schema};
use crate::store::{StoreError, StoreResult};

/// How many pages are copied before other processes get their turn.
const PAGES: i32 = 1000;

/// Copies the store `path` into the new file `target` (mode 0600). A server may use the store
/// meanwhile.
///
/// # Errors
/// If `target` exists, or one of the files cannot be read or written.
pub fn backup(path: &Path, target: &Path) -> StoreResult<()> {
    let source = read(path)?;
    if target.exists() {
        let why = "the file exists; give the name of a new file".to_owned();
        return Err(StoreError::Open { path: target.to_owned(), why });
    }
    let mut copy = connect(target)?;
    Backup::new(&source, &mut copy)
        .and_then(|backup| backup.run_to_completion(PAGES, Duration::from_millis(5), None))
        .map_err(|error| at(path, error.into()))
}

/// Puts the backup `source` in the place of the store `path`. What was there before, also if it is
/// damaged, is kept beside it as `PATH.before-restore`.
///
/// # Errors
/// If a server uses the store, the backup is damaged or was written by a newer version, or a file
/// cannot be written. The store is left as it is then.
pub fn restore(source: &Path, path: &Path) -> StoreResult<()> {
    let _lock = StoreLock::take(path)?;
    let failed =
        |error: std::io::Error| StoreError::Open { path: path.to_owned(), why: error.to_string() };
    let backup = read(source)?;
    check(source, &backup)?;
    // The copy is complete before it gets the name of the store.
    let directory = path.parent().unwrap_or_else(|| Path::new("."));
    let copy = tempfile::NamedTempFile::new_in(directory).map_err(failed)?;
    let mut target = connect(copy.path())?;
    Backup::new(&backup, &mut target)
        .and_then(|backup| backup.run_to_completion(PAGES, Duration::ZERO, None))
        .map_err(|error| at(source, error.into()))?;
    drop(target);
    for suffix in ["", "-wal", "-shm"] {
        let with = |suffix: &str| {
            let mut name = path.as_os_str().to_owned();
            name.push(suffix);
            std::path::PathBuf::from(name)
        };
        let file = with(suffix);
        if file.exists() {
            let kept = with(&format!(".before-restore{suffix}"));
            fs_err::rename(&file, kept).map_err(failed)?;
        }
    }
    copy.persist(path).map_err(|error| failed(error.error))?;
    Ok(())
}

fn read(path: &Path) -> StoreResult<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(path, flags)
        .map_err(|error| StoreError::Open { path: path.to_owned(), why: error.to_string() })
}

/// Whether the file is a store that this version can use.
fn check(path: &Path, connection: &Connection) -> StoreResult<()> {
    let damaged = |why: String| StoreError::Damaged { path: path.to_owned(), why };
    let pragma = |name: &str| connection.pragma_query_value(None, name, |row| row.get(0));
    let application: i32 = pragma("application_id").map_err(|error| at(path, error.into()))?;
    if application != schema::APPLICATION_ID {
        return Err(damaged("it is not a store of butler-runner".to_owned()));
    }
    let found = schema::version(connection).map_err(|error| at(path, error.into()))?;
    let known = schema::newest();
    if found > known {
        return Err(StoreError::Newer { path: path.to_owned(), found, known });
    }
    let result: String = connection
        .pragma_query_value(None, "integrity_check", |row| row.get(0))
        .map_err(|error| at(path, error.into()))?;
    if result == "ok" { Ok(()) } else { Err(damaged(result)) }
}
