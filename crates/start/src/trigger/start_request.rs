//! A request to start a run, and the run that the CI system started.

use std::collections::BTreeMap;

use secrecy::SecretString;
use serde::Serialize;
use serde_json::{Map, Value};
use url::Url;

use butler_protocol::spec::RunId;

/// How the runner in a job reaches its registry.
#[derive(Debug)]
pub struct RunnerAccess {
    /// The registry's URL as the runner gets it.
    pub endpoint: Url,
    /// The callback token, which the CI system passes to the runner.
    pub token: SecretString,
}

/// A run to start.
#[derive(Debug)]
pub struct StartRequest {
    /// The run's id. The run is found by it: it is in its name, or one of its variables.
    pub run_id: RunId,
    /// What a job needs that starts the runner; `None` for another job.
    pub runner: Option<RunnerAccess>,
    /// Additional inputs of the job by name; not secret.
    pub inputs: BTreeMap<String, String>,
}

impl StartRequest {
    /// The inputs of the job and `own`: the values that the runner adds, under the provider's names.
    pub(super) fn job_inputs(&self, own: &[(&str, &str)]) -> Map<String, Value> {
        let inputs = self.inputs.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let all = inputs.chain(own.iter().copied());
        all.map(|(name, value)| (name.to_owned(), Value::from(value))).collect()
    }
}

/// The run that the CI system started.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StartedRun {
    /// The CI system's id of the run, for [`Provider::state`](super::Provider::state).
    pub external_run_id: String,
    /// The address of the run's page, if it has one.
    pub external_url: Option<String>,
}
