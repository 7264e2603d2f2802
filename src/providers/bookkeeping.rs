//! The bookkeeping of the cache, in `.butler-runner` next to the packages: locks, checksums, and
//! packages that are being added or removed. The name of a provider's host cannot begin with a dot.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::error::ProvidersError;
use super::lock;
use super::package::Package;
use butler_base::platform::fs::{AccessFlags, PermissionsExt, access};
use butler_base::trust;

/// The directory's name.
const DIRECTORY: &str = ".butler-runner";

/// The prefix of directories for packages that are being added or removed.
const STAGING_PREFIX: &str = "passing-";

/// A temporary directory of this age was left by a killed runner: the operation takes seconds.
const LEFTOVER_AGE: Duration = Duration::from_hours(24);

/// The file whose lock is the right to download `package`.
pub(super) fn lock_file(root: &Path, package: &Package) -> PathBuf {
    root.join(DIRECTORY).join(format!("{}.lock", package.key()))
}

/// The checksum that `package` had when it was added to the cache. A package that still has it is
/// undamaged, even if the lock file of a module has another one.
pub(super) fn stored_sum(root: &Path, package: &Package) -> Option<String> {
    std::fs::read_to_string(sum_file(root, package)).ok()
}

/// Stores the checksum of `package`, which is about to be added to the cache.
pub(super) fn store_sum(root: &Path, package: &Package, sum: &str) -> Result<(), ProvidersError> {
    let path = sum_file(root, package);
    std::fs::write(&path, sum).map_err(ProvidersError::write(&path))
}

fn sum_file(root: &Path, package: &Package) -> PathBuf {
    root.join(DIRECTORY).join(format!("{}.sum", package.key()))
}

/// Creates the cache, private to the user if it is new.
///
/// # Errors
/// When it cannot be made or written, or belongs to another user.
pub(super) fn open(root: &Path) -> Result<(), ProvidersError> {
    let directory = root.join(DIRECTORY);
    trust::make_private(&directory).map_err(ProvidersError::write(&directory))?;
    trust::inspect_root(root).map_err(ProvidersError::distrust(root))?;
    trust::inspect(&directory).map_err(ProvidersError::distrust(&directory))?;
    let writable = access(&directory, AccessFlags::W_OK | AccessFlags::X_OK);
    writable.map_err(ProvidersError::write(&directory))
}

/// A private directory on the cache's file system, deleted when it is dropped.
pub(super) fn staging_directory(root: &Path) -> Result<tempfile::TempDir, ProvidersError> {
    let directory = root.join(DIRECTORY);
    trust::make_private(&directory).map_err(ProvidersError::write(&directory))?;
    tempfile::Builder::new()
        .prefix(STAGING_PREFIX)
        .permissions(std::fs::Permissions::from_mode(0o700))
        .tempdir_in(&directory)
        .map_err(ProvidersError::write(&directory))
}

/// Removes `package` from the cache, complete or damaged. A missing package is not an error.
pub(super) fn remove_package(root: &Path, package: &Package) -> Result<(), ProvidersError> {
    let path = package.below(root);
    let staging = staging_directory(root)?;
    match std::fs::rename(&path, staging.path().join("package")) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(ProvidersError::write(&path)(error));
        }
        _ => {}
    }
    // The parent directories that are empty now: version, name, namespace, host.
    for empty in path.ancestors().skip(1).take(4) {
        if std::fs::remove_dir(empty).is_err() {
            break;
        }
    }
    // A drop would ignore errors.
    let place = staging.path().to_owned();
    staging.close().map_err(ProvidersError::write(&place))
}

/// Removes temporary directories of killed runners, and locks and checksums of missing packages.
/// Files that cannot be removed are left for the next call.
pub(super) fn remove_leftovers(root: &Path) {
    let entries = std::fs::read_dir(root.join(DIRECTORY)).into_iter().flatten().flatten();
    for entry in entries {
        let (name, path) = (entry.file_name(), entry.path());
        let Some(name) = name.to_str() else { continue };
        if name.starts_with(STAGING_PREFIX) {
            let age = entry.metadata().and_then(|it| it.modified()).ok();
            let age = age.and_then(|made| SystemTime::now().duration_since(made).ok());
            if age.is_some_and(|age| age > LEFTOVER_AGE) {
                let _ = std::fs::remove_dir_all(path);
            }
            continue;
        }
        let noted = name.strip_suffix(".lock").or_else(|| name.strip_suffix(".sum"));
        let package = noted.and_then(Package::of_key);
        if package.is_some_and(|package| package.below(root).symlink_metadata().is_err()) {
            // A process that waits for a lock that is removed here downloads the package again.
            let _held = lock::try_acquire(&path)
                .and_then(|lock| std::fs::remove_file(&path).map(|()| lock));
        }
    }
}
