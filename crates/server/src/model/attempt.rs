//! Attempts to execute a run, and how they end.

use butler_base::error::FailureClass;
use butler_cluster::JobFailure;
use butler_registry::TokenHash;

use super::{ChangeCounts, Moment, StateLock};

/// One process or Job that executes a run.
#[derive(Clone, Debug, Eq, PartialEq, serde::Deserialize, serde::Serialize)]
pub struct Attempt {
    /// 1 for the first one of the run. Also the fence of its lease.
    pub number: u32,
    /// When it was recorded, which is before its process is started.
    pub created: Moment,
    /// The order of all starts and ends. Unlike a clock, it never goes backwards.
    pub sequence: u64,
    /// When it is asked to stop.
    pub deadline: Moment,
    /// Whether its process is known to have been started.
    pub launched: bool,
    /// When it last reported anything.
    pub heartbeat: Moment,
    /// How often it has reported anything.
    pub reports: u32,
    /// The last answer to the question whether its process lives, and when it was given.
    pub probed: Option<(Liveness, Moment)>,
    /// Since when nothing could be learned about it.
    pub unknown_since: Option<Moment>,
    /// Why it was asked to stop, and when.
    pub stop: Option<(StopReason, Moment)>,
    /// Whether the request to stop is known to have reached its process.
    pub stop_delivered: bool,
    /// Whether it may have changed infrastructure.
    pub began: bool,
    /// How it ended, and when.
    pub end: Option<(Ending, Moment)>,
    /// What it has changed, if it was an apply that reported this.
    #[serde(default)]
    pub applied: Option<ChangeCounts>,
    /// The final status that it reported: a repeated report is answered like the first one. `None` if it
    /// ended without one.
    #[serde(default)]
    pub reported: Option<String>,
    /// The lock of the state that it reported: because of which it failed, or that its Terraform has left.
    /// Attempts of earlier versions have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock: Option<StateLock>,
    /// Why it failed, in the words that it reported. Attempts of earlier versions have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Where it runs, for messages: a host or a Job.
    pub place: String,
    /// The repository that its layer had when it was recorded. Attempts of earlier versions have an
    /// empty one, and are not counted for any repository.
    #[serde(default)]
    pub repository: String,
    /// What it must send with each request.
    pub token: TokenHash,
}

impl Attempt {
    /// An attempt whose process has not been started yet.
    #[must_use]
    pub fn new(
        number: u32,
        place: String,
        repository: String,
        token: TokenHash,
        sequence: u64,
        now: Moment,
        deadline: Moment,
    ) -> Self {
        Self {
            number,
            created: now,
            sequence,
            deadline,
            launched: false,
            heartbeat: now,
            reports: 0,
            probed: None,
            unknown_since: None,
            stop: None,
            stop_delivered: false,
            began: false,
            end: None,
            applied: None,
            reported: None,
            lock: None,
            failure: None,
            place,
            repository,
            token,
        }
    }
}

/// Whether the process of an attempt exists.
#[derive(Clone, Copy, Debug, Eq, PartialEq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Liveness {
    /// It runs.
    Alive,
    /// It has ended, or was never started.
    Gone,
    /// This cannot be established, for example because the node does not answer.
    Unknown,
}

/// Why an attempt is asked to stop.
#[derive(
    Clone, Copy, Debug, Eq, PartialEq, serde::Deserialize, serde::Serialize, schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum StopReason {
    /// A newer digest took over.
    Superseded,
    /// A person asked for it.
    Cancelled,
    /// It took longer than its limit.
    TimedOut,
}

/// How an attempt ended.
#[derive(
    Clone, Copy, Debug, Eq, PartialEq, serde::Deserialize, serde::Serialize, schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Ending {
    /// The run is done.
    Succeeded,
    /// It failed.
    Failed(#[schemars(with = "String")] FailureClass),
    /// It was stopped.
    Stopped(StopReason),
    /// The saved plan no longer fits the state, the lock file, the tool or the variables.
    StalePlan,
    /// It ended without a report.
    Lost,
    /// Its process was never started.
    NeverStarted,
    /// The cluster ended its Job, or did not start it.
    Job(#[schemars(with = "String")] JobFailure),
}
