//! Files as Unix has them, as far as Windows has the like.
//!
//! A mode only tells whether a file may be written. Who may read it is decided by the access control
//! list that it inherits: private directories get one that lets nobody in but the owner, the system
//! and administrators ([`close_to_others`]).
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

/// Whoever may write to a file can set all of its times, so only its content tells.
pub const CHANGES_SHOW: bool = false;

/// Full access for the owner, administrators and the system, and for what is made below; nothing of
/// what the directory above gives to others.
const OWNER_ONLY: &str = "D:P(A;OICI;FA;;;OW)(A;OICI;FA;;;BA)(A;OICI;FA;;;SY)";

/// Where locks are: behind all that a file can hold, because what is locked cannot be read by others.
const LOCKED: u32 = 0x7FFF_FFFF;

/// Flags for opening a file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct OFlag(i32);

impl OFlag {
    /// Opens the link itself, which is no plain file then.
    pub const O_NOFOLLOW: Self = Self(FILE_FLAG_OPEN_REPARSE_POINT.cast_signed());
    /// Opening waits for nobody in any case.
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

/// What a user may do with a file.
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

/// Whether this user may do so. Whether a directory can be written shows when that is tried.
///
/// # Errors
/// When it is missing, or may not be written to.
pub fn access(path: &Path, wanted: AccessFlags) -> Result<()> {
    let found = std::fs::metadata(path)?;
    if !found.is_dir() {
        let refused = wanted.0 & AccessFlags::W_OK.0 != 0 && found.permissions().readonly();
        return if refused { Err(ErrorKind::PermissionDenied.into()) } else { Ok(()) };
    }
    if wanted.0 & AccessFlags::W_OK.0 == 0 {
        return Ok(());
    }
    // Without a name, so that nothing is left of it.
    tempfile::tempfile_in(path).map(|_| ())
}

/// How files are opened.
pub trait OpenOptionsExt {
    /// Nothing: what is made inherits its access control list.
    fn mode(&mut self, mode: u32) -> &mut Self;
    /// Flags beyond what all systems have: see [`OFlag`].
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

/// How directories are made.
pub trait DirBuilderExt {
    /// Nothing: what is made inherits its access control list.
    fn mode(&mut self, mode: u32) -> &mut Self;
}

impl DirBuilderExt for DirBuilder {
    fn mode(&mut self, _: u32) -> &mut Self {
        self
    }
}

/// What may be done with a file.
pub trait PermissionsExt {
    /// Those of a mode: whether the owner may write.
    fn from_mode(mode: u32) -> Self;
    /// The mode: whether the owner may write.
    fn mode(&self) -> u32;
}

impl PermissionsExt for Permissions {
    fn from_mode(mode: u32) -> Self {
        // There is no other way to make some than to take a file's.
        let found = std::fs::metadata(std::env::temp_dir()).map(|found| found.permissions());
        let mut permissions = found.expect("there is a directory for temporary files");
        permissions.set_readonly(mode & 0o200 == 0);
        permissions
    }

