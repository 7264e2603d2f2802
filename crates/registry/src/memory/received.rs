//! The requests and reports that a run's registry has received.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::Report;
use butler_base::event::LogLine;

/// The requests and reports of a run, in order.
#[derive(Clone, Debug, Default)]
pub struct Received {
    /// Every request that was authorized.
    pub requests: Vec<Request>,
    /// Bodies of POST status.
    pub statuses: Vec<Value>,
    /// Log lines, batch after batch.
    pub logs: Vec<LogLine>,
    /// Bodies of POST plan.
    pub plans: Vec<Value>,
    /// Bodies of PUT plan-file.
    pub plan_files: Vec<Bytes>,
    /// Bodies of POST outputs.
    pub outputs: Vec<Value>,
    /// Bodies of POST result.
    pub results: Vec<Value>,
}

/// One request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Request {
    /// `GET`, `POST` or `PUT`.
    pub method: String,
    /// The last segment of the path, `status` for example.
    pub endpoint: String,
    /// The HTTP status of the response.
    pub answer: u16,
}

impl Received {
    /// The log's text, line by line.
    #[must_use]
    pub fn log_text(&self) -> String {
        self.logs.iter().flat_map(|line| [line.content.as_str(), "\n"]).collect()
    }

    /// The requests as `GET status`, `POST logs` and so on.
    #[must_use]
    pub fn request_names(&self) -> Vec<String> {
        self.requests
            .iter()
            .map(|request| format!("{} {}", request.method, request.endpoint))
            .collect()
    }

    pub(super) fn keep(&mut self, report: Report) -> serde_json::Result<()> {
        match report {
            Report::Status(report) => self.statuses.push(serde_json::to_value(report)?),
            Report::Logs(lines) => self.logs.extend(lines),
            Report::Plan(report) => self.plans.push(serde_json::to_value(report)?),
            Report::Outputs(outputs) => self.outputs.push(json!({"outputs": outputs})),
            Report::Result(account) => self.results.push(serde_json::to_value(account)?),
        }
        Ok(())
    }
}
