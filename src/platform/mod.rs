//! What only some systems have, behind one set of functions: `linux` does it, `other` says that it is
//! not there, or that it need not be.
//!
//! Callers may rely on each function being there and being harmless; what is missing on a system is
//! said in its comment in `other`. No other module asks which system this is, but for the allocator
//! (`secret`), which is bound to C. The rest of the crate needs Unix: `docs/platforms.md`.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
pub use linux::*;

#[cfg(not(target_os = "linux"))]
mod other;
#[cfg(not(target_os = "linux"))]
pub use other::*;
