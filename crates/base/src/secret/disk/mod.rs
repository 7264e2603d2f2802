//! Files with secrets: private directories, and wiping.

pub(super) mod mounts;
pub(super) mod private;
pub(super) mod wipe;
