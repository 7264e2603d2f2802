//! The differences between operating systems, behind one set of names: `unix` and `windows`; and
//! features of Linux only (`linux`), with the fallback for other systems (`other`).
//!
//! Callers may rely on this: each name exists on each system and is safe to call. The comment of a
//! function states if a system lacks the feature. No other module depends on the operating system.
//! `docs/platforms.md` describes the consequences for users.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
pub use linux::*;

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

/// An event of the terminal.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Change {
    /// Its size may have changed.
    Size,
    /// The user suspends this process (Ctrl-Z): see [`suspend`].
    Suspension,
}
