//! Branch followers of a server: reads what a decision of [`butler_follower`] needs, stores the record, and submits
//! what is due.

mod look;
mod surroundings;

pub use look::FollowerLooks;
pub use surroundings::Surroundings;

#[cfg(test)]
mod tests;
