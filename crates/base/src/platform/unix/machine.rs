//! Facts about the machine.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use nix::libc::RLIM_INFINITY;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::statvfs::{FsFlags, statvfs};

use crate::platform::Room;

/// Whether an executable can be replaced while it runs.
pub const REPLACES_RUNNING: bool = true;

/// A file that is always empty.
pub const NULL_DEVICE: &str = "/dev/null";

/// The space of the file system of `path`, if it is known.
#[must_use]
pub fn room(path: &Path) -> Option<Room> {
    let system = statvfs(path).ok()?;
    Some(Room {
        free: system.blocks_available() * system.fragment_size(),
        total: system.blocks() * system.fragment_size(),
        starts_programs: !system.flags().contains(FsFlags::ST_NOEXEC),
    })
}

/// The limit of open files of this process, if it is known.
#[must_use]
pub fn open_files() -> Option<u64> {
    getrlimit(Resource::RLIMIT_NOFILE).ok().map(|(soft, _)| soft)
}

/// The limit of the address space of this process and of its children in bytes; `None` if there is none.
#[must_use]
pub fn address_space() -> Option<u64> {
    let (soft, _) = getrlimit(Resource::RLIMIT_AS).ok()?;
    (soft != RLIM_INFINITY).then_some(soft)
}

/// Raises the limit of open files of this process to the most that it may have, and returns the limit, if it is known.
/// Processes that it starts inherit the limit.
#[must_use]
pub fn raise_open_files() -> Option<u64> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).ok()?;
    if soft < hard && setrlimit(Resource::RLIMIT_NOFILE, hard, hard).is_ok() {
        return Some(hard);
    }
    Some(soft)
}

/// The environment of this process.
#[must_use]
pub fn variables(all: std::env::VarsOs) -> BTreeMap<OsString, OsString> {
    all.collect()
}

/// Whether two names are of the same environment variable.
#[must_use]
pub fn is_same_variable(left: &str, right: &str) -> bool {
    left == right
}

/// The name of this process's user.
#[must_use]
pub fn user_name() -> Option<String> {
    let user = nix::unistd::User::from_uid(nix::unistd::getuid()).ok()??;
    Some(user.name)
}

/// The name of this machine, on Linux.
#[must_use]
pub fn host_name() -> Option<String> {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    Some(host.trim_end().to_owned())
}

/// Converts bytes of a text of the system, such as a path, back to that text.
#[must_use]
pub fn os_string(bytes: Vec<u8>) -> OsString {
    OsString::from_vec(bytes)
}
