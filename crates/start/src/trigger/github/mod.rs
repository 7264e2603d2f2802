//! GitHub Actions: `workflow_dispatch` and `repository_dispatch`, and the run that they create.
//!
//! Newer servers return the run of a `workflow_dispatch` (`return_run_details`). With older servers, and if the
//! response was lost, the runner finds the run by its name, which contains the run's id.

mod app;
mod client;
mod dispatch;
mod explain;
mod find;
mod headers;

pub(super) use client::{GitHub, STATES};
