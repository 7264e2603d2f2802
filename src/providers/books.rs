//! What the cache keeps beside the packages, in `.butler-runner`: locks, and packages that are on
//! their way in or out. No name of a provider's host begins with a dot.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::error::ProvidersError;
use super::package::Package;
use crate::trust;

/// The directory's name.
const BOOKS: &str = ".butler-runner";

/// How the names of packages begin that are on their way.
const PASSING: &str = "passing-";

/// After this time, what is on its way is what a killed runner left: it takes seconds.
const LEFT_BEHIND: Duration = Duration::from_hours(24);

/// The file whose lock is the right to download `package`.
pub(super) fn lock_file(root: &Path, package: &Package) -> PathBuf {
    root.join(BOOKS).join(format!("{}.lock", package.key()))
}

/// Makes the cache, private to the user where it is new.
///
/// # Errors
/// When it cannot be made or written, or belongs to somebody else.
pub(super) fn open(root: &Path) -> Result<(), ProvidersError> {
    let books = root.join(BOOKS);
    trust::make_private(&books).map_err(ProvidersError::write(&books))?;
    trust::inspect_root(root).map_err(ProvidersError::distrust(root))?;
    trust::inspect(&books).map_err(ProvidersError::distrust(&books))?;
    Ok(())
}

/// A private directory on the cache's file system, deleted when it is dropped.
pub(super) fn passing(root: &Path) -> Result<tempfile::TempDir, ProvidersError> {
    let books = root.join(BOOKS);
    trust::make_private(&books).map_err(ProvidersError::write(&books))?;
    tempfile::Builder::new()
        .prefix(PASSING)
        .permissions(std::fs::Permissions::from_mode(0o700))
        .tempdir_in(&books)
        .map_err(ProvidersError::write(&books))
}

/// Takes `package` out of the cache, whole or broken. One that is gone already is no error.
pub(super) fn discard(root: &Path, package: &Package) -> Result<(), ProvidersError> {
    let path = package.below(root);
    let out = passing(root)?;
    match std::fs::rename(&path, out.path().join("package")) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(ProvidersError::write(&path)(error));
        }
        _ => {}
    }
    // The directories above it, as far as they are empty now: version, name, namespace, host.
    for empty in path.ancestors().skip(1).take(4) {
        if std::fs::remove_dir(empty).is_err() {
            break;
        }
    }
    // Dropping it would be silent.
    let place = out.path().to_owned();
    out.close().map_err(ProvidersError::write(&place))
}

/// Removes what killed runners left on its way. What cannot be removed stays for the next one.
pub(super) fn clean(root: &Path) {
    let entries = std::fs::read_dir(root.join(BOOKS)).into_iter().flatten().flatten();
    for entry in entries.filter(|it| it.file_name().to_string_lossy().starts_with(PASSING)) {
        let age = entry.metadata().and_then(|it| it.modified()).ok();
        let age = age.and_then(|made| SystemTime::now().duration_since(made).ok());
        if age.is_some_and(|age| age > LEFT_BEHIND) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}
