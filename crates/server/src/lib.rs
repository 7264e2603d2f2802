//! The server: it watches repositories, decides which runs of which layers are due, and starts
//! them.
//!
//! [`config`] reads the desired state, and [`mirror`] finds out which layers a commit changes.
//! [`model`] holds the types that pass between the parts, and [`decision`] the pure function that
//! decides. [`store`] keeps the facts, and [`controller`] executes what was decided.

pub mod config;
pub mod controller;
pub mod decision;
pub mod mirror;
pub mod model;
pub mod store;
