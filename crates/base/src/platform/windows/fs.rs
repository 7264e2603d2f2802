//! The Windows equivalents of Unix's file functions.
//!
//! A mode only contains whether a file is writable. Read access is controlled by the inherited
//! access control list: private directories get one that only admits the owner, the system and
//! administrators ([`close_to_others`]).
#![expect(unsafe_code, reason = "Windows offers all of this as C functions only")]

use std::fs::{DirBuilder, File, Metadata, OpenOptions, Permissions, TryLockError};
use std::io::{Error, ErrorKind, Result};
use std::os::windows::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as WindowsOptions};
use std::os::windows::io::AsRawHandle;
use std::path::Path;

use windows_sys::Win32::Foundation::{ERROR_IO_PENDING, ERROR_LOCK_VIOLATION, LocalFree};
use windows_sys::Win32::Security::Authorization::{
    ConvertStringSecurityDescriptorToSecurityDescriptorW, SDDL_REVISION_1,
};
use windows_sys::Win32::Security::{
    DACL_SECURITY_INFORMATION, PROTECTED_DACL_SECURITY_INFORMATION, PSECURITY_DESCRIPTOR,
    SetFileSecurityW,
};
use windows_sys::Win32::Storage::FileSystem::{
    BY_HANDLE_FILE_INFORMATION, FILE_FLAG_BACKUP_SEMANTICS, FILE_FLAG_OPEN_REPARSE_POINT,
    GetFileInformationByHandle, LOCKFILE_EXCLUSIVE_LOCK, LOCKFILE_FAIL_IMMEDIATELY, LockFileEx,
};
use windows_sys::Win32::System::IO::OVERLAPPED;

use super::machine::wide;

/// A user with write access can set all times of a file, so only a comparison of the content is
/// reliable.
pub const CHANGES_SHOW: bool = false;

/// Full access for the owner, administrators and the system, inherited by all entries; the access
/// control list of the parent directory is not inherited.
const OWNER_ONLY: &str = "D:P(A;OICI;FA;;;OW)(A;OICI;FA;;;BA)(A;OICI;FA;;;SY)";

/// The position of locks: beyond the size of any file, because other processes cannot read a locked
/// range.
const LOCKED: u32 = 0x7FFF_FFFF;

/// Flags for opening a file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct OFlag(i32);

impl OFlag {
    /// Opens the link itself, which is not a regular file.
    pub const O_NOFOLLOW: Self = Self(FILE_FLAG_OPEN_REPARSE_POINT.cast_signed());
    /// No effect: opening never blocks.
    pub const O_NONBLOCK: Self = Self(0);

    /// As a number.
    #[must_use]
    pub const fn bits(self) -> i32 {
        self.0
    }
}

impl std::ops::BitOr for OFlag {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// An access right of a user.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct AccessFlags(u8);

impl AccessFlags {
    /// Write to it.
    pub const W_OK: Self = Self(1);
    /// Execute it, or enter it.
    pub const X_OK: Self = Self(2);
}

impl std::ops::BitOr for AccessFlags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Whether this user has the access right. For write access to a directory, creates a temporary
/// file.
///
/// # Errors
/// If it does not exist, or is not writable.
pub fn access(path: &Path, wanted: AccessFlags) -> Result<()> {
    let found = std::fs::metadata(path)?;
    if !found.is_dir() {
        let refused = wanted.0 & AccessFlags::W_OK.0 != 0 && found.permissions().readonly();
        return if refused { Err(ErrorKind::PermissionDenied.into()) } else { Ok(()) };
    }
    if wanted.0 & AccessFlags::W_OK.0 == 0 {
        return Ok(());
    }
    // Without a name, so that no file remains.
    tempfile::tempfile_in(path).map(|_| ())
}

/// Options for opening files.
pub trait OpenOptionsExt {
    /// No effect: new files inherit their access control list.
    fn mode(&mut self, mode: u32) -> &mut Self;
    /// Additional flags: see [`OFlag`].
    fn custom_flags(&mut self, flags: i32) -> &mut Self;
}

impl OpenOptionsExt for OpenOptions {
    fn mode(&mut self, _: u32) -> &mut Self {
        self
    }

    fn custom_flags(&mut self, flags: i32) -> &mut Self {
        WindowsOptions::custom_flags(self, flags.cast_unsigned())
    }
}

/// Options for creating directories.
pub trait DirBuilderExt {
    /// No effect: new directories inherit their access control list.
    fn mode(&mut self, mode: u32) -> &mut Self;
}

impl DirBuilderExt for DirBuilder {
    fn mode(&mut self, _: u32) -> &mut Self {
        self
    }
}

/// The permissions of a file.
pub trait PermissionsExt {
    /// The permissions for a mode: whether the owner may write.
    fn from_mode(mode: u32) -> Self;
    /// The mode: whether the owner may write.
    fn mode(&self) -> u32;
}

impl PermissionsExt for Permissions {
    fn from_mode(mode: u32) -> Self {
        // Permissions can only be obtained from an existing file.
        let found = std::fs::metadata(std::env::temp_dir()).map(|found| found.permissions());
        let mut permissions = found.expect("there is a directory for temporary files");
        permissions.set_readonly(mode & 0o200 == 0);
        permissions
    }

