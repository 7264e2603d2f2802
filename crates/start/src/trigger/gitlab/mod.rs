//! GitLab CI: a pipeline that a trigger token starts.
//!
//! The trigger token can only start pipelines. The optional access token reads them, and finds the pipeline
//! of a request whose response was lost.

mod client;
mod explain;
mod find;

pub(super) use client::{GitLab, STATES};
