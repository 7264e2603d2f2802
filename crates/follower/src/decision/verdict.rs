//! What is found out about a stage, and what the chain needs next.

use crate::phase::Phase;
use butler_base::moment::Moment;

/// How far a stage is.
pub(super) enum Standing {
    /// It is complete.
    Complete,
    /// Its object must be submitted.
    Due,
    /// Its object is submitted and not visible yet.
    Settling,
    /// Its object exists and is not ready.
    Running(String),
    /// It failed, and its object has ended.
    Failed(String),
    /// It did not end in time, and its object can still end.
    TimedOut(String),
    /// Its object was refused.
    Refused(String),
    /// The object of another controller does not exist.
    Missing(String),
    /// Its object could not be read, so neither its presence nor its absence is known.
    Unreadable(String),
    /// Its object may not be read, or the cluster does not have its kind. A retry alone does not help.
    Denied(String),
}

/// What the chain needs next.
pub(super) enum Outcome {
    /// Nothing can be done now.
    Rest(Rest),
    /// The object of this stage is submitted.
    Submit {
        /// The stage.
        index: usize,
    },
    /// This stage gets a new attempt.
    Retry {
        /// The stage.
        index: usize,
        /// Why.
        why: String,
    },
    /// Each required stage is complete.
    Complete,
}

/// The state while nothing can be done.
pub(super) struct Rest {
    /// The phase.
    pub(super) phase: Phase,
    /// Why.
    pub(super) why: String,
    /// When to look again.
    pub(super) look: Moment,
}
