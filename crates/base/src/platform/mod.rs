//! What systems differ in, behind one set of names: `unix` and `windows`, and what only Linux has (`linux`)
//! with what all others do instead (`other`).
//!
//! Callers may rely on each name being there and being harmless; what is missing on a system is said
//! in its comment. No other module asks which system this is, but for the allocator (`secret`), which
//! is bound to C. What that means for users is said in `docs/platforms.md`.

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

/// How much room a file system has.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Room {
    /// What this user may still take, in bytes.
    pub free: u64,
    /// All of it, in bytes.
    pub total: u64,
    /// Whether programs can be started from it.
    pub starts_programs: bool,
}

/// What happened to the terminal.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Change {
    /// It may have another size.
    Size,
    /// Its user wants this process to stop for a while (Ctrl-Z): see [`suspend`].
    Suspension,
}
