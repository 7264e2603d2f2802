//! Malicious input to the real binary: configurations, repositories, caches, releases.
//!
//! With each of them, the run ends with one status and a reason, and creates nothing outside of its
//! directories.

mod cache;
mod configs;
mod environment;
mod repositories;
mod threat_model;

/// A page of the documentation that these tests check.
const THREAT_MODEL: &str = "docs/threat-model.md";
