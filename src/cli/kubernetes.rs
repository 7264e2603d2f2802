//! Runs as Jobs in a Kubernetes cluster: `generate kubernetes`, which prints the Job or executes the run
//! (`--apply`), `trigger kubernetes`, which only creates the Job, and `ci-status kubernetes`, which reads its status.

pub(super) mod apply;
pub(super) mod command_end;
pub(super) mod job;
mod prepared_run;
mod start_job;
mod status;
mod values;

pub(super) use apply::Kubernetes;
pub(super) use start_job::StartJob;
pub(super) use status::KubernetesStatus;
