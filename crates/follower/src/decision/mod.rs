//! What happens next to a follower.

mod chain;
mod decide;
mod outcome;
mod pass;
mod standing;
mod tasks;
mod types;
mod verdict;

pub use decide::{decide, objects_to_read};
pub use types::{Action, Decision, Head, Input, Observations, Request, Sighting, Submission};
