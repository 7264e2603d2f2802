//! Branch followers of a server: reads what a decision of [`butler_follower`] needs, stores the record, and submits
//! what is due.

mod cluster;
mod copies;
mod look;
mod surroundings;

pub(crate) use cluster::log_in;
pub use cluster::{FollowerCluster, LoginError};
pub use copies::Copies;
pub use look::FollowerLooks;
pub use surroundings::{BranchHead, Surroundings, Wanted};

#[cfg(test)]
pub(crate) mod tests;
