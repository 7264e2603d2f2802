//! A request to start a run, and what the CI system made of it.

use std::collections::BTreeMap;

use secrecy::SecretString;
use serde::Serialize;
use serde_json::{Map, Value};
use url::Url;

use butler_protocol::spec::RunId;

/// A run to start.
#[derive(Debug)]
pub struct Order {
    /// The registry's URL as the runner gets it.
    pub endpoint: Url,
    /// Which run.
    pub run_id: RunId,
    /// The callback token, which the CI system hands to the runner.
    pub token: SecretString,
    /// Further inputs of the job by name; not secret.
    pub inputs: BTreeMap<String, String>,
}

impl Order {
    /// The inputs of the job and `own`: the values that the runner adds, under the provider's names.
    pub(super) fn job_inputs(&self, own: &[(&str, &str)]) -> Map<String, Value> {
        let inputs = self.inputs.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let told = inputs.chain(own.iter().copied());
        told.map(|(name, value)| (name.to_owned(), Value::from(value))).collect()
    }
}

/// The run that the CI system started.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Started {
    /// What the CI system calls it; [`Provider::state`](super::Provider::state) takes it.
    pub external_run_id: String,
    /// Its page, where it has one.
    pub external_url: Option<String>,
}
