//! The server: it watches repositories, decides which runs of which layers are due, and starts
//! them.
//!
//! [`model`] holds the types that pass between the parts, and [`decision`] the pure function that
//! decides. [`store`] keeps the facts, and [`controller`] executes what was decided.

pub mod config;
pub mod controller;
pub mod decision;
pub mod model;
pub mod store;
