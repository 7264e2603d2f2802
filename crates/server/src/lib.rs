//! The server: it watches repositories, decides which runs of which layers are due, and starts
//! them.
//!
//! [`model`] holds the types that pass between the parts, and [`decision`] the pure function that
//! decides. All other parts collect its input or execute its result.

pub mod decision;
pub mod model;
