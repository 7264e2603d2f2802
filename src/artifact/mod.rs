//! Saved plans: one file with all that is needed to apply exactly this plan later.
//!
//! The file holds Terraform's own plan, `.terraform.lock.hcl`, every file that the plan created in the
//! module's directory, and a manifest with a digest of each. Plans contain secrets in clear text, so the
//! file has mode 0600, and its content is never logged. The whole file is checked before any part is
//! used, and no file is written outside of the module's directory. docs/plan-artifact.md describes the
//! format.

mod digest;
mod error;
mod manifest;
mod read;
mod restore;
mod save;
mod snapshot;
#[cfg(test)]
mod tests;

pub use digest::file_digest;
pub use error::ArtifactError;
pub use manifest::{FORMAT_VERSION, Head};
pub use read::{Artifact, check_replaceable};
pub use save::{Parts, save};
pub use snapshot::Snapshot;

/// Terraform's lock file of providers.
pub const LOCK_FILE: &str = ".terraform.lock.hcl";
