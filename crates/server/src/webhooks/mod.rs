//! Deliveries of git hosts about new commits.
//!
//! A delivery proves that it knows the secret of its repository, and then makes the next poll begin. Nothing
//! else of it is used, so it is not stored, and one that is sent again does no harm.

mod deliveries;
mod provider;
mod receive;

pub use deliveries::{Deliveries, DeliveryCounts};
pub use receive::{Receiver, router};
