//! The fallbacks for systems without the features of `linux`: macOS, other Unix systems, and
//! Windows.

use std::fs::File;
use std::path::Path;

use super::{AllowedPaths, Landlock, Pid};

/// Other systems do not show the memory of a process as a file.
pub fn shield_process() {}

/// Other systems do not limit it: on macOS the limit has no effect.
///
/// # Errors
/// Never.
pub fn limit_memory(_: u64) -> std::io::Result<()> {
    Ok(())
}

/// Other systems do not have Landlock.
#[must_use]
pub fn landlock() -> Option<Landlock> {
    None
}

/// Other systems do not have Landlock.
#[must_use]
pub const fn readable_paths() -> &'static [&'static str] {
    &[]
}

/// Other systems do not have Landlock.
///
/// # Errors
/// Always.
pub fn restrict_process(_: &AllowedPaths) -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}

/// Only Linux runs programs as users of their own.
#[must_use]
pub fn user_change_problem() -> Option<String> {
    Some("only Linux has this isolation".to_owned())
}

/// See [`user_change_problem`].
///
/// # Errors
/// Never.
pub fn is_user_mapped(_: u32) -> std::io::Result<bool> {
    Ok(false)
}

/// See [`user_change_problem`].
///
/// # Errors
/// Never.
pub fn processes_of_user(_: u32) -> std::io::Result<Vec<Pid>> {
    Ok(Vec::new())
}

/// See [`user_change_problem`].
///
/// # Errors
/// Never.
pub fn end_processes_of_user(
    _: u32,
    _: impl FnMut() -> std::io::Result<()>,
) -> std::io::Result<()> {
    Ok(())
}

/// See [`user_change_problem`].
///
/// # Errors
/// Always.
pub fn kill_as_user(_: u32) -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}

/// See [`user_change_problem`].
///
/// # Errors
/// Always.
pub fn become_user(_: u32) -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}

/// See [`user_change_problem`].
///
/// # Errors
/// Always.
pub fn give_directory(_: &Path, _: u32) -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}

/// Other systems keep the modes.
///
/// # Errors
/// Never.
pub fn remove_special_modes(_: &Path) -> std::io::Result<()> {
    Ok(())
}

/// See [`user_change_problem`].
///
/// # Errors
/// Always.
pub fn share_with_group(_: &Path, _: u32) -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}

/// See [`user_change_problem`].
///
/// # Errors
/// Always.
pub fn let_users_enter(_: &Path) -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}

/// Runs do not have users of their own here.
#[must_use]
pub fn closed_to_users(_: &Path) -> Option<&Path> {
    None
}

/// Other systems do not have a `/proc` that shows the variables.
pub fn erase_variables(_: &[&str]) {}

/// Other C libraries do not load modules, and are not linked statically.
pub fn pin_name_lookups() {}

/// On other systems, work directories on several machines are not expected.
#[must_use]
pub fn is_local(_: &File) -> bool {
    true
}

/// Other systems do not have a memory file system that each user can write to: secret files are in
/// the work directory.
#[must_use]
pub fn is_in_memory(_: &Path) -> bool {
    false
}

/// See [`is_in_memory`].
#[must_use]
pub fn has_room(_: &Path) -> bool {
    false
}

/// Processes are not adopted: one that leaves its group continues to run; on Windows none can leave
/// its job.
#[must_use]
pub fn become_subreaper() -> bool {
    false
}

/// Processes are not adopted.
#[must_use]
pub fn is_alive(_: Pid) -> bool {
    false
}

/// Never completes: other systems are not watched.
pub fn saved(_: &Path) -> impl Future<Output = ()> + use<> {
    std::future::pending()
}

/// Never completes: other systems would wake the runtime for each write.
#[cfg(unix)]
pub async fn abandoned(_: &std::os::fd::OwnedFd) {
    std::future::pending::<()>().await;
}

/// Other systems have no file in memory without a name, so output goes through pipes.
#[derive(Debug)]
pub enum OutputFile {}

impl OutputFile {
    /// There is none.
    #[must_use]
    pub const fn create() -> Option<Self> {
        None
    }

    /// See [`OutputFile`].
    ///
    /// # Errors
    /// Never.
    pub fn writer(&self) -> std::io::Result<File> {
        match *self {}
    }

    /// See [`OutputFile`].
    ///
    /// # Errors
    /// Never.
    pub fn read_at(&self, _: &mut [u8], _: u64) -> std::io::Result<usize> {
        match *self {}
    }

    /// See [`OutputFile`].
    ///
    /// # Errors
    /// Never.
    pub fn length(&self) -> std::io::Result<u64> {
        match *self {}
    }

    /// See [`OutputFile`].
    pub fn free(&self, _: u64) {
        match *self {}
    }
}

/// Whether trusted certificates are in a keychain, or in Windows' certificate store.
#[must_use]
pub fn has_keychain() -> bool {
    cfg!(any(target_os = "macos", windows))
}

/// Processes are not adopted.
#[must_use]
pub fn has_children() -> bool {
    false
}

/// Processes are not adopted.
#[must_use]
pub fn ended_child() -> Option<Pid> {
    None
}
