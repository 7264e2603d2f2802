//! Custom resources with the desired state: their kinds, their objects, and their status.
//!
//! The cluster's users write what a resource wants, and the server writes its status. A resource has no
//! finalizer: if it is deleted, the server forgets what it wanted, and never destroys infrastructure.

mod kinds;
mod object;
mod outages;
mod status;
mod watched;
mod write;

pub(crate) use kinds::GROUP;
pub use kinds::{ResourceKind, definitions};
pub use object::{CustomObject, ResourceKey};
pub use status::{Condition, ConditionStatus, ResourceStatus};
pub use watched::{KnownResources, WatchedResources};
