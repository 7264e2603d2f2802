//! The types that pass between the parts of the server.
//!
//! Everything here is a fact: what the configuration says ([`Layer`]), what the repository contains
//! ([`Observation`]), and what happened ([`Facts`]). Phases and reasons are never stored; the
//! decision derives them, so that they cannot contradict the facts.

mod attempt;
mod decider;
mod facts;
mod follower;
mod journal;
mod layer;
mod names;
mod observation;
mod phase;
mod place;
mod plan;
mod run;
mod session;
mod token;

pub use attempt::{Attempt, Ending, Liveness, StopReason};
pub use butler_base::error::FailureClass;
pub use butler_base::moment::Moment;
pub use butler_cluster::JobFailure;
pub use butler_protocol::backend::{LockId, StateLock, StateVersion};
pub use decider::DeciderLease;
pub use facts::{
    Breaker, BreakerFailure, DriftFinding, DriftKind, Facts, Former, Lease, OpenBreaker,
    ReportedLock, RepositorySlots, Seen, Surroundings, Upstream, UpstreamWait,
};
pub use follower::StoredFollower;
pub use journal::{JournalChange, JournalEntry, JournalKind};
pub use layer::{DriftCheck, Formerly, Layer, Strategy, Timeouts};
pub use names::{Commit, Digest, InvalidLayerName, LayerName, PlanDigest, RunId};
pub use observation::{HistoryBreak, Observation, Revision, Sighting, Unrelated};
pub use phase::{Gate, Phase, Reason};
pub(crate) use place::{THIS_MACHINE, as_job, server_of};
pub use plan::{ChangeCounts, SavedPlan, StalePlan};
pub use run::{Action, Cause, Closed, NewRun, Run, WindowOverride};
pub use session::Session;
pub use token::AttemptToken;
