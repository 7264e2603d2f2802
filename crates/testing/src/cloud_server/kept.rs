//! The contents of the server, and the requests that it has received.

use std::path::PathBuf;
use std::process::Command;

use axum::body::Bytes;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use serde_json::{Value, json};

use super::documents::{document, not_found, reply, resource};
use super::run::Run;

/// The only organization.
pub const ORGANIZATION: &str = "acme";
/// The only workspace.
pub const WORKSPACE: &str = "network";
/// The token that the server accepts.
pub const TOKEN: &str = "cloud-t0ken-4711";

pub(super) const WORKSPACE_ID: &str = "ws-1";

/// The execution mode of the workspace.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Execution {
    /// The server plans and applies.
    Remote,
    /// The server only stores the state.
    Local,
}

/// The contents of the server, and the requests that it has received.
pub(super) struct Kept {
    pub(super) execution: Execution,
    /// Attributes of runs that the server ignores, as a server does that does not know them.
    pub(super) ignored: Vec<&'static str>,
    pub(super) directory: tempfile::TempDir,
    /// The address of the server.
    pub(super) address: String,
    pub(super) runs: Vec<Run>,
    /// The number of configurations that clients have created; each has a directory of its own.
    pub(super) configurations: usize,
    /// The holder of the lock of the workspace.
    pub(super) lock: Option<String>,
    pub(super) states: Vec<Bytes>,
    /// The actions on runs, such as `run-1 discard`.
    pub(super) actions: Vec<String>,
    /// Whether connections are closed without an answer.
    pub(super) is_away: bool,
}

impl Kept {
    pub(super) fn workspace(&self) -> Value {
        let is_remote = self.execution == Execution::Remote;
        let rights = ["can-queue-run", "can-queue-apply", "can-queue-destroy", "can-update"];
        let more = ["can-lock", "can-unlock", "can-force-unlock", "can-read-settings"];
        let rights: serde_json::Map<_, _> =
            rights.into_iter().chain(more).map(|right| (right.to_owned(), true.into())).collect();
        let attributes = json!({
            "name": WORKSPACE,
            "execution-mode": if is_remote { "remote" } else { "local" },
            "operations": is_remote,
            "permissions": rights,
            "terraform-version": "latest",
            "locked": self.lock.is_some(),
            "structured-run-output-enabled": false,
        });
        let organization = json!({"data": {"id": ORGANIZATION, "type": "organizations"}});
        resource("workspaces", WORKSPACE_ID, &attributes, &json!({"organization": organization}))
    }

    pub(super) fn act_on_workspace(&mut self, action: &str) -> Response {
        match (action, &self.lock) {
            ("lock", Some(_)) => {
                let error = json!({"status": "409", "title": "conflict", "detail": "workspace already locked"});
                return reply(StatusCode::CONFLICT, &json!({"errors": [error]}));
            }
            ("lock", None) => self.lock = Some("a client".to_owned()),
            _ => self.lock = None,
        }
        document(&self.workspace())
    }

    /// The state with this number; the first one is 1.
    fn state(&self, number: usize) -> Option<&Bytes> {
        self.states.get(number.checked_sub(1)?)
    }

    pub(super) fn state_version(&self, number: usize) -> Response {
        let Some(state) = self.state(number) else { return not_found() };
        let state: Value = serde_json::from_slice(state).unwrap();
        let address = format!("{}/states/{number}", self.address);
        let attributes = json!({
            "serial": state["serial"],
            "lineage": state["lineage"],
            "hosted-state-download-url": address,
            "resources-processed": true,
            "status": "finalized",
        });
        document(&resource("state-versions", &number.to_string(), &attributes, &json!({})))
    }

    pub(super) fn stored_state(&self, number: &str) -> Response {
        let state = number.parse().ok().and_then(|number| self.state(number));
        state.map_or_else(not_found, |state| state.clone().into_response())
    }

    /// The outputs in the newest state.
    pub(super) fn outputs(&self) -> Vec<Value> {
        let state: Value =
            self.states.last().map_or(Value::Null, |state| serde_json::from_slice(state).unwrap());
        let outputs = state["outputs"].as_object().into_iter().flatten();
        let output = |(name, output): (&String, &Value)| {
            let attributes = json!({
                "name": name,
                "value": output["value"],
                "detailed-type": output["type"],
                "sensitive": output["sensitive"] == true,
            });
            resource("state-version-outputs", &format!("wsout-{name}"), &attributes, &json!({}))
        };
        outputs.map(output).collect()
    }

    /// Stores the state that the request contains. Without one, the answer has the address to send it to.
    pub(super) fn add_state(&mut self, sent: &Value) -> Response {
        let attributes = &sent["data"]["attributes"];
        if let Some(state) = attributes["state"].as_str() {
            let state = base64::engine::general_purpose::STANDARD.decode(state).unwrap();
            self.states.push(state.into());
            return self.state_version(self.states.len());
        }
        let number = self.states.len() + 1;
        let address = format!("{}/states/{number}", self.address);
        let attributes = json!({
            "serial": attributes["serial"],
            "hosted-state-upload-url": address,
            "hosted-json-state-upload-url": format!("{}/summaries/{number}", self.address),
        });
        document(&resource("state-versions", &number.to_string(), &attributes, &json!({})))
    }

    pub(super) fn configuration(&self, number: usize, status: &str) -> Response {
        let address = format!("{}/configurations/{number}", self.address);
        let attributes = json!({"status": status, "upload-url": address});
        document(&resource("configuration-versions", &number.to_string(), &attributes, &json!({})))
    }

    /// The directory with the uploaded configurations.
    pub(super) fn configurations_directory(&self) -> PathBuf {
        self.directory.path().join("configurations")
    }

    /// Unpacks a configuration (`.tar.gz`) that a client has sent.
    pub(super) fn unpack(&self, id: &str, archive: &[u8]) -> Response {
        let directory = self.configurations_directory().join(id);
        std::fs::create_dir_all(&directory).unwrap();
        let file = directory.with_extension("tar.gz");
        std::fs::write(&file, archive).unwrap();
        let unpacked =
            Command::new("tar").arg("-xzf").arg(&file).arg("-C").arg(&directory).status();
        assert!(unpacked.unwrap().success());
        std::fs::remove_file(file).unwrap();
        StatusCode::OK.into_response()
    }
}
