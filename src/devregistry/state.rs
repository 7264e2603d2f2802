//! The state of the development registry: its runs and the requests that it received.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use sha2::{Digest, Sha256};

use butler_base::event::LogLine;

/// All runs of one development registry.
#[derive(Debug, Default)]
pub struct Registry {
    runs: Mutex<BTreeMap<String, Run>>,
}

/// One run.
#[derive(Clone, Debug)]
pub struct Run {
    /// Its status, as it was set or reported.
    pub status: String,
    /// The response to GET config.
    pub config: Value,
    /// SHA-256 of the callback token: the token itself is not kept.
    pub(super) token: [u8; 32],
    /// The received requests and reports.
    pub received: Received,
}

/// The requests and reports of a run, in order.
#[derive(Clone, Debug, Default)]
pub struct Received {
    /// Every request that was authorized, in order of arrival.
    pub requests: Vec<Request>,
    /// Bodies of POST status.
    pub statuses: Vec<Value>,
    /// Log lines, batch after batch.
    pub logs: Vec<LogLine>,
    /// Bodies of POST plan.
    pub plans: Vec<Value>,
    /// Bodies of POST outputs.
    pub outputs: Vec<Value>,
}

/// One request as the tests assert it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Request {
    /// `GET` or `POST`.
    pub method: String,
    /// The last segment of the path, `status` for example.
    pub endpoint: String,
    /// The HTTP status of the response.
    pub answer: u16,
}

impl Registry {
    /// Adds a run with the status `queued`.
    pub fn add_run(&self, run_id: &str, token: &str, config: Value) {
        let run = Run {
            status: "queued".to_owned(),
            config,
            token: hash(token),
            received: Received::default(),
        };
        self.runs().insert(run_id.to_owned(), run);
    }

    /// Sets a run's status, as a user who cancels it does.
    pub fn set_status(&self, run_id: &str, status: &str) {
        if let Some(run) = self.runs().get_mut(run_id) {
            status.clone_into(&mut run.status);
        }
    }

    /// The run as it is now.
    #[must_use]
    pub fn run(&self, run_id: &str) -> Option<Run> {
        self.runs().get(run_id).cloned()
    }

    pub(super) fn runs(&self) -> MutexGuard<'_, BTreeMap<String, Run>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
}

impl Run {
    /// Whether the registry has ended the run.
    #[must_use]
    pub fn is_over(&self) -> bool {
        matches!(self.status.as_str(), "cancelled" | "timed_out" | "discarded" | "skipped")
    }
}

pub(super) fn hash(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}
