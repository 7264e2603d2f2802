//! Runs as Jobs in a Kubernetes cluster: `generate kubernetes`, which prints one or carries it out
//! (`--apply`), `trigger kubernetes`, which only starts it, and `ci-status kubernetes`, which reads it back.

mod apply;
mod ending;
mod handover;
mod job;
mod look;
mod start;
mod values;

pub(super) use apply::Kubernetes;
pub(super) use look::Look;
pub(super) use start::Start;
