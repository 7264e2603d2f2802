//! Systems without what Linux has: macOS, whatever else is Unix, and Windows.

use std::fs::File;
use std::path::Path;

use super::Pid;

/// Other systems show nobody the memory of a process through files.
pub fn shield_process() {}

/// Other systems have no `/proc` that shows the variables.
pub fn erase_variables(_: &[&str]) {}

/// Other C libraries look names up by themselves, and are not linked statically.
pub fn pin_name_lookups() {}

/// Elsewhere nobody has a work directory on several machines.
#[must_use]
pub fn is_local(_: &File) -> bool {
    true
}

/// Other systems have no file system in memory that everybody can write to: secret files go to the
/// work directory.
#[must_use]
pub fn is_in_memory(_: &Path) -> bool {
    false
}

/// See [`is_in_memory`].
#[must_use]
pub fn has_room(_: &Path) -> bool {
    false
}

/// Nothing is adopted: what leaves its group lives on; on Windows nothing leaves its job.
#[must_use]
pub fn become_subreaper() -> bool {
    false
}

/// Nothing was adopted.
#[must_use]
pub fn is_alive(_: Pid) -> bool {
    false
}

/// Never: no other system is asked to tell.
pub fn saved(_: &Path) -> impl Future<Output = ()> + use<> {
    std::future::pending()
}

/// Never: other systems would wake the runtime for all that is written.
#[cfg(unix)]
pub async fn abandoned(_: &std::os::fd::OwnedFd) {
    std::future::pending::<()>().await;
}

/// Whether trusted certificates are in a keychain, or in Windows' own store.
#[must_use]
pub fn has_keychain() -> bool {
    cfg!(any(target_os = "macos", windows))
}

/// Nothing was adopted.
#[must_use]
pub fn has_children() -> bool {
    false
}

/// Nothing was adopted.
#[must_use]
pub fn ended_child() -> Option<Pid> {
    None
}
