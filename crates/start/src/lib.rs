//! Starts runs elsewhere.
//!
//! [`generate`] writes the files that CI systems need, [`trigger`] has a CI system start a run, and
//! [`cluster`] creates a Kubernetes Job. None of them executes Terraform.

pub mod cluster;
pub mod generate;
pub mod trigger;
