//! Features of Linux only: protection of the process's memory, pinned name look-ups, adopted
//! children, and types of file systems.
//!
//! The processes of a module (providers, provisioners, `external` data sources) run as the runner's
//! own user and could read its token from `/proc/<pid>/environ`, its secrets from
//! `/proc/<pid>/mem`, or attach to it as a debugger. After [`shield_process`], only root can.
//! Children are not protected: `execve` resets the flag. Memory is not locked against swapping: the
//! limit of a user (`RLIMIT_MEMLOCK`) is smaller than a plan, and the memory of children, which
//! contains the same secrets, cannot be locked at all.

use std::ffi::OsStr;
use std::fs::File;
use std::future::pending;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Checks whether a child has ended, without reaping it.
const PEEK: WaitPidFlag =
    WaitPidFlag::WEXITED.union(WaitPidFlag::WNOHANG).union(WaitPidFlag::WNOWAIT);

/// The least free space for secret files, which are small: other programs need space too.
const ROOM: u64 = 16 * 1024 * 1024;

/// Protects this process's memory, and disables core dumps of it and of its children: a core dump
/// of Terraform contains secrets too. Must be called first in `main`.
pub fn shield_process() {
    use nix::sys::resource::{Resource, setrlimit};

    // Neither call fails for existing values (prctl(2), setrlimit(2)). If a sandbox forbids the
    // calls, the run continues without the protection.
    let _ = nix::sys::prctl::set_dumpable(false);
    // One byte and not zero: no core file is that small, and for a program that reads core dumps
    // from a pipe, this is the only limit that the kernel observes.
    let _ = setrlimit(Resource::RLIMIT_CORE, 1, 1);
}

/// Limits the memory of this process for data to `bytes`: what it allocates, without files that it maps
/// (`RLIMIT_DATA`). A smaller limit that exists stays.
///
/// # Errors
/// If the limit cannot be set.
pub fn limit_memory(bytes: u64) -> std::io::Result<()> {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};

    let (_, hard) = getrlimit(Resource::RLIMIT_DATA)?;
    let limit = bytes.min(hard);
    Ok(setrlimit(Resource::RLIMIT_DATA, limit, limit)?)
}

/// Overwrites the values of the variables `names` in the memory that `/proc/<pid>/environ` shows.
/// After this they are empty; their values must have been read before. Must be called before
/// threads exist.
#[expect(unsafe_code, reason = "the block belongs to C, and only its strings are what is shown")]
pub fn erase_variables(names: &[&str]) {
    use std::ffi::{CStr, c_char};

    unsafe extern "C" {
        static environ: *const *mut c_char;
    }

    // SAFETY: `environ` is null or a null-terminated array of writable strings that end in NUL. No
    // other code reads or changes them, because no other thread exists yet. Only the value of each
    // string is overwritten: its name, its `=` and its end remain.
    unsafe {
        let mut entry = environ;
        while !entry.is_null() && !(*entry).is_null() {
            let text = CStr::from_ptr(*entry).to_bytes();
            let value = names.iter().find_map(|name| {
                let rest = text.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
                Some((name.len() + 1, rest.len()))
            });
            if let Some((start, length)) = value {
                (*entry).add(start).write_bytes(0, length);
            }
            entry = entry.add(1);
        }
    }
}

/// Restricts glibc's name look-ups to the methods that a static binary supports. Must be called
/// before threads and look-ups.
///
/// A static glibc binary loads the modules that `/etc/nsswitch.conf` names from the host's glibc.
/// If the host's version differs and lists `resolve` or `myhostname`, the first DNS look-up ends
/// the process with SIGFPE. Files and DNS do not need a module.
#[cfg(target_env = "gnu")]
#[expect(unsafe_code, reason = "glibc offers this as a C function only")]
pub fn pin_name_lookups() {
    use std::ffi::{CStr, c_char, c_int};

    const LOOKUPS: [(&CStr, &CStr); 8] = [
        (c"hosts", c"files dns"),
        (c"passwd", c"files"),
        (c"group", c"files"),
        (c"shadow", c"files"),
        (c"services", c"files"),
        (c"protocols", c"files"),
        (c"networks", c"files"),
        (c"netgroup", c"files"),
    ];

    unsafe extern "C" {
        fn __nss_configure_lookup(database: *const c_char, sources: *const c_char) -> c_int;
    }

    for (database, sources) in LOOKUPS {
        // SAFETY: both are static strings that end in NUL; glibc copies what it keeps. After an
        // error, the host's own configuration remains in effect, as without this call.
        let _ = unsafe { __nss_configure_lookup(database.as_ptr(), sources.as_ptr()) };
    }
}

/// Other C libraries do not load modules.
#[cfg(not(target_env = "gnu"))]
pub fn pin_name_lookups() {}

