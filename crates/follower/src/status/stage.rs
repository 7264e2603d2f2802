//! The parts of a status, with times as text.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::commit::Commit;
use crate::config::StageKind;
use crate::object::ObjectReference;
use crate::phase::Phase;
use crate::state::{Event, Failure, InFlight, StageProgress, StageRecord, TaskRecord};
use butler_base::moment::Moment;

/// An object that is submitted or runs.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InFlightStatus {
    /// The stage's name.
    pub stage: String,
    /// The object.
    pub object: ObjectReference,
    /// When it was submitted, or first seen, in UTC.
    pub since: String,
}

impl InFlightStatus {
    pub(super) fn new(in_flight: &InFlight) -> Self {
        let InFlight { stage, object, since } = in_flight;
        Self { stage: stage.clone(), object: object.clone(), since: since.to_string() }
    }
}

/// The last failure of a required stage.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FailureStatus {
    /// The stage's name.
    pub stage: String,
    /// Its attempt.
    pub attempt: u32,
    /// The failures in a row for this commit, this one included.
    pub count: u32,
    /// When it was first seen, in UTC.
    pub at: String,
}

impl FailureStatus {
    pub(super) fn new(failure: &Failure) -> Self {
        let Failure { stage, attempt, count, at } = failure;
        Self { stage: stage.clone(), attempt: *attempt, count: *count, at: at.to_string() }
    }
}

/// A stage.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StageStatus {
    /// Its name.
    pub name: String,
    /// Its row in the timings.
    pub kind: StageKind,
    /// The attempt, from 1.
    pub attempt: u32,
    /// How far it is.
    pub progress: StageProgress,
    /// Whether the object existed before the follower knew of its submission.
    pub is_reused: bool,
    /// The object's name.
    pub object: Option<String>,
    /// When the stage was submitted, or its object was first read, in UTC.
    pub started_at: Option<String>,
    /// When it was seen to be complete or failed, in UTC.
    pub finished_at: Option<String>,
    /// What the stage waits for, or why it failed.
    pub message: String,
    /// Evidence that earlier results were reused: a JSON path and its compact value.
    pub evidence: BTreeMap<String, String>,
    /// The `TaskRun`s of a `PipelineRun`, in the order in which they began.
    #[serde(default)]
    pub tasks: Vec<TaskStatus>,
}

/// A `TaskRun` of a `PipelineRun`.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskStatus {
    /// The name of the task in its pipeline.
    pub name: String,
    /// The name of the `TaskRun`.
    pub object: String,
    /// How far it is.
    pub progress: StageProgress,
    /// When it began, in UTC.
    pub started_at: Option<String>,
    /// When it ended, in UTC.
    pub finished_at: Option<String>,
    /// The reason why it waits, or failed.
    pub message: String,
}

impl TaskStatus {
    fn new(task: &TaskRecord) -> Self {
        let time = |moment: Option<Moment>| moment.map(|moment| moment.to_string());
        Self {
            name: task.name.clone(),
            object: task.object.clone(),
            progress: task.progress,
            started_at: time(task.started_at),
            finished_at: time(task.finished_at),
            message: task.message.clone(),
        }
    }
}

impl StageStatus {
    pub(super) fn new(stage: &StageRecord) -> Self {
        let time = |moment: Option<Moment>| moment.map(|moment| moment.to_string());
        Self {
            name: stage.name.clone(),
            kind: stage.kind,
            attempt: stage.attempt,
            progress: stage.progress,
            is_reused: stage.is_reused,
            object: stage.object.clone(),
            started_at: time(stage.started_at),
            finished_at: time(stage.finished_at),
            message: stage.message.clone(),
            evidence: stage.evidence.clone(),
            tasks: stage.tasks.iter().map(TaskStatus::new).collect(),
        }
    }
}

/// A decision that differs from the one before.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EventStatus {
    /// When, in UTC.
    pub at: String,
    /// The phase that it leads to.
    pub phase: Phase,
    /// The commit that is being delivered.
    pub target: Option<Commit>,
    /// Its reasons.
    pub message: String,
}

impl EventStatus {
    /// An event of a record.
    #[must_use]
    pub fn new(event: &Event) -> Self {
        let Event { at, phase, target, message } = event;
        let (at, target) = (at.to_string(), target.clone());
        Self { at, phase: *phase, target, message: message.clone() }
    }
}
