//! Saved plans: one file with everything that it takes to apply exactly a plan later.
//!
//! The file holds Terraform's own plan, `.terraform.lock.hcl`, every file that the plan created in the
//! module's directory, and a manifest with a digest of each. It is as secret as the plan, which has
//! values in clear text: it is made with mode 0600, and nothing of it is logged. What is read is
//! checked as a whole before anything is used, and nothing is written outside of the module's
//! directory. The format is in docs/plan-artifact.md.

mod digesting;
mod error;
mod manifest;
mod read;
mod restore;
mod save;
mod snapshot;
#[cfg(test)]
mod tests;

pub use error::ArtifactError;
pub use manifest::{FORMAT_VERSION, Head};
pub use read::Artifact;
pub use save::{Parts, save};
pub use snapshot::Snapshot;

/// Terraform's own name of the file in which the choice of providers is kept.
pub const LOCK_FILE: &str = ".terraform.lock.hcl";
