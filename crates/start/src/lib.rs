//! Starts runs in CI systems.
//!
//! [`generate`] writes the files that CI systems need, and [`trigger`] starts a run in a CI system. None of them
//! executes Terraform.

pub mod generate;
pub mod trigger;