/// Whether `file` is certainly on a file system that only one kernel uses.
#[must_use]
pub fn is_local(file: &File) -> bool {
    use nix::sys::statfs::{
        BTRFS_SUPER_MAGIC, EXT4_SUPER_MAGIC, FsType, OVERLAYFS_SUPER_MAGIC, TMPFS_MAGIC, fstatfs,
    };
    // Not every C library defines it.
    const XFS_SUPER_MAGIC: FsType = FsType(0x5846_5342);
    // Ext2 and ext3 have the number of ext4.
    let local =
        [EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC, BTRFS_SUPER_MAGIC, TMPFS_MAGIC, OVERLAYFS_SUPER_MAGIC];
    fstatfs(file).is_ok_and(|found| local.contains(&found.filesystem_type()))
}

/// Whether `path` is on a file system in memory.
#[must_use]
pub fn is_in_memory(path: &Path) -> bool {
    use nix::sys::statfs::{TMPFS_MAGIC, statfs};
    statfs(path).is_ok_and(|found| found.filesystem_type() == TMPFS_MAGIC)
}

/// Whether the file system of `path` has enough space for a run's secret files.
#[must_use]
pub fn has_room(path: &Path) -> bool {
    nix::sys::statvfs::statvfs(path)
        .is_ok_and(|found| found.blocks_available() * found.fragment_size() >= ROOM)
}

/// Adopts orphaned processes below this process (prctl(2)). Succeeds on Linux 3.4 or later.
#[must_use]
pub fn become_subreaper() -> bool {
    nix::sys::prctl::set_child_subreaper(true).is_ok()
}

/// Whether a child still runs. Does not reap it.
#[must_use]
pub fn is_alive(child: Pid) -> bool {
    matches!(waitid(Id::Pid(child), PEEK), Ok(WaitStatus::StillAlive))
}

/// Watches `path` from now on, and completes when a new file there was written and closed. Never
/// completes if the kernel does not support this.
pub fn saved(path: &Path) -> impl Future<Output = ()> + use<> {
    let name = path.file_name().map(OsStr::to_owned);
    let events = path.parent().map(Events::of).and_then(Result::ok);
    async move {
        let (Some(name), Some(events)) = (name, events) else { return pending().await };
        if events.tell_of(&name).await.is_err() {
            pending::<()>().await;
        }
    }
}

/// The kernel's notifications about closed files in a directory. Closing them takes as long as many
/// a command, because the kernel waits for all processors, so another thread does it.
struct Events(Option<Inotify>);

impl Events {
    fn of(directory: &Path) -> std::io::Result<Self> {
        let inotify = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)?;
        inotify.add_watch(directory, AddWatchFlags::IN_CLOSE_WRITE)?;
        Ok(Self(Some(inotify)))
    }

    /// Completes when a file of this name is closed.
    async fn tell_of(&self, name: &OsStr) -> std::io::Result<()> {
        let Some(inotify) = &self.0 else { return Err(std::io::ErrorKind::NotFound.into()) };
        let told = watched(inotify.as_fd(), Interest::READABLE)?;
        loop {
            let mut ready = told.readable().await?;
            match inotify.read_events() {
                Ok(events) if events.iter().any(|event| event.name.as_deref() == Some(name)) => {
                    return Ok(());
                }
                Ok(_) => {}
                Err(Errno::EAGAIN) => ready.clear_ready(),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        let inotify = self.0.take();
        // Without a runtime, the delay does not matter.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            drop(runtime.spawn_blocking(move || drop(inotify)));
        }
    }
}

/// Completes when a pipe has no writers left. Bytes that are written meanwhile do not wake the
/// runtime.
pub async fn abandoned(pipe: &OwnedFd) {
    // An empty interest still includes the hang-up.
    if let Ok(watched) = watched(pipe.as_fd(), Interest::PRIORITY)
        && watched.ready(Interest::PRIORITY).await.is_ok()
    {
        return;
    }
    pending::<()>().await;
}

/// Registers a file with the runtime for as long as it is borrowed.
#[expect(unsafe_code, reason = "the runtime takes any number for an open file")]
fn watched(file: BorrowedFd<'_>, interest: Interest) -> std::io::Result<AsyncFd<BorrowedFd<'_>>> {
    // SAFETY: the borrowed descriptor stays open, and refers to the same file, while the result
    // exists.
    unsafe { AsyncFd::register_with_interest(file, interest) }.map_err(std::io::Error::from)
}

/// Whether trusted certificates are in a keychain; on Linux they are in files.
#[must_use]
pub fn has_keychain() -> bool {
    false
}

/// Whether this process has a child, adopted or not, running or not.
#[must_use]
pub fn has_children() -> bool {
    !matches!(waitid(Id::All, PEEK), Err(Errno::ECHILD))
}

/// A child that has ended and was not reaped yet; it is not reaped here.
#[must_use]
pub fn ended_child() -> Option<Pid> {
    waitid(Id::All, PEEK).ok().and_then(|status| status.pid())
}
