//! What is stored of a follower.

use butler_follower::state::Record;
use serde::{Deserialize, Serialize};

/// The record of a follower, with how often it was written.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct StoredFollower {
    /// Counts from 1. The next version is written only by a caller that has read this one.
    pub version: u64,
    /// The record, with the id of the follower.
    pub record: Record,
}
