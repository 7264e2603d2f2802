//! What is stored of a follower.
//!
//! The record has compact summaries only: no objects and no logs. A field that an older record does
//! not have stays unknown; it is never filled in from other objects.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::commit::Commit;
use crate::config::StageKind;
use crate::object::ObjectReference;
use crate::phase::Phase;
use crate::text::shorten;
use butler_base::moment::Moment;

/// What is stored of a follower.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Record {
    /// The follower's id.
    pub follower: String,
    /// The last phase.
    pub phase: Phase,
    /// The last head of the branch that was read.
    pub observed: Option<Commit>,
    /// When it was read. A server that has read the branch earlier does not know better.
    pub observed_at: Option<Moment>,
    /// The commit that is being delivered, or was delivered last.
    pub target: Option<Commit>,
    /// The last commit for which an object exists or was submitted.
    pub triggered: Option<Commit>,
    /// The last commit that was delivered.
    pub succeeded: Option<Commit>,
    /// Whether the target was delivered: each required stage was complete at one time.
    pub is_closed_out: bool,
    /// The object that is submitted or runs.
    pub in_flight: Option<InFlight>,
    /// The stages of the target, in the order of the chain.
    pub stages: Vec<StageRecord>,
    /// The last failure of the target.
    pub failure: Option<Failure>,
    /// When the target's run started and ended.
    pub timings: RunTimings,
    /// The reasons of the last decision.
    pub message: String,
    /// What happened last, the oldest first: at most [`MOST_EVENTS`].
    pub events: Vec<Event>,
}

/// The most events that a record keeps.
pub const MOST_EVENTS: usize = 40;

/// The most `TaskRun`s that the record of a stage keeps.
pub const MOST_TASKS: usize = 32;

/// The letters of the message of an event.
const EVENT_MESSAGE: usize = 300;

/// A decision that differs from the one before.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// When.
    pub at: Moment,
    /// The phase that it leads to.
    pub phase: Phase,
    /// The commit that is being delivered.
    pub target: Option<Commit>,
    /// Its reasons.
    pub message: String,
}

/// An object that is submitted or runs.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InFlight {
    /// The stage's name.
    pub stage: String,
    /// The object.
    pub object: ObjectReference,
    /// When it was submitted, or first seen.
    pub since: Moment,
}

/// What is stored of a stage.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StageRecord {
    /// The stage's name.
    pub name: String,
    /// Its row in the timings.
    pub kind: StageKind,
    /// The attempt, from 1. A new attempt has an object with another name.
    pub attempt: u32,
    /// How far it is.
    pub progress: StageProgress,
    /// Whether a person asked for this attempt.
    #[serde(default)]
    pub is_confirmed: bool,
    /// Whether the object existed before this record knew of its submission.
    #[serde(default)]
    pub is_reused: bool,
    /// The object's name.
    #[serde(default)]
    pub object: Option<String>,
    /// When the object was last submitted.
    #[serde(default)]
    pub submitted_at: Option<Moment>,
    /// When the stage was submitted, or its object was first read.
    #[serde(default)]
    pub started_at: Option<Moment>,
    /// When the stage was seen to be complete or failed.
    #[serde(default)]
    pub finished_at: Option<Moment>,
    /// Since when the stage is not complete although its commit was delivered.
    #[serde(default)]
    pub open_since: Option<Moment>,
    /// What the stage waits for, or why it failed.
    #[serde(default)]
    pub message: String,
    /// Evidence that earlier results were reused: a JSON path and its compact value.
    #[serde(default)]
    pub evidence: BTreeMap<String, String>,
    /// The `TaskRun`s of a `PipelineRun`, in the order in which they began: at most [`MOST_TASKS`].
    #[serde(default)]
    pub tasks: Vec<TaskRecord>,
}

/// The record of a `TaskRun`. Its times are those of Tekton.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskRecord {
    /// The name of the task in its pipeline.
    pub name: String,
    /// The name of the `TaskRun`.
    pub object: String,
    /// How far it is.
    pub progress: StageProgress,
    /// When it began.
    pub started_at: Option<Moment>,
    /// When it ended.
    pub finished_at: Option<Moment>,
    /// The reason why it waits, or failed.
    pub message: String,
}

impl TaskRecord {
    /// The time from the start to the end, or to `now`.
    #[must_use]
    pub fn duration(&self, now: Moment) -> Option<Duration> {
        Some(self.finished_at.unwrap_or(now).since(self.started_at?))
    }
}

