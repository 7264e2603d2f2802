//! Replaces this executable by a released one, for `self update`.
//!
//! The new executable replaces the old one only if its archive has the published checksum, its
//! attestation is verified (if that was requested), and it starts and prints the wanted version.
//! The replacement is one rename: other processes start the old or the new executable. An
//! executable that a package manager installed is not replaced (`installer`).

mod error;
mod installer;
mod self_update;

pub use error::UpdateError;
pub use installer::Installer;
pub use self_update::{Update, UpdateResult};
