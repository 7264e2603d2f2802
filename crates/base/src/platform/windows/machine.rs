//! Facts about the machine.
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

/// A path in UTF-16 that ends in NUL.
pub(super) fn wide(path: &Path) -> Vec<u16> {
    path.as_os_str().encode_wide().chain([0]).collect()
}

/// The space of the file system of `path`, if it is known.
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

/// None: the number of open files is not limited.
#[must_use]
pub fn open_files() -> Option<u64> {
    None
}

/// None: the address space is not limited.
#[must_use]
pub fn address_space() -> Option<u64> {
    None
}

/// None: see [`open_files`].
#[must_use]
pub fn raise_open_files() -> Option<u64> {
    None
}

/// The environment of this process: names are in upper case, because they are not case-sensitive on
/// Windows, and the home directory has the name that other systems use.
#[must_use]
pub fn variables(all: std::env::VarsOs) -> BTreeMap<OsString, OsString> {
    let mut variables: BTreeMap<_, _> =
        all.map(|(name, value)| (name.to_ascii_uppercase(), value)).collect();
    if let Some(home) = variables.get(&OsString::from("USERPROFILE")).cloned() {
        variables.entry("HOME".into()).or_insert(home);
    }
    variables
}

/// Whether two names are of the same environment variable: they are not case-sensitive on Windows.
#[must_use]
pub fn is_same_variable(left: &str, right: &str) -> bool {
    left.eq_ignore_ascii_case(right)
}

/// The name of this process's user: `DOMAIN\name`, as Terraform prints it.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is where the system says it")]
pub fn user_name() -> Option<String> {
    let (domain, name) = (std::env::var("USERDOMAIN").ok()?, std::env::var("USERNAME").ok()?);
    Some(format!("{domain}\\{name}"))
}

/// The name of this machine.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is where the system says it")]
pub fn host_name() -> Option<String> {
    std::env::var("COMPUTERNAME").ok()
}

/// Converts bytes of a text of the system back to that text.
#[must_use]
pub fn os_string(bytes: Vec<u8>) -> OsString {
    String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
        .into()
}
