//! The ten phases of a follower.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a follower is doing with the newest commit of its branch.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    Deserialize,
    Eq,
    Hash,
    JsonSchema,
    Ord,
    PartialEq,
    PartialOrd,
    Serialize,
)]
#[schemars(rename = "FollowerPhase")]
pub enum Phase {
    /// Read, not decided: the branch or a required object is not known well enough.
    #[default]
    Observed,
    /// The commit is delivered, and each required stage is complete at this moment.
    Noop,
    /// A stage is due and is not started yet. The reasons say why.
    PendingTrigger,
    /// An object is submitted and is not visible yet.
    Triggering,
    /// An object runs, or a required stage is not complete.
    ClosingOut,
    /// The commit has just been delivered: each required stage is complete.
    Succeeded,
    /// A required stage failed. The follower retries after a wait.
    Failed,
    /// A newer commit replaced a commit that was not delivered.
    Superseded,
    /// A dependency is missing. The follower continues when it appears.
    Blocked,
    /// The follower is paused.
    Skipped,
}

impl Phase {
    /// All phases.
    pub const ALL: [Self; 10] = [
        Self::Observed,
        Self::Noop,
        Self::PendingTrigger,
        Self::Triggering,
        Self::ClosingOut,
        Self::Succeeded,
        Self::Failed,
        Self::Superseded,
        Self::Blocked,
        Self::Skipped,
    ];

    /// The name, as in tables and JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Observed => "Observed",
            Self::Noop => "Noop",
            Self::PendingTrigger => "PendingTrigger",
            Self::Triggering => "Triggering",
            Self::ClosingOut => "ClosingOut",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
            Self::Superseded => "Superseded",
            Self::Blocked => "Blocked",
            Self::Skipped => "Skipped",
        }
    }
}
