//! The directory of a run: who owns it, how it is wiped, and what a killed run leaves.

mod decryption;
pub(super) mod descriptors;
pub(super) mod errored_state;
pub(super) mod kept_file;
pub(super) mod leftovers;
pub(super) mod memory;
pub(super) mod origin;
pub(super) mod ownership;
pub(super) mod recovery;
pub(super) mod run_directory;
pub(super) mod run_user;
pub(super) mod wiping;
