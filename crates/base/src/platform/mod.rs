//! The differences between operating systems, behind one set of names: `unix` and `windows`; and
//! features of Linux only (`linux`, `landlock`, `output_file` and `users`), with the fallback for other systems (`other`).
//!
//! Callers may rely on this: each name exists on each system and is safe to call. The comment of a
//! function states if a system lacks the feature. No other module depends on the operating system.
//! `docs/platforms.md` describes the consequences for users.

use std::path::PathBuf;

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
pub use linux::*;
#[cfg(target_os = "linux")]
mod landlock;
#[cfg(target_os = "linux")]
pub use landlock::{landlock, readable_paths, restrict_process};
#[cfg(target_os = "linux")]
mod output_file;
#[cfg(target_os = "linux")]
pub use output_file::OutputFile;
#[cfg(target_os = "linux")]
mod users;
#[cfg(target_os = "linux")]
pub use users::{
    become_user, closed_to_users, end_processes_of_user, give_directory, is_user_mapped,
    kill_as_user, let_users_enter, processes_of_user, remove_special_modes, share_with_group,
    user_change_problem,
};

#[cfg(not(target_os = "linux"))]
mod other;
#[cfg(not(target_os = "linux"))]
pub use other::*;

#[cfg(unix)]
mod unix;
#[cfg(unix)]
pub use unix::*;

#[cfg(windows)]
mod windows;
#[cfg(windows)]
pub use windows::*;

/// The space of a file system.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Room {
    /// The space that this user can use, in bytes.
    pub free: u64,
    /// The total space, in bytes.
    pub total: u64,
    /// Whether programs can be executed from it.
    pub starts_programs: bool,
}

/// What Landlock restricts on this machine.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Landlock {
    /// As [`Self::Files`], but any file that the user can write can be truncated.
    FilesButTruncation,
    /// Files, and the memory and environment of other processes.
    Files,
    /// In addition, signals to other processes, and abstract UNIX sockets of other processes.
    FilesAndSignals,
}

impl Landlock {
    /// The name of this isolation, with what it does not prevent if that is about files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::FilesButTruncation => {
                "landlock, without protection against truncation: Linux before 6.2"
            }
            Self::Files | Self::FilesAndSignals => "landlock",
        }
    }
}

/// The paths that a restricted process can use, apart from those of the system. A directory includes
/// everything below it. A path that does not exist is ignored.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct AllowedPaths {
    /// Can be read and executed.
    pub read: Vec<PathBuf>,
    /// Can be read, executed, created, written and removed. Devices cannot be created.
    pub write: Vec<PathBuf>,
}

/// An event of the terminal.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Change {
    /// Its size may have changed.
    Size,
    /// The user suspends this process (Ctrl-Z): see [`suspend`].
    Suspension,
}
