//! Runs programs as users of their own, which exist only as numbers.
//!
//! Root alone can do this. The group of such a user has the same number and no other members.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::fcntl::{AtFlags, OFlag};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Gid, Pid, Uid, fchown, fchownat, setgroups, setresgid, setresuid};

use super::landlock::close_descriptors_on_exec;

/// The capabilities of root that this needs, and their bits (capabilities(7)).
const NEEDED: [(&str, u64); 6] = [
    ("CAP_CHOWN", 0),
    ("CAP_DAC_OVERRIDE", 1),
    ("CAP_FOWNER", 3),
    ("CAP_KILL", 5),
    ("CAP_SETGID", 6),
    ("CAP_SETUID", 7),
];

/// Whether users can create hard links to files that they cannot write (proc(5)).
const PROTECTED_HARDLINKS: &str = "/proc/sys/fs/protected_hardlinks";

/// The modes of a file that is executed as its owner or its group (chmod(2)).
const SPECIAL: u32 = 0o6000;

/// How deep directories are looked through: two descriptors are open for each level.
const DEEPEST: usize = 200;

/// How often processes are killed before they count as unkillable.
const KILL_ATTEMPTS: usize = 100;
const KILL_PAUSE: Duration = Duration::from_millis(20);

/// Why this process cannot run programs as users of their own; `None` if it can.
#[must_use]
pub fn user_change_problem() -> Option<String> {
    if !Uid::effective().is_root() {
        return Some("the runner is not root".to_owned());
    }
    let capabilities = status(Path::new("/proc/self/status"), "CapEff:");
    let capabilities = capabilities.ok().and_then(|bits| u64::from_str_radix(&bits, 16).ok());
    let Some(capabilities) = capabilities else {
        return Some("the capabilities of the runner cannot be read in /proc".to_owned());
    };
    if let Some((name, _)) = NEEDED.iter().find(|(_, bit)| capabilities >> bit & 1 == 0) {
        return Some(format!("the runner does not have the capability {name}"));
    }
    // A module could otherwise give a file of the server a name in its own directory, which is then
    // given to the user of the next run.
    let protected = std::fs::read_to_string(PROTECTED_HARDLINKS).is_ok_and(|it| it.trim() == "1");
    (!protected).then(|| "the kernel setting fs.protected_hardlinks is not 1".to_owned())
}

