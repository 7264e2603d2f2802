//! What the machine says of itself.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use nix::sys::resource::{Resource, getrlimit};
use nix::sys::statvfs::{FsFlags, statvfs};

use crate::platform::Room;

/// Whether an executable can be replaced while it runs.
pub const REPLACES_RUNNING: bool = true;

/// A file that is always empty.
pub const NULL_DEVICE: &str = "/dev/null";

/// How much room there is where `path` is, if that can be known.
#[must_use]
pub fn room(path: &Path) -> Option<Room> {
    let system = statvfs(path).ok()?;
    Some(Room {
        free: system.blocks_available() * system.fragment_size(),
        total: system.blocks() * system.fragment_size(),
        starts_programs: !system.flags().contains(FsFlags::ST_NOEXEC),
    })
}

/// How many files this process may have open, if there is a limit that can be known.
#[must_use]
pub fn open_files() -> Option<u64> {
    getrlimit(Resource::RLIMIT_NOFILE).ok().map(|(soft, _)| soft)
}

/// The environment of this process.
#[must_use]
pub fn variables(all: std::env::VarsOs) -> BTreeMap<OsString, OsString> {
    all.collect()
}

/// What the user of this process is called.
#[must_use]
pub fn user_name() -> Option<String> {
    let user = nix::unistd::User::from_uid(nix::unistd::getuid()).ok()??;
    Some(user.name)
}

/// What this machine is called, where Linux says it.
#[must_use]
pub fn host_name() -> Option<String> {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    Some(host.trim_end().to_owned())
}

/// Bytes that came from the system's own text, such as a path, as such a text again.
#[must_use]
pub fn os_string(bytes: Vec<u8>) -> OsString {
    OsString::from_vec(bytes)
}
