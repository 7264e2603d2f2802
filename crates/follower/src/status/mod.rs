//! What people and programs read of followers: the status, and the timings.

mod follower;
mod table;
mod timings;

#[cfg(test)]
mod tests;

pub use follower::{FollowerStatus, status_table};
pub use timings::{TimingRow, Timings};
