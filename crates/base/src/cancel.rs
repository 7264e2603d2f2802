//! Asks a run to stop: because the registry ended it, or because of a signal.
//!
//! The first reason is kept; a later signal makes the stop urgent. Everything that waits also waits
//! for a [`Stop`]. The teardown continues after that, but has to end in time: [`Stop::within`] is the
//! only place that computes how much time is left.

mod deadline;
mod step;
mod stop;
mod times;

pub use step::Step;
pub use stop::{Stop, StopReason};
pub use times::Times;
