//! The desired state as custom resources of a Kubernetes cluster: which of them are used, and their status.
//!
//! A resource in a namespace defines the repository, layer or follower `NAMESPACE.NAME`, by the rules of
//! configuration that other people write. It can name only what resources of its own namespace define.
//! Nothing here reads or writes.

mod before;
mod choice;
mod followers;
mod resolve;
mod schemas;
mod status;
mod structural;
#[cfg(test)]
mod tests;

pub use choice::Refusal;
pub use resolve::{Clash, Resources, TakenResource};
pub use schemas::definitions;
pub use status::{Holds, Observed, status, status_of_held};
