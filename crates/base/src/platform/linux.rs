//! What Linux has and others have not: a shield around a process, name look-ups that can be pinned,
//! adopted children, and file systems that say what they are.
//!
//! What a module starts (providers, provisioners, `external` data sources) runs as the runner's own
//! user and could read its token from `/proc/<pid>/environ`, its secrets from `/proc/<pid>/mem`, or
//! attach to it. Only root gets past the shield. Children are not shielded: `execve` resets the flag.
//! Memory is not locked against swapping: what a user may lock (`RLIMIT_MEMLOCK`) is less than a
//! plan, and the children, which hold the same secrets, could not be locked at all.

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

/// Looks whether a child has ended and takes nothing.
const PEEK: WaitPidFlag =
    WaitPidFlag::WEXITED.union(WaitPidFlag::WNOHANG).union(WaitPidFlag::WNOWAIT);

/// The least room that makes it worth while: secret files are small, but others want some too.
const ROOM: u64 = 16 * 1024 * 1024;

/// Shields this process; there are no core dumps from here on, of it or of its children: one of
/// Terraform holds secrets as well. Must be called first thing.
pub fn shield_process() {
    use nix::sys::resource::{Resource, setrlimit};

    // Neither fails for values that exist (prctl(2), setrlimit(2)), and where a sandbox forbids the
    // calls a run without the shield is still the user's wish.
    let _ = nix::sys::prctl::set_dumpable(false);
    // One byte, not none: no file is that small, and for a program that takes core dumps from a
    // pipe the kernel minds no limit but this one.
    let _ = setrlimit(Resource::RLIMIT_CORE, 1, 1);
}

/// Overwrites the values of the variables `names` in the block that this process was started with,
/// which `/proc/<pid>/environ` shows for as long as it lives. From here on they are empty; what is
/// needed of them must have been read before. Must be called before there are threads.
#[expect(unsafe_code, reason = "the block belongs to C, and only its strings are what is shown")]
pub fn erase_variables(names: &[&str]) {
    use std::ffi::{CStr, c_char};

    unsafe extern "C" {
        static environ: *const *mut c_char;
    }

    // SAFETY: `environ` is null or an array of strings that ends in null, each ending in NUL and
    // writable; nobody else reads or changes them, because there is no other thread yet. Nothing is
    // written behind a string's end, and its name and its `=` stay.
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

/// Pins glibc's name look-ups to what a static binary can do by itself. Must be called before there
/// are threads and look-ups.
///
/// A static glibc binary loads the modules that `/etc/nsswitch.conf` names from whatever glibc the
/// host has. Where that one differs and lists `resolve` or `myhostname`, the first DNS look-up ends
/// the process with SIGFPE. Files and DNS need no module.
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
        // SAFETY: both are strings that end in NUL and live for ever; glibc copies what it keeps.
        // An error leaves the host's own configuration in force, which is no worse than before.
        let _ = unsafe { __nss_configure_lookup(database.as_ptr(), sources.as_ptr()) };
    }
}

/// Other C libraries look names up by themselves.
#[cfg(not(target_env = "gnu"))]
pub fn pin_name_lookups() {}

/// Whether `file` is certainly on a file system that one kernel has alone.
#[must_use]
pub fn is_local(file: &File) -> bool {
    use nix::sys::statfs::{
        BTRFS_SUPER_MAGIC, EXT4_SUPER_MAGIC, FsType, OVERLAYFS_SUPER_MAGIC, TMPFS_MAGIC, fstatfs,
    };
    // Not every C library knows it.
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

/// Whether the file system of `path` has room for what a run keeps secret.
#[must_use]
pub fn has_room(path: &Path) -> bool {
    nix::sys::statvfs::statvfs(path)
        .is_ok_and(|found| found.blocks_available() * found.fragment_size() >= ROOM)
}

/// Adopts what loses its parent below this process (prctl(2)). Fails on no Linux since 3.4.
#[must_use]
pub fn become_subreaper() -> bool {
    nix::sys::prctl::set_child_subreaper(true).is_ok()
}

/// Whether a child has not ended yet. Its exit status is left to whoever is to take it.
#[must_use]
pub fn is_alive(child: Pid) -> bool {
    matches!(waitid(Id::Pid(child), PEEK), Ok(WaitStatus::StillAlive))
}

/// From here on, waits until whoever writes a new file at `path` has closed it. Never completes where the
/// kernel cannot be asked to tell.
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

/// What the kernel tells of files in a directory that are closed. To end that takes as long as many a
/// command, because the kernel waits for all processors: another thread does it.
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
        // Where there is no runtime any more, there is time.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            drop(runtime.spawn_blocking(move || drop(inotify)));
        }
    }
}

/// Completes when nobody writes to a pipe any more. The kernel wakes nobody for what is written
/// meanwhile.
pub async fn abandoned(pipe: &OwnedFd) {
    // Who asks for anything is told of its end.
    if let Ok(watched) = watched(pipe.as_fd(), Interest::PRIORITY)
        && watched.ready(Interest::PRIORITY).await.is_ok()
    {
        return;
    }
    pending::<()>().await;
}

/// Has the runtime watch a file for as long as it is borrowed.
#[expect(unsafe_code, reason = "the runtime takes any number for an open file")]
fn watched(file: BorrowedFd<'_>, interest: Interest) -> std::io::Result<AsyncFd<BorrowedFd<'_>>> {
    // SAFETY: what is borrowed is open, and the same file, for at least as long as the result lives.
    unsafe { AsyncFd::register_with_interest(file, interest) }.map_err(std::io::Error::from)
}

/// Whether trusted certificates are in a keychain; here they are in files.
#[must_use]
pub fn has_keychain() -> bool {
    false
}

/// Whether there is any child, adopted or not, alive or not.
#[must_use]
pub fn has_children() -> bool {
    !matches!(waitid(Id::All, PEEK), Err(Errno::ECHILD))
}

/// A child that has ended and whose exit status nobody has taken; it is left there.
#[must_use]
pub fn ended_child() -> Option<Pid> {
    waitid(Id::All, PEEK).ok().and_then(|status| status.pid())
}
