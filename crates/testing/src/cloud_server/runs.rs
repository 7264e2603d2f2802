//! The runs of the workspace, as the API shows them.

use axum::body::Bytes;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::documents::{not_found, reply, resource};
use super::kept::{Kept, WORKSPACE_ID};
use super::run::Run;

impl Kept {
    /// The document of a run, with its plan, its apply and the workspace.
    pub(super) fn run_document(&self, run: &Run) -> Response {
        let included =
            json!([self.stage("plans", run), self.stage("applies", run), self.workspace()]);
        reply(StatusCode::OK, &json!({"data": run.resource(WORKSPACE_ID), "included": included}))
    }

    pub(super) fn run(&self, id: &str) -> Option<&Run> {
        self.runs.iter().find(|run| run.id == id)
    }

    pub(super) fn run_mut(&mut self, id: &str) -> Option<&mut Run> {
        self.runs.iter_mut().find(|run| run.id == id)
    }

    /// The newest run, if it does not wait for another one.
    pub(super) fn next(&mut self) -> Option<&mut Run> {
        let (newest, others) = self.runs.split_last_mut()?;
        let is_free = newest.is("save-plan") || !others.iter().any(Run::is_open);
        Some(newest).filter(|run| is_free && run.status == "pending")
    }

    pub(super) fn add_run(&mut self, sent: &Value) -> Response {
        let mut options = sent["data"]["attributes"].clone();
        for ignored in &self.ignored {
            options[*ignored] = Value::Null;
        }
        let configuration = &sent["data"]["relationships"]["configuration-version"]["data"]["id"];
        let logs = self.directory.path();
        let id = format!("run-{}", self.runs.len() + 1);
        let run = Run {
            status: "pending",
            directory: self.configurations_directory().join(configuration.as_str().unwrap()),
            options,
            logs: ["plan", "apply"].map(|stage| logs.join(format!("{id}.{stage}.log"))),
            has_changes: false,
            process: None,
            id,
        };
        let answer = self.run_document(&run);
        self.runs.push(run);
        answer
    }

    /// Records an action on a run, and executes `cancel` and `discard`. Returns whether the run exists.
    pub(super) fn act(&mut self, id: &str, action: &str) -> bool {
        self.actions.push(format!("{id} {action}"));
        let Some(run) = self.run_mut(id) else { return false };
        match action {
            "cancel" => run.interrupt(),
            "discard" => run.status = "discarded",
            _ => {}
        }
        true
    }

    pub(super) fn stage(&self, kind: &str, run: &Run) -> Value {
        let status = match (run.is_over(kind), run.status) {
            (false, _) => "running",
            (true, "errored") => "errored",
            (true, "canceled") => "canceled",
            (true, _) => "finished",
        };
        let id = &run.id;
        let address = format!("{}/logs/{id}/{kind}", self.address);
        let attributes =
            json!({"status": status, "has-changes": run.has_changes, "log-read-url": address});
        resource(kind, id, &attributes, &json!({}))
    }

    pub(super) fn plan_json(&self, id: &str) -> Response {
        let run = self.run(id);
        let json = run.and_then(|run| std::fs::read(run.directory.join("plan.json")).ok());
        json.map_or_else(not_found, |json| Bytes::from(json).into_response())
    }

    /// A part of a log, which begins with the byte 2 and, if the stage is over, ends with the byte 3.
    pub(super) fn log(&self, run: &str, kind: &str, query: Option<&str>) -> Response {
        let Some(run) = self.run(run) else { return not_found() };
        let number = |name: &str| {
            let given = url::form_urlencoded::parse(query.unwrap_or_default().as_bytes());
            let found = given.into_iter().find(|(key, _)| key == name);
            found.and_then(|(_, value)| value.parse::<usize>().ok())
        };
        let [plan, apply] = &run.logs;
        let file = if kind == "plans" { plan } else { apply };
        let mut text = vec![2];
        text.extend(std::fs::read(file).unwrap_or_default());
        text.extend(run.is_over(kind).then_some(3));
        let begin = number("offset").unwrap_or_default().min(text.len());
        let end = number("limit").map_or(text.len(), |limit| (begin + limit).min(text.len()));
        Bytes::copy_from_slice(&text[begin..end]).into_response()
    }
}
