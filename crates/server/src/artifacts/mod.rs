//! Copies of what attempts left (logs, plans, saved plans) in an object store.
//!
//! Each server copies the files of its own attempts, while they run and when they have ended. Another server, or
//! this one after the loss of its disk, copies them back into its data directory when they are asked for: whatever
//! reads the files of an attempt finds them there. Saved plans are encrypted before they get into the data
//! directory, so they are copied as they are.

mod address;
mod attempt_copy;
mod bucket;
mod copier;
mod files;
mod not_copied;
#[cfg(test)]
pub(crate) mod unreliable;

pub use address::{AddressError, ArtifactsAddress, ArtifactsSettings};
pub(crate) use attempt_copy::prefix;
pub use bucket::{Bucket, BucketError};
pub use copier::Copier;
pub use files::AttemptFiles;
pub use not_copied::NotCopied;
