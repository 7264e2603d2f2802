//! The journal: what happened, in the order in which the store recorded it.

use super::{
    Action, Closed, Commit, Digest, Ending, LayerName, Moment, PlanDigest, RunId, StalePlan,
    StopReason,
};

/// One entry of the journal. It is never changed, and names no secret.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct JournalEntry {
    /// Its position, from 1. It is never used again, also after the entry was removed.
    pub sequence: u64,
    /// When it was recorded.
    pub at: Moment,
    /// The layer.
    pub layer: LayerName,
    /// What happened.
    pub change: JournalChange,
}

/// What happened to a layer, a run or an attempt.
#[derive(
    Clone, Debug, Eq, PartialEq, serde::Deserialize, serde::Serialize, schemars::JsonSchema,
)]
pub struct JournalChange {
    /// The run, unless it happened to the layer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// The number of the attempt, if it happened to an attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// What happened.
    #[serde(flatten)]
    pub what: JournalKind,
}

impl JournalKind {
    /// Whether it is about what was changed outside of Terraform.
    #[must_use]
    pub const fn is_drift(&self) -> bool {
        matches!(self, Self::DriftFound { .. } | Self::DriftResolved)
    }
}

/// What happened. The names are those of the API, and stores contain them.
#[derive(
    Clone, Debug, Eq, PartialEq, serde::Deserialize, serde::Serialize, schemars::JsonSchema,
)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum JournalKind {
    /// The repository contains another digest of the layer.
    RevisionRead {
        /// The digest.
        digest: Digest,
        /// The commit that was read.
        commit: Commit,
    },
    /// A run was created.
    RunCreated {
        /// What it does.
        action: Action,
        /// The kind of its cause ([`super::Cause::kind`]).
        cause: String,
    },
    /// A person approved a plan. The run is the one that applies it.
    PlanApproved {
        /// The plan.
        plan: PlanDigest,
        /// The person.
        by: String,
    },
    /// An administrator lets the run start although a window forbids it.
    WindowOverridden {
        /// The administrator.
        by: String,
        /// The reason, in the words of the administrator.
        reason: String,
    },
    /// A person discarded a plan.
    PlanDiscarded {
        /// The plan.
        plan: PlanDigest,
        /// The person.
        by: String,
    },
    /// A plan can no longer be applied.
    PlanStale {
        /// The plan.
        plan: PlanDigest,
        /// Why.
        why: StalePlan,
    },
    /// An attempt was recorded; its process is started after that.
    AttemptStarted,
    /// An attempt is about to change infrastructure.
    ApplyBegan,
    /// An attempt was asked to stop.
    StopRequested {
        /// Why.
        why: StopReason,
    },
    /// An attempt has ended.
    AttemptEnded {
        /// How.
        ending: Ending,
    },
    /// A run gets no further attempts.
    RunClosed {
        /// Why.
        why: Closed,
    },
    /// A check found drift that was not known.
    DriftFound {
        /// The hash of the difference.
        difference: String,
    },
    /// The drift that was known is gone.
    DriftResolved,
    /// A check for drift found conditions that do not hold, others than before.
    ChecksFailed {
        /// The addresses of the checks, resources and outputs with these conditions.
        checks: Vec<String>,
    },
    /// All conditions hold again.
    ChecksPassed,
    /// The failed apply of the run was the last one in a row that opened the breaker: automatic applies of
    /// all layers are stopped.
    BreakerOpened,
    /// A person has reset the breaker, which an apply of the layer had opened.
    BreakerReset {
        /// The person.
        by: String,
    },
    /// The layer has taken over the history of its earlier name. Entries before that have that name.
    Renamed {
        /// The earlier name.
        from: LayerName,
    },
    /// A person paused the layer.
    Paused {
        /// The person.
        by: String,
    },
    /// A person ended the pause.
    Resumed,
}
