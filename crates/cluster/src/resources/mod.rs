//! Custom resources with the desired state: their kinds, their objects, and their status.
//!
//! The cluster's users write what a resource wants, and the server writes its status. A resource has no
//! finalizer: if it is deleted, the server forgets what it wanted, and never destroys infrastructure.

mod kinds;
mod object;
mod status;
mod write;

pub use kinds::{GROUP, ResourceKind, VERSION, definitions};
pub use object::{CustomObject, ListError, ResourceKey, WatchedResources};
pub use status::{Condition, ConditionStatus, ResourceStatus};
pub use write::StatusWrite;
