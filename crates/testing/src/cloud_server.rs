//! A stand-in for a server of the protocol of `cloud` and `remote`, with one workspace. It follows the public API.
//!
//! With remote execution, it runs the real Terraform on this machine, with the files that the client has sent.

mod documents;
mod execution;
mod kept;
mod run;
mod runs;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::authority::Authority;
use super::git_server::TlsListener;
use super::world::files_with;
use documents::{document, not_found, reply, resource};
use kept::{Kept, WORKSPACE_ID};

pub use kept::{Execution, ORGANIZATION, TOKEN, WORKSPACE};

/// A running server; it ends when it is dropped.
pub struct CloudServer {
    port: u16,
    kept: Arc<Mutex<Kept>>,
    server: tokio::task::JoinHandle<()>,
}

impl CloudServer {
    /// Serves with a certificate of `authority`.
    pub async fn start(authority: &Authority, execution: Execution) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let kept = Arc::new(Mutex::new(Kept {
            execution,
            ignored: Vec::new(),
            directory: tempfile::tempdir().unwrap(),
            address: format!("https://127.0.0.1:{port}"),
            runs: Vec::new(),
            configurations: 0,
            lock: None,
            states: Vec::new(),
            actions: Vec::new(),
            is_away: false,
        }));
        let shared = kept.clone();
        let router = Router::new().fallback(
            move |method: Method, uri: Uri, headers: HeaderMap, body: Bytes| {
                let shared = shared.clone();
                async move {
                    if shared.lock().unwrap().is_away {
                        // Closes the connection without an answer.
                        std::panic::resume_unwind(Box::new("away"));
                    }
                    answer(&shared, &method, &uri, &headers, body)
                }
            },
        );
        let listener = TlsListener { listener, acceptor: authority.acceptor() };
        let server = tokio::spawn(async move {
            axum::serve(listener, router).await.unwrap();
        });
        Self { port, kept, server }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap()
    }

    /// `127.0.0.1:port`.
    pub fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The block of a module that uses the workspace: `cloud`, or `backend "remote"`.
    pub fn block(&self, head: &str) -> String {
        let host = self.host();
        format!(
            "terraform {{\n  {head} {{\n    hostname = \"{host}\"\n    organization = \"{ORGANIZATION}\"\n    workspaces {{\n      name = \"{WORKSPACE}\"\n    }}\n  }}\n}}\n"
        )
    }

    /// Closes all connections without an answer from now on. Runs go on.
    pub fn be_away(&self) {
        self.kept().is_away = true;
    }

    /// Locks the workspace, as a person does on its page.
    pub fn lock(&self) {
        self.kept().lock = Some("a person".to_owned());
    }

    /// Whether the workspace is locked.
    pub fn is_locked(&self) -> bool {
        self.kept().lock.is_some()
    }

    /// Ignores these attributes of new runs from now on, such as `refresh-only`.
    pub fn ignore(&self, attributes: &[&'static str]) {
        self.kept().ignored = attributes.to_vec();
    }

    /// The paths of the files of all uploaded configurations.
    pub fn uploaded(&self) -> Vec<String> {
        let directory = self.configurations();
        let files = if directory.is_dir() { files_with(&directory, "") } else { Vec::new() };
        files.iter().map(|path| path.display().to_string()).collect()
    }

    /// The directory with the uploaded configurations.
    pub fn configurations(&self) -> PathBuf {
        self.kept().configurations_directory()
    }

    /// The actions on runs, such as `run-1 discard`, in their order.
    pub fn actions(&self) -> Vec<String> {
        self.kept().actions.clone()
    }

    /// The status of each run.
    pub fn statuses(&self) -> Vec<&'static str> {
        self.kept().runs.iter().map(|run| run.status).collect()
    }

    /// The newest state.
    pub fn state(&self) -> Option<Value> {
        self.kept().states.last().map(|state| serde_json::from_slice(state).unwrap())
    }
}

impl Drop for CloudServer {
    fn drop(&mut self) {
        self.server.abort();
        for run in &self.kept().runs {
            run.interrupt();
        }
    }
}

