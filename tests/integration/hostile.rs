//! Input that means harm, against the real binary: configurations, repositories, caches, releases.
//!
//! Whatever it is, the run ends with one status and a reason, and nothing is made outside of it.

mod cache;
mod configs;
mod environment;
mod repositories;
mod threat_model;

/// A page of the documentation that these tests hold to what they show.
const THREAT_MODEL: &str = "docs/threat-model.md";
