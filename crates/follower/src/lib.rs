//! Branch followers: what happens next after a commit to a branch.
//!
//! A follower delivers each commit of its branch through a chain of stages. A stage creates a native
//! object under a derived name, or observes one that another controller owns. [`decide`] reads the
//! branch's head and the objects, and returns a phase, at most one action, and the record to store.
//!
//! This crate is pure: it knows neither Kubernetes, HTTP, files nor a clock. The caller reads the
//! objects that [`objects_to_read`] names, stores the new record, and then executes the action.

mod commit;
pub mod condition;
pub mod config;
mod decision;
pub mod object;
mod phase;
pub mod state;
pub mod status;
mod text;

pub use butler_base::moment::Moment;
pub use commit::{Commit, CommitError};
pub use decision::{
    Action, Decision, Head, Input, Observations, Request, Sighting, Submission, decide,
    objects_to_read,
};
pub use phase::Phase;
