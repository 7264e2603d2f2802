//! Collects releases for machines without network: in a directory, or in a tar of it, with the
//! layout of the vendors' sites.
//!
//! Every release is verified when it is added and again when it is installed from the bundle,
//! because the bundle contains the checksum files and their signatures. It is trusted no more than
//! any other mirror. Each file appears complete, in one rename. The lists of versions are written
//! last, so a version is found only when all its files are there.

pub(in crate::tool) mod error;
mod lists;
mod output;
pub(in crate::tool) mod write_bundle;