fn answer(
    shared: &Arc<Mutex<Kept>>,
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
    body: Bytes,
) -> Response {
    let parts: Vec<&str> = uri.path().split('/').filter(|part| !part.is_empty()).collect();
    let mut kept = shared.lock().unwrap();
    // Earlier answers have links to these addresses, which need no token.
    match (method.as_str(), &*parts) {
        ("GET", [".well-known", "terraform.json"]) => {
            let path = "/api/v2/";
            let services = json!({"tfe.v2": path, "tfe.v2.1": path, "tfe.v2.2": path});
            let kind = [(header::CONTENT_TYPE, "application/json")];
            return (kind, services.to_string()).into_response();
        }
        ("GET", ["logs", run, stage]) => return kept.log(run, stage, uri.query()),
        ("PUT", ["configurations", id]) => return kept.unpack(id, &body),
        ("GET", ["states", index]) => return kept.stored_state(index),
        ("PUT", ["states", _]) => {
            kept.states.push(body);
            return StatusCode::OK.into_response();
        }
        // The state as `show -json` prints it.
        ("PUT", ["summaries", _]) => return StatusCode::OK.into_response(),
        _ => {}
    }
    let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    if given != Some(&*format!("Bearer {TOKEN}")) {
        let error = json!({"status": "401", "title": "unauthorized"});
        return reply(StatusCode::UNAUTHORIZED, &json!({"errors": [error]}));
    }
    let ["api", "v2", parts @ ..] = &*parts else { return not_found() };
    let sent = serde_json::from_slice(&body).unwrap_or_default();
    match (method.as_str(), parts) {
        ("GET", ["ping"]) => reply(StatusCode::NO_CONTENT, &Value::Null),
        ("GET", ["organizations", ORGANIZATION, "entitlement-set"]) => {
            let rights = json!({"operations": true, "state-storage": true});
            document(&resource("entitlement-sets", "org-1", &rights, &json!({})))
        }
        (
            "GET",
            ["organizations", ORGANIZATION, "workspaces", WORKSPACE] | ["workspaces", WORKSPACE_ID],
        ) => document(&kept.workspace()),
        ("POST", ["workspaces", WORKSPACE_ID, "actions", action]) => kept.act_on_workspace(action),
        ("GET", ["workspaces", WORKSPACE_ID, "current-state-version"]) => {
            kept.state_version(kept.states.len())
        }
        ("GET", ["workspaces", WORKSPACE_ID, "current-state-version-outputs"]) => {
            reply(StatusCode::OK, &json!({"data": kept.outputs()}))
        }
        ("POST", ["workspaces", WORKSPACE_ID, "state-versions"]) => kept.add_state(&sent),
        ("GET", ["state-versions", id]) => kept.state_version(id.parse().unwrap_or_default()),
        ("POST", ["workspaces", WORKSPACE_ID, "configuration-versions"]) => {
            kept.configurations += 1;
            kept.configuration(kept.configurations, "pending")
        }
        ("GET", ["configuration-versions", id]) => {
            kept.configuration(id.parse().unwrap_or_default(), "uploaded")
        }
        ("POST", ["runs"]) => {
            let answer = kept.add_run(&sent);
            drop(kept);
            execution::plan(shared);
            answer
        }
        ("GET", ["runs", id]) => kept.run(id).map_or_else(not_found, |run| kept.run_document(run)),
        ("GET", ["plans", id, "json-output" | "json-output-redacted"]) => kept.plan_json(id),
        ("GET", [kind @ ("plans" | "applies"), id]) => {
            kept.run(id).map_or_else(not_found, |run| document(&kept.stage(kind, run)))
        }
        ("POST", ["runs", id, "actions", action]) => {
            let is_known = kept.act(id, action);
            drop(kept);
            if !is_known {
                return not_found();
            }
            if *action == "apply" {
                execution::apply(shared, id);
            }
            reply(StatusCode::ACCEPTED, &json!({}))
        }
        ("GET", _) => reply(StatusCode::OK, &json!({"data": []})),
        _ => not_found(),
    }
}
