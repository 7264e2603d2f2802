//! What people and programs read of followers: the status, and the timings.

mod events;
mod evidence;
mod follower;
mod stage;
mod table;
mod timings;

#[cfg(test)]
mod tests;

pub use events::events_table;
pub use evidence::evidence_table;
pub use follower::{FollowerStatus, status_table};
pub use stage::{EventStatus, FailureStatus, InFlightStatus, StageStatus, TaskStatus};
pub use timings::{TimingRow, Timings};