/// Whether the user and the group `id` exist in this user namespace.
///
/// # Errors
/// If `/proc` cannot be read.
pub fn is_user_mapped(id: u32) -> io::Result<bool> {
    for map in ["/proc/self/uid_map", "/proc/self/gid_map"] {
        if !is_in_map(&std::fs::read_to_string(map)?, id) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether a line of `map` (`user_namespaces(7)`) contains `id`.
fn is_in_map(map: &str, id: u32) -> bool {
    map.lines().any(|line| {
        let mut numbers = line.split_whitespace().map_while(|number| number.parse::<u64>().ok());
        let (first, count) = (numbers.next(), numbers.nth(1));
        let range = first.zip(count).map(|(first, count)| first..first.saturating_add(count));
        range.is_some_and(|range| range.contains(&u64::from(id)))
    })
}

/// The processes of the user `id`, also those that have kept it as one of their ids only.
///
/// # Errors
/// If `/proc` cannot be read.
pub fn processes_of_user(id: u32) -> io::Result<Vec<Pid>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc")? {
        let entry = entry?;
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        match status(&entry.path().join("status"), "Uid:") {
            Ok(ids) if ids.split_whitespace().any(|it| it == id.to_string()) => {
                // A zombie does nothing any more, and is gone when its parent has looked.
                let state = status(&entry.path().join("status"), "State:");
                if !state.is_ok_and(|state| state.starts_with('Z')) {
                    found.push(Pid::from_raw(pid));
                }
            }
            Ok(_) => {}
            // It has ended: ESRCH if that happened after the file was opened.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) if error.raw_os_error() == Some(nix::libc::ESRCH) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// The value of `name` in a `status` file of `/proc`.
fn status(file: &Path, name: &str) -> io::Result<String> {
    let text = std::fs::read(file)?;
    let text = String::from_utf8_lossy(&text);
    let value = text.lines().find_map(|line| line.strip_prefix(name));
    value.map(|value| value.trim().to_owned()).ok_or_else(|| ErrorKind::InvalidData.into())
}

/// Kills all processes of the user `id`, and waits until they are gone. `kill_all` starts a process that calls
/// [`kill_as_user`], and fails if that process did.
///
/// A module can start processes faster than they are found in `/proc`. The kernel signals all of them at once, and
/// none can be started meanwhile. A process of the user can kill the one of `kill_all` before that, so it is started
/// again.
///
/// # Errors
/// If processes of the user are left, or if it is not known that none is.
pub fn end_processes_of_user(
    id: u32,
    mut kill_all: impl FnMut() -> io::Result<()>,
) -> io::Result<()> {
    let mut killed = Err(ErrorKind::Other.into());
    for _ in 0..KILL_ATTEMPTS {
        if killed.is_err() {
            killed = kill_all();
        }
        let processes = processes_of_user(id)?;
        if killed.is_ok() && processes.is_empty() {
            return Ok(());
        }
        for process in processes {
            // It can have ended meanwhile.
            let _ = kill(process, Signal::SIGKILL);
        }
        std::thread::sleep(KILL_PAUSE);
    }
    killed?;
    Err(io::Error::other(format!("processes of the user {id} do not end")))
}

/// Makes this process one of the user `id`, and kills all others of this user.
///
/// Must be called while the process has one thread, by a process that ends then.
///
/// # Errors
/// If the process does not become one of this user, or if `id` is root, whose signal would reach all processes.
pub fn kill_as_user(id: u32) -> io::Result<()> {
    if id == 0 {
        return Err(io::Error::other("the processes of root are not killed"));
    }
    become_user(id)?;
    // As root, the signal would reach all processes.
    if Uid::current().is_root() || Uid::effective().is_root() {
        return Err(io::Error::other("the process is still one of root"));
    }
    match kill(Pid::from_raw(-1), Signal::SIGKILL) {
        // No other process of the user exists.
        Ok(()) | Err(nix::errno::Errno::ESRCH) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Makes this process one of the user `id`, for good: also the program that replaces it, and its
/// children. None of them has capabilities, other groups, or can gain privileges. All descriptors but
/// 0 to 2 are closed when the process is replaced.
///
/// Must be called while the process has one thread.
///
/// # Errors
/// If the process keeps a privilege. Then the process must end.
pub fn become_user(id: u32) -> io::Result<()> {
    close_descriptors_on_exec()?;
    let (user, group) = (Uid::from_raw(id), Gid::from_raw(id));
    setgroups(&[])?;
    setresgid(group, group, group)?;
    setresuid(user, user, user)?;
    nix::sys::prctl::set_no_new_privs()?;
    let own = Path::new("/proc/self/status");
    for name in ["Uid:", "Gid:"] {
        if !status(own, name)?.split_whitespace().all(|it| it == id.to_string()) {
            return Err(io::Error::other(format!("the process has still another {name}")));
        }
    }
    // The kernel removes them with the user, unless the securebits of the process forbid that.
    for name in ["CapInh:", "CapPrm:", "CapEff:", "CapAmb:"] {
        if status(own, name)?.bytes().any(|digit| digit != b'0') {
            return Err(io::Error::other(format!("the process has still capabilities ({name})")));
        }
    }
    Ok(())
}

/// Gives the directory `path` and everything in it to the user `id`; the directory itself gets mode 0700.
/// Links are not followed, not even if a process replaces a directory by a link meanwhile. A file with
/// another hard link keeps its owner: it can be one of another program. No file keeps a mode with which
/// others would execute it as its owner or group.
///
/// # Errors
/// If an owner or a mode cannot be changed, or directories are nested too deep.
pub fn give_directory(path: &Path, id: u32) -> io::Result<()> {
    let directory = open_as_is(path, OFlag::O_DIRECTORY)?;
    give_entry(&directory, id)?;
    set_mode(&directory, 0o700)?;
    for_each_entry(&directory, 1, &|entry| {
        give_entry(entry, id)?;
        remove_special_mode(entry)
    })
}

/// Removes the modes from all files in the directory `path` with which others would execute them as their owner
/// or group: a module can have left such a file. Links are not followed.
///
/// # Errors
/// If a mode cannot be changed, or directories are nested too deep. A missing directory is not an error.
pub fn remove_special_modes(path: &Path) -> io::Result<()> {
    match open_as_is(path, OFlag::O_DIRECTORY) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        directory => for_each_entry(&directory?, 1, &remove_special_mode),
    }
}

/// Does something with everything in `directory`. Has two descriptors open for each level.
fn for_each_entry(
    directory: &File,
    depth: usize,
    act: &impl Fn(&File) -> io::Result<()>,
) -> io::Result<()> {
    if depth > DEEPEST {
        let text = format!("directories are nested more than {DEEPEST} levels deep");
        return Err(io::Error::other(text));
    }
    for entry in std::fs::read_dir(by_descriptor(directory))? {
        let entry = entry?;
        let path = by_descriptor(directory).join(entry.file_name());
        let is_directory = entry.file_type()?.is_dir();
        let flags = if is_directory { OFlag::O_DIRECTORY } else { OFlag::empty() };
        let found = match open_as_is(&path, flags) {
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            found => found?,
        };
        act(&found)?;
        if is_directory {
            for_each_entry(&found, depth + 1, act)?;
        }
    }
    Ok(())
}

fn give_entry(entry: &File, id: u32) -> io::Result<()> {
    let found = entry.metadata()?;
    if (!found.is_dir() && found.nlink() > 1) || (found.uid(), found.gid()) == (id, id) {
        return Ok(());
    }
    let (user, group) = (Some(Uid::from_raw(id)), Some(Gid::from_raw(id)));
    Ok(fchownat(entry, "", user, group, AtFlags::AT_EMPTY_PATH)?)
}

/// Also of a file with another hard link: the kernel refuses hard links to files of other users that have such a mode.
fn remove_special_mode(entry: &File) -> io::Result<()> {
    let found = entry.metadata()?;
    if found.is_file() && found.mode() & SPECIAL != 0 {
        set_mode(entry, found.mode() & 0o777)?;
    }
    Ok(())
}

/// Lets the group `id` use a file or directory of this user as its owner can, except for writing; of a
/// directory it can only use entries whose names it knows. Links, and files with other hard links, are
/// left as they are.
///
/// # Errors
/// If the group or the mode cannot be changed.
pub fn share_with_group(path: &Path, id: u32) -> io::Result<()> {
    let file = match OpenOptions::new()
        .read(true)
        .custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits())
        .open(path)
    {
        Err(error) if error.raw_os_error() == Some(nix::libc::ELOOP) => return Ok(()),
        file => file?,
    };
    let found = file.metadata()?;
    let rights = if found.is_dir() { 0o010 } else { (found.mode() & 0o500) >> 3 };
    if !found.is_dir() && (!found.is_file() || found.nlink() > 1) {
        return Ok(());
    }
    fchown(&file, None, Some(Gid::from_raw(id)))?;
    file.set_permissions(PermissionsExt::from_mode(found.mode() & 0o700 | rights))
}

/// Adds the right to enter the directory `path`, or to execute the file, for all users. They cannot list
/// the directory.
///
/// # Errors
/// If the mode cannot be changed.
pub fn let_users_enter(path: &Path) -> io::Result<()> {
    let mode = std::fs::metadata(path)?.mode();
    if mode & 0o001 != 0 {
        return Ok(());
    }
    std::fs::set_permissions(path, PermissionsExt::from_mode(mode & 0o7777 | 0o011))
}

/// The path that keeps a user without rights of its own from executing `program`: the file, or a directory above it.
/// `None` if that user can execute it. Access control lists are not read.
#[must_use]
pub fn closed_to_users(program: &Path) -> Option<&Path> {
    // All that are above it have to be entered; the outermost one is to be told.
    let closed = |path: &&Path| std::fs::metadata(path).is_ok_and(|it| it.mode() & 0o001 == 0);
    program.ancestors().filter(closed).last()
}

/// A descriptor of `path` itself, through which neither its content nor a target can be reached.
fn open_as_is(path: &Path, flags: OFlag) -> io::Result<File> {
    let flags = flags | OFlag::O_PATH | OFlag::O_NOFOLLOW;
    OpenOptions::new().read(true).custom_flags(flags.bits()).open(path)
}

/// A path that leads to the open directory, wherever it is now.
fn by_descriptor(directory: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd()))
}

fn set_mode(directory: &File, mode: u32) -> io::Result<()> {
    std::fs::set_permissions(by_descriptor(directory), PermissionsExt::from_mode(mode))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_is_mapped_if_a_range_of_the_namespace_has_it() {
        let map = "         0       1000          1\n         1     100000      65535\n";
        for (id, mapped) in [(0, true), (1, true), (65535, true), (65536, false)] {
            assert_eq!(is_in_map(map, id), mapped, "{id}");
        }
        assert!(is_in_map("         0          0 4294967295\n", 65519));
        assert!(!is_in_map("", 0));
    }

    #[test]
    fn outermost_path_that_is_closed_to_users_is_found() {
        let directory = tempfile::tempdir().unwrap();
        let outer = directory.path().join("outer");
        let inner = outer.join("inner");
        let program = inner.join("program");
        std::fs::create_dir_all(&inner).unwrap();
        std::fs::write(&program, "").unwrap();
        let set = |path: &Path, mode| {
            std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
        };
        for path in [directory.path(), &outer, &inner, &program] {
            set(path, 0o755);
        }
        assert_eq!(closed_to_users(&program), None);
        for path in [&program, &inner, &outer] {
            set(path, 0o750);
            assert_eq!(closed_to_users(&program), Some(path.as_path()));
        }
    }

    #[test]
    fn processes_are_found_by_their_user() {
        let own = Pid::this();
        assert!(processes_of_user(Uid::current().as_raw()).unwrap().contains(&own));
        assert!(!processes_of_user(61_184).unwrap().contains(&own));
    }

    #[test]
    fn processes_of_root_are_never_killed() {
        assert!(kill_as_user(0).unwrap_err().to_string().contains("of root are not killed"));
    }

    #[test]
    fn processes_of_a_user_have_ended_only_when_all_were_killed_at_once() {
        // A user that no machine has: its processes would be killed.
        let user = 3_000_000_100;
        // A process of the user can kill the one that is about to kill all.
        let mut left = 3;
        let ended = end_processes_of_user(user, || {
            left -= 1;
            if left == 0 { Ok(()) } else { Err(ErrorKind::Interrupted.into()) }
        });
        assert_eq!((ended.is_ok(), left), (true, 0));
        let failed = end_processes_of_user(user, || Err(ErrorKind::Interrupted.into()));
        assert_eq!(failed.unwrap_err().kind(), ErrorKind::Interrupted);
    }

    #[test]
    fn user_can_be_changed_only_by_root() {
        if !Uid::effective().is_root() {
            let problem = user_change_problem();
            assert_eq!(problem.as_deref(), Some("the runner is not root"));
        }
    }

    #[test]
    fn shared_file_is_readable_for_the_group_and_a_link_is_left_alone() {
        let base = tempfile::tempdir().unwrap();
        let group = nix::unistd::getegid().as_raw();
        let [file, outside, link] = ["file", "outside", "link"].map(|name| base.path().join(name));
        for path in [&file, &outside] {
            std::fs::write(path, "").unwrap();
            std::fs::set_permissions(path, PermissionsExt::from_mode(0o600)).unwrap();
        }
        std::os::unix::fs::symlink(&outside, &link).unwrap();
        for path in [&file, &link, &base.path().to_owned()] {
            share_with_group(path, group).unwrap();
        }
        let mode = |path: &Path| std::fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!([mode(&file), mode(&outside), mode(base.path())], [0o640, 0o600, 0o710]);
    }

    #[test]
    fn no_file_is_executed_as_its_owner_afterwards() {
        let base = tempfile::tempdir().unwrap();
        let states = base.path().join("states");
        std::fs::create_dir_all(states.join("a/b")).unwrap();
        let outside = base.path().join("outside");
        for (path, mode) in [
            (states.join("plain"), 0o644),
            (states.join("setuid"), 0o4755),
            (states.join("a/setgid"), 0o2755),
            (states.join("a/b/both"), 0o6711),
            (states.join("linked"), 0o4755),
            (outside.clone(), 0o4755),
        ] {
            std::fs::write(&path, "").unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        }
        std::fs::hard_link(states.join("linked"), states.join("a/again")).unwrap();
        std::os::unix::fs::symlink(&outside, states.join("link")).unwrap();
        remove_special_modes(&states).unwrap();
        remove_special_modes(&base.path().join("missing")).unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().mode() & 0o7777;
        for (name, expected) in [
            ("plain", 0o644),
            ("setuid", 0o755),
            ("a/setgid", 0o755),
            ("a/b/both", 0o711),
            ("linked", 0o755),
        ] {
            assert_eq!(mode(&states.join(name)), expected, "{name}");
        }
        assert_eq!(mode(&outside), 0o4755, "links are not followed");
    }

    #[test]
    fn directories_that_are_nested_too_deep_are_an_error() {
        let base = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(base.path().join("a/".repeat(DEEPEST + 1))).unwrap();
        let error = remove_special_modes(base.path()).unwrap_err().to_string();
        assert!(error.contains("nested more than"), "{error}");
    }
}
