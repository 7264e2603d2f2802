//! Starts runs in CI systems and Kubernetes clusters.
//!
//! [`generate`] writes the files that CI systems need, [`trigger`] starts a run in a CI system, and [`cluster`]
//! creates a Kubernetes Job. None of them executes Terraform.

pub mod cluster;
pub mod generate;
pub mod trigger;
