//! The timings of a source change.
//!
//! The total is the time from the stored start to the stored end, or to now while the change closes
//! out. It is never a sum of rows: stages overlap, and omit what is between them. A value that is not
//! stored is `null` in JSON and `-` in text, and is not taken from anything else.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::table::Table;
use crate::config::{Budget, StageKind};
use crate::state::{Record, StageProgress, StageRecord};
use crate::text::shorten;
use butler_base::moment::Moment;

/// The most rows of stages in a table.
const MOST_STAGES: usize = 64;

/// The most rows of `TaskRun`s in a table.
const MOST_TASKS: usize = 64;

/// The timings of a source change.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Timings {
    /// When the first object was submitted, in UTC.
    pub started_at: Option<String>,
    /// When each required stage was complete, or a stage failed, in UTC.
    pub finished_at: Option<String>,
    /// The time from the start to the end, or to now. `None` if the start is not known.
    pub total_seconds: Option<f64>,
    /// The budget, in seconds.
    pub budget_seconds: f64,
    /// Whether the total is longer than the budget. `None` if the total is not known.
    pub is_over_budget: Option<bool>,
    /// The rows: `total`, `status-read`, those of the stages, and `closeout`.
    pub rows: Vec<TimingRow>,
}

/// One row of the timings.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TimingRow {
    /// What is measured: `total`, `status-read`, `closeout`, or a kind of stage.
    pub row: String,
    /// The stage's name; for a `TaskRun` of a `PipelineRun`, followed by that of its task: `STAGE/TASK`.
    pub stage: Option<String>,
    /// The time. `None` if it is not known.
    pub seconds: Option<f64>,
    /// How far the stage is.
    pub progress: Option<StageProgress>,
    /// Whether the stage's object existed before; the time is then that of an observation.
    pub is_reused: bool,
}

impl Timings {
    /// The timings of a record. Without one, nothing is known.
    #[must_use]
    pub fn new(record: Option<&Record>, budget: Budget, now: Moment) -> Self {
        let run = record.map(|record| &record.timings);
        let total = run.and_then(|run| run.total(now));
        let status_read = run.and_then(|run| run.status_read_millis).map(Duration::from_millis);
        let mut rows =
            vec![TimingRow::new("total", total), TimingRow::new("status-read", status_read)];
        let stages = record.map(|record| &record.stages[..]).unwrap_or_default();
        let stages = &stages[stages.len().saturating_sub(MOST_STAGES)..];
        for kind in StageKind::ALL {
            let of_kind = stages.iter().filter(|stage| stage.kind == kind);
            let before = rows.len();
            rows.extend(of_kind.map(|stage| TimingRow::of_stage(stage, now)));
            if kind == StageKind::TaskRun {
                let tasks = stages.iter().flat_map(|stage| TimingRow::of_tasks(stage, now));
                rows.extend(tasks.take(MOST_TASKS));
            }
            if rows.len() == before {
                rows.push(TimingRow::new(kind.as_str(), None));
            }
        }
        rows.push(TimingRow::new("closeout", run.and_then(|run| run.closeout(now))));
        let time = |moment: Option<Moment>| moment.map(|moment| moment.to_string());
        Self {
            started_at: time(run.and_then(|run| run.started_at)),
            finished_at: time(run.and_then(|run| run.finished_at)),
            total_seconds: total.map(|total| total.as_secs_f64()),
            budget_seconds: budget.limit.as_secs_f64(),
            is_over_budget: total.map(|total| total > budget.limit),
            rows,
        }
    }

    /// One phrase: the total and the budget.
    #[must_use]
    pub fn summary(&self) -> String {
        let over = if self.is_over_budget == Some(true) { ", over budget" } else { "" };
        format!("{} of {}{over}", seconds(self.total_seconds), seconds(Some(self.budget_seconds)))
    }

    /// The plain text table `STAGE TIMINGS`.
    #[must_use]
    pub fn table(&self) -> String {
        let mut table = Table::new(&["ROW", "STAGE", "TIME", "PROGRESS"]);
        for row in &self.rows {
            let progress = row.progress.map_or("-", StageProgress::as_str);
            let reused = if row.is_reused { ", reused" } else { "" };
            table.push([
                row.row.clone(),
                row.stage.clone().unwrap_or_else(|| "-".to_owned()),
                seconds(row.seconds),
                format!("{progress}{reused}"),
            ]);
        }
        format!("STAGE TIMINGS\n{table}")
    }
}

impl TimingRow {
    fn new(row: &str, time: Option<Duration>) -> Self {
        let seconds = time.map(|time| time.as_secs_f64());
        Self { row: row.to_owned(), stage: None, seconds, progress: None, is_reused: false }
    }

    fn of_stage(stage: &StageRecord, now: Moment) -> Self {
        Self {
            stage: Some(shorten(&stage.name, 63)),
            progress: Some(stage.progress),
            is_reused: stage.is_reused,
            ..Self::new(stage.kind.as_str(), stage.duration(now))
        }
    }

    fn of_tasks(stage: &StageRecord, now: Moment) -> impl Iterator<Item = Self> {
        stage.tasks.iter().map(move |task| Self {
            stage: Some(format!("{}/{}", shorten(&stage.name, 63), shorten(&task.name, 63))),
            progress: Some(task.progress),
            ..Self::new(StageKind::TaskRun.as_str(), task.duration(now))
        })
    }
}

/// Seconds for people; `-` if they are not known.
fn seconds(seconds: Option<f64>) -> String {
    seconds.map_or_else(|| "-".to_owned(), |seconds| format!("{seconds:.1}s"))
}
