//! What the program has said that checks the plan of a run (`after-plan`).

use std::io;

use axum::Json;
use axum::extract::{Path, State};
use butler_base::blocking::blocking;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::error::ApiError;
use super::runs::{attempt, directory, run};
use super::state::Shared;
use crate::attempts::AttemptDirectory;
use crate::store::Store;

/// The verdict of a program about a plan.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
pub(crate) struct PolicyView {
    /// The name of the program.
    pub(crate) program: String,
    /// Whether it has accepted the plan.
    pub(crate) passed: bool,
    /// Its output, with secrets masked; at most 64 KiB.
    pub(crate) output: String,
}

/// What the attempt leaves.
#[derive(Debug, Default, Deserialize)]
struct Policies {
    items: Vec<PolicyView>,
}

/// The verdicts about the plan of an attempt.
///
/// # Errors
/// If they cannot be read.
pub(crate) fn policies(directory: &AttemptDirectory) -> io::Result<Vec<PolicyView>> {
    Ok(directory.plan_check::<Policies>()?.unwrap_or_default().items)
}

/// The verdicts about the plan of the newest attempt: none if no program has checked it.
pub(super) async fn policy<S: Store>(
    State(state): State<Shared<S>>,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let (layer, run) = run(&state, &id).await?;
    let mut items = Vec::new();
    if !run.attempts.is_empty() {
        let number = attempt(&run, None)?;
        let directory = directory(&state, layer, &run, number).await?;
        let read = blocking(move |_| policies(&directory));
        items = read.await.map_err(|error| ApiError::internal(&error))?;
    }
    Ok(Json(json!({"items": items, "next": null})))
}
