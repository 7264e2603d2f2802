//! Copies of a store.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

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
/// If `target` exists, the store is damaged, or one of the files cannot be read or written. Then
/// `target` is not created.
pub fn backup(path: &Path, target: &Path) -> StoreResult<()> {
    let failed = |why: String| StoreError::Open { path: target.to_owned(), why };
    let source = read(path)?;
    // A copy that is not complete never has the name of the backup.
    let copy = tempfile::NamedTempFile::new_in(parent(target))
        .map_err(|error| failed(error.to_string()))?;
    copy_store(path, &source, copy.path())?;
    check(path, &read(copy.path())?, FULL_CHECK)?;
    copy.persist_noclobber(target).map_err(|error| match error.error.kind() {
        std::io::ErrorKind::AlreadyExists => {
            failed("the file exists; give the name of a new file".to_owned())
        }
        _ => failed(error.error.to_string()),
    })?;
    Ok(())
}

/// Puts the backup `source` in the place of the store `path`. What was there before, also if it is
/// damaged, is kept beside it as `PATH.replaced-TIME`; this path is returned.
///
/// # Errors
/// If a server uses the store, the backup is damaged or was written by a newer version, or a file
/// cannot be written. The store is left as it is then.
pub fn restore(source: &Path, path: &Path) -> StoreResult<Option<PathBuf>> {
    let _lock = StoreLock::take(path)?;
    let failed =
        |error: std::io::Error| StoreError::Open { path: path.to_owned(), why: error.to_string() };
    // A backup cannot be replaced by a backup.
    let of_backup = |error: StoreError| match error {
        StoreError::Damaged { path, why } => {
            StoreError::Open { path, why: format!("the backup is damaged: {why}") }
        }
        error => error,
    };
    let backup = read(source)?;
    check(source, &backup, FULL_CHECK).map_err(of_backup)?;
    // The copy is complete before it gets the name of the store.
    let copy = tempfile::NamedTempFile::new_in(parent(path)).map_err(failed)?;
    copy_store(source, &backup, copy.path()).map_err(of_backup)?;
    let kept = keep(path, ".replaced-").map_err(failed)?;
    copy.persist(path).map_err(|error| failed(error.error))?;
    Ok(kept)
}

/// Renames the store `path` to `PATH`, `suffix` and the time. Returns the new name, if the store exists.
///
/// # Errors
/// If it cannot be renamed.
pub(in crate::store) fn set_aside(path: &Path, suffix: &str) -> std::io::Result<Option<PathBuf>> {
    let kept = keep(path, suffix)?;
    if kept.is_some() && path.exists() {
        fs_err::remove_file(path)?;
    }
    Ok(kept)
}

/// Gives the store `path` a second name, which ends with `suffix` and the time; where the file system has no links,
/// it loses the first one.
fn keep(path: &Path, suffix: &str) -> std::io::Result<Option<PathBuf>> {
    let beside = |suffix: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        PathBuf::from(name)
    };
    let time = humantime::format_rfc3339_millis(SystemTime::now()).to_string();
    let suffix = format!("{suffix}{}", time.replace([':', '-'], ""));
    let mut kept = None;
    if path.exists() {
        let name = beside(&suffix);
        // If this process is killed here, the store still has its name.
        fs_err::hard_link(path, &name).or_else(|_| fs_err::rename(path, &name))?;
        kept = Some(name);
    }
    for part in ["-wal", "-shm"] {
        let file = beside(part);
        if file.exists() {
            fs_err::rename(&file, beside(&format!("{suffix}{part}")))?;
        }
    }
    Ok(kept)
}

/// Checks the store `path` without writing, before it is opened. An empty file is a new store.
///
/// # Errors
/// If it is damaged, or a newer version has written it.
pub(super) fn check_before_use(path: &Path) -> StoreResult<()> {
    if !path.metadata().is_ok_and(|file| file.len() > 0) {
        return Ok(());
    }
    let connection = read(path)?;
    let version = schema::version(&connection).map_err(|error| at(path, error.into()))?;
    if version == 0 { Ok(()) } else { check(path, &connection, "quick_check") }
}

/// Looks at each entry, also of indices.
const FULL_CHECK: &str = "integrity_check";

fn parent(path: &Path) -> &Path {
    path.parent().filter(|path| !path.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."))
}

fn copy_store(path: &Path, source: &Connection, target: &Path) -> StoreResult<()> {
    let mut target = connect(target)?;
    Backup::new(source, &mut target)
        .and_then(|backup| backup.run_to_completion(PAGES, Duration::from_millis(5), None))
        .map_err(|error| at(path, error.into()))
}

pub(super) fn read(path: &Path) -> StoreResult<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(path, flags)
        .map_err(|error| StoreError::Open { path: path.to_owned(), why: error.to_string() })
}

/// Whether the file is a store that this version can use.
fn check(path: &Path, connection: &Connection, pragma_of_check: &str) -> StoreResult<()> {
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
        .pragma_query_value(None, pragma_of_check, |row| row.get(0))
        .map_err(|error| at(path, error.into()))?;
    if result == "ok" { Ok(()) } else { Err(damaged(result)) }
}