    fn mode(&self) -> u32 {
        if self.readonly() { 0o500 } else { 0o700 }
    }
}

/// The metadata of a file.
pub trait MetadataExt {
    /// The mode: see [`PermissionsExt::mode`].
    fn mode(&self) -> u32;
    /// The owner: always this user, see [`user`].
    fn uid(&self) -> u32;
    /// The device: the same for all files. A mount point looks like a link.
    fn dev(&self) -> u64;
    /// The inode: the same for all files, see [`is_at`].
    fn ino(&self) -> u64;
    /// The length, in bytes.
    fn size(&self) -> u64;
    /// The modification time, in seconds since 1970.
    fn mtime(&self) -> i64;
    /// The nanoseconds of that second.
    fn mtime_nsec(&self) -> i64;
    /// The creation or modification time, the later of the two.
    fn ctime(&self) -> i64;
    /// The nanoseconds of that second.
    fn ctime_nsec(&self) -> i64;
}

/// Converts a time of Windows (units of 100 ns since 1601) to seconds and nanoseconds since 1970.
fn moment(time: u64) -> (i64, i64) {
    /// From 1601 to 1970.
    const SECONDS: i64 = 11_644_473_600;
    const UNITS: u64 = 10_000_000;

    let seconds = i64::try_from(time / UNITS).unwrap_or(i64::MAX) - SECONDS;
    (seconds, i64::try_from(time % UNITS * 100).unwrap_or_default())
}

impl MetadataExt for Metadata {
    fn mode(&self) -> u32 {
        self.permissions().mode()
    }

    fn uid(&self) -> u32 {
        user()
    }

    fn dev(&self) -> u64 {
        0
    }

    fn ino(&self) -> u64 {
        0
    }

    fn size(&self) -> u64 {
        self.file_size()
    }

    fn mtime(&self) -> i64 {
        moment(self.last_write_time()).0
    }

    fn mtime_nsec(&self) -> i64 {
        moment(self.last_write_time()).1
    }

    fn ctime(&self) -> i64 {
        moment(self.last_write_time().max(self.creation_time())).0
    }

    fn ctime_nsec(&self) -> i64 {
        moment(self.last_write_time().max(self.creation_time())).1
    }
}

/// Reads and writes at any position of a file.
pub trait FileExt {
    /// Writes all `bytes` at `offset`.
    ///
    /// # Errors
    /// If not all of them can be written.
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> Result<()>;
    /// Fills `bytes` from `offset` on.
    ///
    /// # Errors
    /// If the file is too short.
    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> Result<()>;
}

impl FileExt for File {
    fn write_all_at(&self, mut bytes: &[u8], mut offset: u64) -> Result<()> {
        while !bytes.is_empty() {
            let written = self.seek_write(bytes, offset)?;
            if written == 0 {
                return Err(ErrorKind::WriteZero.into());
            }
            (bytes, offset) = (&bytes[written..], offset + written as u64);
        }
        Ok(())
    }

    fn read_exact_at(&self, mut bytes: &mut [u8], mut offset: u64) -> Result<()> {
        while !bytes.is_empty() {
            let read = self.seek_read(bytes, offset)?;
            if read == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            (bytes, offset) = (&mut bytes[read..], offset + read as u64);
        }
        Ok(())
    }
}

/// The user of this process, as in [`MetadataExt::uid`].
#[must_use]
pub fn user() -> u32 {
    1
}

fn information(file: &File) -> Result<BY_HANDLE_FILE_INFORMATION> {
    let mut found = BY_HANDLE_FILE_INFORMATION::default();
    // SAFETY: the handle is open, and the structure outlives the call.
    if unsafe { GetFileInformationByHandle(file.as_raw_handle(), &raw mut found) } == 0 {
        return Err(Error::last_os_error());
    }
    Ok(found)
}

/// Opens a file, directory or link itself, to inspect it.
fn open_to_look(path: &Path) -> Result<File> {
    let mut options = OpenOptions::new();
    let flags = FILE_FLAG_BACKUP_SEMANTICS | FILE_FLAG_OPEN_REPARSE_POINT;
    WindowsOptions::custom_flags(options.access_mode(0), flags).open(path)
}

/// Whether `path` still refers to `file`, and not through a link.
#[must_use]
pub fn is_at(file: &File, path: &Path) -> bool {
    let place = |it: BY_HANDLE_FILE_INFORMATION| {
        (it.dwVolumeSerialNumber, it.nFileIndexHigh, it.nFileIndexLow)
    };
    match (information(file), open_to_look(path).and_then(|file| information(&file))) {
        (Ok(one), Ok(other)) => place(one) == place(other),
        _ => false,
    }
}

/// Whether the file at `path` has other hard links, which the metadata does not contain.
///
/// # Errors
/// If it cannot be inspected.
pub fn has_other_names(path: &Path, _: &Metadata) -> Result<bool> {
    open_to_look(path).and_then(|file| information(&file)).map(|found| found.nNumberOfLinks > 1)
}

/// Removes a file, even if it is read-only, which some versions of Windows refuse.
///
/// # Errors
/// If it cannot be removed.
pub fn remove_file(path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            std::fs::set_permissions(path, Permissions::from_mode(0o600))?;
            std::fs::remove_file(path)
        }
        removed => removed,
    }
}