/// How far a stage is.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum StageProgress {
    /// Not started.
    Waiting,
    /// Its object is submitted and was not seen yet.
    Submitted,
    /// The cluster refused its object.
    Refused,
    /// Its object exists and is not ready.
    Running,
    /// It did not end in time. Its object can still become complete.
    TimedOut,
    /// Its object failed.
    Failed,
    /// It is complete.
    Complete,
}

impl StageProgress {
    /// The name, as in tables and JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Submitted => "submitted",
            Self::Refused => "refused",
            Self::Running => "running",
            Self::TimedOut => "timed-out",
            Self::Failed => "failed",
            Self::Complete => "complete",
        }
    }
}

/// A failure of a required stage. It delays the next attempt and never prevents it.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    /// The stage's name.
    pub stage: String,
    /// Its attempt.
    pub attempt: u32,
    /// The failures in a row for this commit, this one included.
    pub count: u32,
    /// When it was first seen.
    pub at: Moment,
}

/// When the run of a target started and ended.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RunTimings {
    /// When the first object of the run was submitted. `None` if that is not known.
    pub started_at: Option<Moment>,
    /// Whether an object was there before a start was stored. Then the start stays unknown.
    pub is_start_unknown: bool,
    /// When only Argo CD and workloads were waited for.
    pub closeout_started_at: Option<Moment>,
    /// When they were ready, if the chain goes on after that.
    pub closeout_finished_at: Option<Moment>,
    /// When each required stage was complete, or a stage failed.
    pub finished_at: Option<Moment>,
    /// How long the last reading of all objects took, in milliseconds.
    pub status_read_millis: Option<u64>,
}

impl RunTimings {
    /// The time from the start of the run to its end, or to `now` while it closes out. `None` if the
    /// start is not known. It is never a sum of stages: these overlap, and omit what is between them.
    #[must_use]
    pub fn total(&self, now: Moment) -> Option<Duration> {
        Some(self.finished_at.unwrap_or(now).since(self.started_at?))
    }

    /// The time of the closeout, which is the wait for Argo CD and workloads, or of its part until `now`.
    #[must_use]
    pub fn closeout(&self, now: Moment) -> Option<Duration> {
        let end = self.closeout_finished_at.or(self.finished_at).unwrap_or(now);
        Some(end.since(self.closeout_started_at?))
    }
}

impl Record {
    /// The record of a follower that was never looked at.
    #[must_use]
    pub fn new(follower: &str) -> Self {
        Self { follower: follower.to_owned(), ..Self::default() }
    }

    /// Keeps the decision that the record has now as an event, unless it is the last one.
    pub(crate) fn note(&mut self, now: Moment) {
        let message = shorten(&self.message, EVENT_MESSAGE);
        let (phase, target) = (self.phase, self.target.clone());
        let is_known = self.events.last().is_some_and(|last| {
            (last.phase, &last.target, &last.message) == (phase, &target, &message)
        });
        if !is_known {
            self.events.push(Event { at: now, phase, target, message });
            let oldest = self.events.len().saturating_sub(MOST_EVENTS);
            self.events.drain(..oldest);
        }
    }

    /// The stage with this name.
    #[must_use]
    pub fn stage(&self, name: &str) -> Option<&StageRecord> {
        self.stages.iter().find(|stage| stage.name == name)
    }

    /// The highest attempt of a stage; 0 before the first look.
    #[must_use]
    pub fn attempts(&self) -> u32 {
        self.stages.iter().map(|stage| stage.attempt).max().unwrap_or(0)
    }
}

impl StageRecord {
    /// The record of a stage that has not started.
    #[must_use]
    pub fn new(name: &str, kind: StageKind, attempt: u32) -> Self {
        Self {
            name: name.to_owned(),
            kind,
            attempt,
            progress: StageProgress::Waiting,
            is_confirmed: false,
            is_reused: false,
            object: None,
            submitted_at: None,
            started_at: None,
            finished_at: None,
            open_since: None,
            message: String::new(),
            evidence: BTreeMap::new(),
            tasks: Vec::new(),
        }
    }

    /// The time from the stage's start to its end, or to `now`.
    #[must_use]
    pub fn duration(&self, now: Moment) -> Option<Duration> {
        Some(self.finished_at.unwrap_or(now).since(self.started_at?))
    }
}
