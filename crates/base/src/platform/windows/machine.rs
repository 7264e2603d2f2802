//! What the machine says of itself.
#![expect(unsafe_code, reason = "Windows tells how full a disk is by a C function only")]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::windows::ffi::OsStrExt;
use std::path::Path;

use windows_sys::Win32::Storage::FileSystem::GetDiskFreeSpaceExW;

use crate::platform::Room;

/// Whether an executable can be replaced while it runs.
pub const REPLACES_RUNNING: bool = false;

/// A file that is always empty.
pub const NULL_DEVICE: &str = "NUL";

/// A path as Windows takes it: UTF-16 that ends in NUL.
pub(super) fn wide(path: &Path) -> Vec<u16> {
    path.as_os_str().encode_wide().chain([0]).collect()
}

/// How much room there is where `path` is, if that can be known.
#[must_use]
pub fn room(path: &Path) -> Option<Room> {
    let path = wide(path);
    let (mut free, mut total) = (0, 0);
    // SAFETY: the path ends in NUL, and both numbers outlive the call.
    let known = unsafe {
        GetDiskFreeSpaceExW(path.as_ptr(), &raw mut free, &raw mut total, std::ptr::null_mut())
    };
    (known != 0).then_some(Room { free, total, starts_programs: true })
}

/// Nothing limits it.
#[must_use]
pub fn open_files() -> Option<u64> {
    None
}

/// The environment of this process: names in capital letters, because they are the same in all of them
/// here, and with the home directory under the name that it has elsewhere.
#[must_use]
pub fn variables(all: std::env::VarsOs) -> BTreeMap<OsString, OsString> {
    let mut variables: BTreeMap<_, _> =
        all.map(|(name, value)| (name.to_ascii_uppercase(), value)).collect();
    if let Some(home) = variables.get(&OsString::from("USERPROFILE")).cloned() {
        variables.entry("HOME".into()).or_insert(home);
    }
    variables
}

/// What the user of this process is called: `DOMAIN\name`, as Terraform writes it.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is where the system says it")]
pub fn user_name() -> Option<String> {
    let (domain, name) = (std::env::var("USERDOMAIN").ok()?, std::env::var("USERNAME").ok()?);
    Some(format!("{domain}\\{name}"))
}

/// What this machine is called.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is where the system says it")]
pub fn host_name() -> Option<String> {
    std::env::var("COMPUTERNAME").ok()
}

/// Bytes that came from the system's own text as such a text again.
#[must_use]
pub fn os_string(bytes: Vec<u8>) -> OsString {
    String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
        .into()
}