/// Opens a directory, to lock or to sync it; Windows supports neither.
///
/// # Errors
/// If it cannot be opened.
pub fn open_directory(path: &Path) -> Result<File> {
    let mut options = OpenOptions::new();
    WindowsOptions::custom_flags(options.read(true), FILE_FLAG_BACKUP_SEMANTICS).open(path)
}

/// Takes an exclusive lock on a file, which is held until it is closed.
///
/// # Errors
/// If another process has a lock on it, or the file system does not support locks.
pub fn try_lock(file: &File) -> std::result::Result<(), TryLockError> {
    lock(file, LOCKFILE_EXCLUSIVE_LOCK | LOCKFILE_FAIL_IMMEDIATELY)
}

/// Takes a shared lock on a file, which is held until it is closed.
///
/// # Errors
/// If another process has an exclusive lock, or the file system does not support locks.
pub fn try_lock_shared(file: &File) -> std::result::Result<(), TryLockError> {
    lock(file, LOCKFILE_FAIL_IMMEDIATELY)
}

fn lock(file: &File, flags: u32) -> std::result::Result<(), TryLockError> {
    let mut place = OVERLAPPED::default();
    place.Anonymous.Anonymous.OffsetHigh = LOCKED;
    // SAFETY: the handle is open for synchronous use, so the structure is not needed after the
    // call.
    if unsafe { LockFileEx(file.as_raw_handle(), flags, 0, 1, 0, &raw mut place) } != 0 {
        return Ok(());
    }
    let error = Error::last_os_error();
    match error.raw_os_error().map(i32::cast_unsigned) {
        Some(ERROR_LOCK_VIOLATION | ERROR_IO_PENDING) => Err(TryLockError::WouldBlock),
        _ => Err(TryLockError::Error(error)),
    }
}

/// Removes the access of all other users to a directory, except for the system and administrators.
///
/// # Errors
/// If its access control list cannot be changed.
pub fn close_to_others(directory: &Path) -> Result<()> {
    let (directory, text) = (wide(directory), wide(Path::new(OWNER_ONLY)));
    let mut descriptor: PSECURITY_DESCRIPTOR = std::ptr::null_mut();
    // SAFETY: the text ends in NUL; the descriptor that is created from it is freed below, once.
    unsafe {
        let made = ConvertStringSecurityDescriptorToSecurityDescriptorW(
            text.as_ptr(),
            SDDL_REVISION_1,
            &raw mut descriptor,
            std::ptr::null_mut(),
        );
        if made == 0 {
            return Err(Error::last_os_error());
        }
        let set = SetFileSecurityW(
            directory.as_ptr(),
            DACL_SECURITY_INFORMATION | PROTECTED_DACL_SECURITY_INFORMATION,
            descriptor,
        );
        let error = Error::last_os_error();
        LocalFree(descriptor);
        if set == 0 { Err(error) } else { Ok(()) }
    }
}

/// Creates the private directory `target` at `name` itself, because links require a privilege that
/// not every user has. The parent of `name` must be closed to others.
///
/// # Errors
/// If `name` exists or cannot be created.
pub fn name_directory(_target: &Path, name: &Path) -> Result<()> {
    std::fs::create_dir(name)
}

/// Creates a file with the text `target`, as git does without the privilege to create links.
///
/// # Errors
/// If `link` exists or cannot be created.
pub fn check_out_link(target: &Path, link: &Path) -> Result<()> {
    let mut file = File::options().write(true).create_new(true).open(link)?;
    std::io::Write::write_all(&mut file, target.as_os_str().as_encoded_bytes())
}

/// Makes this user the owner of a file: no program of a run has another user.
///
/// # Errors
/// Never on Windows.
pub fn take_ownership(_: &Path) -> Result<()> {
    Ok(())
}

/// Writes the names in a directory to the disk: the file system's journal does so.
///
/// # Errors
/// Never on Windows.
pub fn sync_directory(_: &Path) -> Result<()> {
    Ok(())
}
