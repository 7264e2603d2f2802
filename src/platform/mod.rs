//! What systems differ in, behind one set of names: `unix` and `windows`, and in `unix` what only Linux
//! has (`linux`) and what the others do instead (`other`).
//!
//! Callers may rely on each name being there and being harmless; what is missing on a system is said
//! in its comment. No other module asks which system this is, but for the allocator (`secret`), which
//! is bound to C. What that means for users is said in `docs/platforms.md`.

#[cfg(unix)]
mod unix;
#[cfg(unix)]
pub use unix::*;

#[cfg(windows)]
mod windows;
#[cfg(windows)]
pub use windows::*;
