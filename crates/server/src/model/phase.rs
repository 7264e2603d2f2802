//! What is derived from the facts for people.

use std::fmt;

/// The state of a layer's newest unfinished work.
#[derive(
    Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, serde::Serialize, schemars::JsonSchema,
)]
pub enum Phase {
    /// Read, not decided yet.
    Observed,
    /// The digest is applied, or its plan was empty.
    Noop,
    /// Work is due. If it cannot start, the reasons name the closed gates.
    PendingTrigger,
    /// An attempt is being started.
    Triggering,
    /// An attempt runs, or its reports are outstanding.
    ClosingOut,
    /// The work is done.
    Succeeded,
    /// The work failed. It is retried if the decision has a time of the next look.
    Failed,
    /// A newer digest took over before anything was applied.
    Superseded,
    /// A person or a change is needed.
    Blocked,
    /// Paused, or no longer in the configuration. Nothing is ever destroyed because of that.
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
}

/// A named check before a start.
#[derive(
    Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, serde::Serialize, schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Gate {
    /// The plan needs an approval.
    Approval,
    /// Too many automatic applies failed in a row.
    Breaker,
    /// As many attempts run as may.
    Concurrency,
    /// An upstream layer is not applied.
    Dependency,
    /// Another attempt may write the same state, or it is locked outside of the server.
    Lease,
    /// The layer is paused.
    Pause,
    /// The machine can run nothing more.
    Platform,
    /// The configuration forbids the action.
    Policy,
    /// Starts per minute are used up.
    Rate,
    /// The wait after a failure is not over.
    Retry,
    /// The layer's repository, module or configuration has to change.
    Source,
    /// The action is not allowed at this time.
    Window,
}

impl Gate {
    /// All gates.
    pub const ALL: [Self; 12] = [
        Self::Approval,
        Self::Breaker,
        Self::Concurrency,
        Self::Dependency,
        Self::Lease,
        Self::Pause,
        Self::Platform,
        Self::Policy,
        Self::Rate,
        Self::Retry,
        Self::Source,
        Self::Window,
    ];
}

impl Gate {
    /// The name, as in the API.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Approval => "approval",
            Self::Breaker => "breaker",
            Self::Concurrency => "concurrency",
            Self::Dependency => "dependency",
            Self::Lease => "lease",
            Self::Pause => "pause",
            Self::Platform => "platform",
            Self::Policy => "policy",
            Self::Rate => "rate",
            Self::Retry => "retry",
            Self::Source => "source",
            Self::Window => "window",
        }
    }
}

/// Why nothing happens: a closed gate and one sentence.
#[derive(Clone, Debug, Eq, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct Reason {
    /// The closed gate.
    pub gate: Gate,
    /// The sentence: what is waited for, and what to do if a person must act.
    pub text: String,
}

impl Reason {
    /// The gate is closed because of `text`.
    #[must_use]
    pub fn new(gate: Gate, text: impl Into<String>) -> Self {
        Self { gate, text: text.into() }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}
