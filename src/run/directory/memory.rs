//! Finds a place in memory for a run's secret files, so that they never reach a disk.

use std::path::{Path, PathBuf};

use butler_base::platform::fs::{AccessFlags, access};
use butler_base::platform::{has_room, is_in_memory};

/// Where Linux has a file system in memory that everybody can write to.
const SHARED_MEMORY: &str = "/dev/shm";

/// Where a run's secret files go: `chosen` by the user, else where the system has memory with room.
/// None where they go to the work directory.
#[must_use]
pub fn secret_place(chosen: Option<&Path>) -> Option<PathBuf> {
    place(chosen).filter(|found| is_usable(found, chosen))
}

/// Where secret files of earlier runs may be: `chosen` by the user, else where the system has memory.
pub(in crate::run) fn place(chosen: Option<&Path>) -> Option<PathBuf> {
    let shared = || Some(PathBuf::from(SHARED_MEMORY)).filter(|path| is_in_memory(path));
    chosen.map(Path::to_owned).or_else(shared)
}

/// Whether secret files can go to `place`. What the user chose is taken as it is.
pub(in crate::run) fn is_usable(place: &Path, chosen: Option<&Path>) -> bool {
    chosen.is_some()
        || (has_room(place) && access(place, AccessFlags::W_OK | AccessFlags::X_OK).is_ok())
}
