//! A registry in memory, on loopback: any configuration, and everything that it received.
//!
//! `butler-runner demo` and tests run against it. It is not for production: it never forgets a run.

mod received;
mod server;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Request as HttpRequest, State};
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use bytes::Bytes;
use serde_json::Value;

pub use received::{Received, Request};
pub use server::{Server, serve};

use super::{
    BASE_PATH, Found, PLAN_FILE_LIMIT, Recorded, Registry, RegistryFailure, Report, TokenHash,
};

/// All runs of one registry.
#[derive(Debug, Default)]
pub struct MemoryRegistry {
    runs: Mutex<BTreeMap<String, Run>>,
}

/// One run.
#[derive(Clone, Debug)]
pub struct Run {
    /// Its status, as it was set or reported.
    pub status: String,
    /// The response to GET config.
    pub config: Value,
    /// The response to GET source.
    pub source: Option<Bytes>,
    /// The response to GET plan-file.
    pub plan_file: Option<Bytes>,
    token: TokenHash,
    /// The received requests and reports.
    pub received: Received,
}

impl MemoryRegistry {
    /// Adds a run with the status `queued`, or replaces the run with this id.
    pub fn add_run(&self, run_id: &str, token: &str, config: Value) {
        let run = Run {
            status: "queued".to_owned(),
            config,
            source: None,
            plan_file: None,
            token: TokenHash::of(token),
            received: Received::default(),
        };
        self.runs().insert(run_id.to_owned(), run);
    }

    /// Sets a run's status, as a user who cancels it does.
    pub fn set_status(&self, run_id: &str, status: &str) {
        self.change(run_id, |run| status.clone_into(&mut run.status));
    }

    /// Sets the archive of a run's module.
    pub fn set_source(&self, run_id: &str, archive: impl Into<Bytes>) {
        self.change(run_id, |run| run.source = Some(archive.into()));
    }

    /// Sets the saved plan that a run applies.
    pub fn set_plan_file(&self, run_id: &str, file: impl Into<Bytes>) {
        self.change(run_id, |run| run.plan_file = Some(file.into()));
    }

    /// The run as it is now.
    #[must_use]
    pub fn run(&self, run_id: &str) -> Option<Run> {
        self.runs().get(run_id).cloned()
    }

    fn change(&self, run_id: &str, change: impl FnOnce(&mut Run)) {
        if let Some(run) = self.runs().get_mut(run_id) {
            change(run);
        }
    }

    fn runs(&self) -> MutexGuard<'_, BTreeMap<String, Run>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads what a method needs of a run that was found.
    fn read<T>(&self, run_id: &str, read: impl FnOnce(&Run) -> T) -> Result<T, RegistryFailure> {
        let runs = self.runs();
        // A run is never removed.
        let run = runs.get(run_id).ok_or_else(|| std::io::Error::other("the run is gone"))?;
        Ok(read(run))
    }
}

impl Run {
    /// Whether the registry has ended the run.
    #[must_use]
    pub fn is_over(&self) -> bool {
        matches!(self.status.as_str(), "cancelled" | "timed_out" | "discarded" | "skipped")
    }
}

/// A run is its id.
impl Registry for MemoryRegistry {
    type Run = String;

    async fn find(&self, id: &str) -> Result<Option<Found<String>>, RegistryFailure> {
        let runs = self.runs();
        let found = |run: &Run| Found {
            run: id.to_owned(),
            token: run.token,
            is_over: run.is_over(),
            reported: None,
        };
        Ok(runs.get(id).map(found))
    }

    async fn status(&self, run: &String) -> Result<String, RegistryFailure> {
        self.read(run, |run| run.status.clone())
    }

    async fn configuration(&self, run: &String) -> Result<Value, RegistryFailure> {
        self.read(run, |run| run.config.clone())
    }

    async fn source(&self, run: &String) -> Result<Option<Body>, RegistryFailure> {
        self.read(run, |run| run.source.clone().map(Body::from))
    }

    async fn plan_file(&self, run: &String) -> Result<Option<Body>, RegistryFailure> {
        self.read(run, |run| run.plan_file.clone().map(Body::from))
    }

    async fn save_plan_file(
        &self,
        run: &String,
        file: Body,
    ) -> Result<Option<Recorded>, RegistryFailure> {
        let limit = usize::try_from(PLAN_FILE_LIMIT).unwrap_or(usize::MAX);
        let file = axum::body::to_bytes(file, limit).await?;
        let mut runs = self.runs();
        let Some(run) = runs.get_mut(run).filter(|run| !run.is_over()) else {
            return Ok(Some(Recorded::Over));
        };
        run.received.plan_files.push(file);
        Ok(Some(Recorded::Recorded))
    }

    async fn record(&self, run: &String, report: Report) -> Result<Recorded, RegistryFailure> {
        let mut runs = self.runs();
        let Some(run) = runs.get_mut(run).filter(|run| !run.is_over()) else {
            return Ok(Recorded::Over);
        };
        if let Report::Status(report) = &report {
            run.status.clone_from(&report.status);
        }
        run.received.keep(report)?;
        Ok(Recorded::Recorded)
    }
}

/// The API at its usual path. Every authorized request is kept with its run.
pub fn router(registry: Arc<MemoryRegistry>) -> Router {
    let keep = from_fn_with_state(registry.clone(), keep_request);
    Router::new().nest(BASE_PATH, super::router(registry).route_layer(keep))
}

async fn keep_request(
    State(registry): State<Arc<MemoryRegistry>>,
    Path((run_id, endpoint)): Path<(String, String)>,
    request: HttpRequest,
    next: Next,
) -> Result<Response, Infallible> {
    let method = request.method().to_string();
    let response = next.run(request).await;
    if response.status() != StatusCode::UNAUTHORIZED {
        let answer = response.status().as_u16();
        registry.change(&run_id, |run| {
            run.received.requests.push(Request { method, endpoint, answer });
        });
    }
    Ok(response)
}
