//! Files that contain secrets: creates them in private directories, and wipes them.

pub(super) mod mounts;
pub(super) mod private;
pub(super) mod wipe;
#[cfg(test)]
mod wipe_tests;
