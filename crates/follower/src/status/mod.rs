//! What people and programs read of followers: the status, and the timings.

mod events;
mod follower;
mod stage;
mod table;
mod timings;

#[cfg(test)]
mod tests;

pub use events::events_table;
pub use follower::{FollowerStatus, status_table};
pub use stage::{EventStatus, FailureStatus, InFlightStatus, StageStatus};
pub use timings::{TimingRow, Timings};