    fn mode(&self) -> u32 {
        if self.readonly() { 0o500 } else { 0o700 }
    }
}

/// What is known of a file.
pub trait MetadataExt {
    /// The mode: see [`PermissionsExt::mode`].
    fn mode(&self) -> u32;
    /// The owner: always this user, see [`user`].
    fn uid(&self) -> u32;
    /// The device: the same for all files. Another one that is mounted looks like a link.
    fn dev(&self) -> u64;
    /// The number of the file: the same for all, see [`is_at`].
    fn ino(&self) -> u64;
    /// The length, in bytes.
    fn size(&self) -> u64;
    /// When it was changed, in seconds since 1970.
    fn mtime(&self) -> i64;
    /// The nanoseconds of that second.
    fn mtime_nsec(&self) -> i64;
    /// When it was made or changed, whatever was later.
    fn ctime(&self) -> i64;
    /// The nanoseconds of that second.
    fn ctime_nsec(&self) -> i64;
}

/// Seconds and nanoseconds of a time that Windows has in units of 100 ns since 1601.
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

/// Reads and writes anywhere in a file.
pub trait FileExt {
    /// Writes all of `bytes` at `offset`.
    ///
    /// # Errors
    /// When not all of it can be written.
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> Result<()>;
    /// Fills `bytes` from `offset` on.
    ///
    /// # Errors
    /// When there is not that much.
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

/// The user of this process, as [`MetadataExt::uid`] has owners.
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

/// Opens a file or directory, not what it leads to, to learn what it is.
fn open_to_look(path: &Path) -> Result<File> {
    let mut options = OpenOptions::new();
    let flags = FILE_FLAG_BACKUP_SEMANTICS | FILE_FLAG_OPEN_REPARSE_POINT;
    WindowsOptions::custom_flags(options.access_mode(0), flags).open(path)
}

/// Whether `path` still leads to `file`, itself and not through a link.
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

/// Whether the file at `path` has other names, which what is known of it does not say.
///
/// # Errors
/// When it cannot be looked at.
pub fn has_other_names(path: &Path, _: &Metadata) -> Result<bool> {
    open_to_look(path).and_then(|file| information(&file)).map(|found| found.nNumberOfLinks > 1)
}

/// Removes a file, read-only ones too, which not every version lets be removed as they are.
///
/// # Errors
/// When it cannot be removed.
pub fn remove_file(path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            std::fs::set_permissions(path, Permissions::from_mode(0o600))?;
            std::fs::remove_file(path)
        }
        removed => removed,
    }
}

/// Opens a directory, to lock or to sync it; neither can be done here.
///
/// # Errors
/// When it cannot be opened.
pub fn open_directory(path: &Path) -> Result<File> {
    let mut options = OpenOptions::new();
    WindowsOptions::custom_flags(options.read(true), FILE_FLAG_BACKUP_SEMANTICS).open(path)
}

/// Locks a file for its holder alone, until it is closed.
///
/// # Errors
/// When somebody else has a lock on it, or there are none.
pub fn try_lock(file: &File) -> std::result::Result<(), TryLockError> {
    lock(file, LOCKFILE_EXCLUSIVE_LOCK | LOCKFILE_FAIL_IMMEDIATELY)
}

/// Locks a file for all that share it, until it is closed.
///
/// # Errors
/// When somebody has it for himself, or there are no locks.
pub fn try_lock_shared(file: &File) -> std::result::Result<(), TryLockError> {
    lock(file, LOCKFILE_FAIL_IMMEDIATELY)
}

fn lock(file: &File, flags: u32) -> std::result::Result<(), TryLockError> {
    let mut place = OVERLAPPED::default();
    place.Anonymous.Anonymous.OffsetHigh = LOCKED;
    // SAFETY: the handle is open and for synchronous use, so the structure is not needed after the
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

/// Takes everybody else's access to a directory away, but for the system's and its administrators'.
///
/// # Errors
/// When its access control list cannot be changed.
pub fn close_to_others(directory: &Path) -> Result<()> {
    let (directory, text) = (wide(directory), wide(Path::new(OWNER_ONLY)));
    let mut descriptor: PSECURITY_DESCRIPTOR = std::ptr::null_mut();
    // SAFETY: the text ends in NUL; what is made of it is freed below, once.
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

/// Makes the private directory `target` that is to be known as `name`: at `name` itself, because links
/// need a right that not every user has. What is above `name` must be closed to others.
///
/// # Errors
/// When there is something at `name`, or it cannot be made.
pub fn name_directory(_target: &Path, name: &Path) -> Result<()> {
    std::fs::create_dir(name)
}

/// Has the names in a directory on the disk for good: the file system's journal does so.
///
/// # Errors
/// Never, here.
pub fn sync_directory(_: &Path) -> Result<()> {
    Ok(())
}
