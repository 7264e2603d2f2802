//! What is stored of a follower, and its copy of limited size.

mod bounded;
mod record;

pub use bounded::{COPY_LIMIT, bounded_copy, copy_name};
pub use record::{
    Event, Failure, InFlight, MOST_EVENTS, MOST_TASKS, Record, RunTimings, StageProgress,
    StageRecord, TaskRecord,
};
