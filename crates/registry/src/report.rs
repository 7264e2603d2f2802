//! The reports of a run. A field that the API does not define is kept in `other`.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use butler_base::event::LogLine;

/// A report that has passed the checks of the API.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "one per request, and moved once")]
pub enum Report {
    /// The body of `POST status`.
    Status(StatusReport),
    /// The lines of `POST logs`, in the order of the batch.
    Logs(Vec<LogLine>),
    /// The body of `POST plan`.
    Plan(PlanReport),
    /// The outputs by name: the field `outputs` of `POST outputs`.
    Outputs(Map<String, Value>),
    /// The body of `POST result`: the account of the run, a JSON object. Only a run whose configuration has
    /// `callbacks.resultUrl` sends it.
    Result(Box<RawValue>),
}

/// The body of `POST status`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct StatusReport {
    /// `running`, `succeeded`, `planned`, `failed` or `cancelled`; 1 to 32 bytes.
    pub status: String,
    /// The exit code of the runner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i64>,
    /// Resources to add, or added after an apply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources_to_add: Option<u64>,
    /// Resources to change, or changed after an apply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources_to_change: Option<u64>,
    /// Resources to destroy, or destroyed after an apply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources_to_destroy: Option<u64>,
    /// Resources in the state at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_count_after: Option<u64>,
    /// The result as text, with the reason of a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan_summary: Option<String>,
    /// The reason of a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<StatusError>,
    /// The commit id of the module.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_commit: Option<String>,
    /// The tool and its version, `terraform 1.11.4` for example.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// All other fields.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// Why a run failed.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct StatusError {
    /// The phase that failed, `source` for example. Absent if the runner never started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// The failed action and its object.
    pub message: String,
    /// What to do next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
    /// All other fields.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// The body of `POST plan`: at least one of the two is not empty.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct PlanReport {
    /// The document of `show -json`, or a string that contains it. It can be tens of MB, so it is not
    /// parsed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan_json: Option<Box<RawValue>>,
    /// The tool's text output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan_text: Option<String>,
    /// All other fields.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}
