//! The directory of a run: who owns it, how it is wiped, and what a killed run leaves.

pub(super) mod descriptors;
pub(super) mod leftovers;
pub(super) mod memory;
pub(super) mod origin;
pub(super) mod ownership;
pub(super) mod recovery;
pub(super) mod run_directory;
pub(super) mod run_user;
pub(super) mod wiping;
