//! Finds a directory in memory for a run's secret files, so that they are not written to a disk.

use std::path::{Path, PathBuf};

use butler_base::platform::fs::{AccessFlags, access};
use butler_base::platform::{has_room, is_in_memory};

/// The file system in memory that Linux provides for all users.
const SHARED_MEMORY: &str = "/dev/shm";

/// The directory in memory for a run's secret files: `chosen` by the user, else the system's, if it has free space.
/// `None` if the files are written to the work directory.
#[must_use]
pub fn secrets_directory(chosen: Option<&Path>) -> Option<PathBuf> {
    memory_directory(chosen).filter(|found| is_usable(found, chosen))
}

/// The directory in memory that can contain secret files of earlier runs: `chosen` by the user, else the system's.
pub(in crate::run) fn memory_directory(chosen: Option<&Path>) -> Option<PathBuf> {
    let shared = || Some(PathBuf::from(SHARED_MEMORY)).filter(|path| is_in_memory(path));
    chosen.map(Path::to_owned).or_else(shared)
}

/// Whether secret files can be written to `directory`. A directory that the user chose is not checked.
fn is_usable(directory: &Path, chosen: Option<&Path>) -> bool {
    chosen.is_some()
        || (has_room(directory) && access(directory, AccessFlags::W_OK | AccessFlags::X_OK).is_ok())
}
