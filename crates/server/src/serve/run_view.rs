//! What people and programs see of a run and of its attempts. It is derived; nothing here is stored.

use serde::Serialize;

use super::timestamp::Timestamp;
use crate::decision::{Input, is_over};
use crate::layers::LayerSource;
use crate::model::{
    Action, Attempt, ChangeCounts, Closed, Commit, Ending, LayerName, Phase, PlanDigest, Run,
    RunId, StateLock, StopReason, Surroundings, WindowOverride,
};
use crate::store::Snapshot;

/// The state of a run, with the names of the API.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunView {
    /// Its id.
    pub id: RunId,
    /// Its layer.
    pub layer: LayerName,
    /// What it does.
    pub action: Action,
    /// Why it was created.
    pub cause: &'static str,
    /// The commit.
    pub commit: Commit,
    /// The digest.
    pub digest: crate::model::Digest,
    /// Its phase.
    pub phase: Phase,
    /// Whether it gets no further attempt. A run that failed and is retried is not over.
    pub over: bool,
    /// Whether its attempt was asked to stop, because a person cancelled the run, and still runs.
    pub cancelling: bool,
    /// How it ended, as a sentence, if it did not succeed.
    pub ended: Option<String>,
    /// Its attempts.
    pub attempts: Vec<AttemptView>,
    /// What the plan would change, or what the apply has changed.
    pub counts: Option<ChangeCounts>,
    /// The SHA-256 of the plan.
    pub plan_digest: Option<PlanDigest>,
    /// Whether the plan can no longer be applied.
    pub stale: bool,
    /// Who discarded the plan.
    pub discarded_by: Option<String>,
    /// The run that applies the plan.
    pub apply_run: Option<RunId>,
    /// Who approved the plan that it applies.
    pub approved_by: Option<String>,
    /// Who lets it start although a window is closed, and why.
    pub window_override: Option<WindowOverride>,
    /// The layers of `after` that were not applied when it made its plan, because a person asked for it before that.
    pub made_before: Vec<LayerName>,
    /// When it was created.
    pub created: Timestamp,
}

/// One attempt to execute a run.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AttemptView {
    /// Its number, from 1.
    pub number: u32,
    /// Where it runs.
    pub place: String,
    /// When it was started.
    pub started: Timestamp,
    /// When it ended.
    pub ended: Option<Timestamp>,
    /// How it ended, as a sentence.
    pub outcome: Option<String>,
    /// The lock of the state that it reported.
    pub state_lock: Option<LockView>,
}

/// A lock of the state that is not one of the server's leases, as far as its backend reports it.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LockView {
    /// Its id.
    pub id: Option<String>,
    /// Its holder, `user@host`.
    pub who: Option<String>,
    /// The operation of the holder, such as `OperationTypeApply`.
    pub operation: Option<String>,
    /// Since when it is held, as Terraform prints it.
    pub created: Option<String>,
}

impl LockView {
    pub(super) fn new(lock: &StateLock) -> Self {
        let holder = lock.holder.as_ref();
        Self {
            id: lock.id.clone(),
            who: holder.map(|holder| holder.who.clone()),
            operation: holder.map(|holder| holder.operation.clone()),
            created: holder.map(|holder| holder.created.clone()),
        }
    }
}

impl RunView {
    /// A run of a layer with this source. The snapshot says whether it is over.
    #[must_use]
    pub fn new(
        layer: &LayerName,
        source: Option<&LayerSource>,
        snapshot: &Snapshot,
        run: &Run,
    ) -> Self {
        let surroundings = Surroundings::default();
        let input = input(layer, source, snapshot, &surroundings);
        Self {
            id: run.id.clone(),
            layer: layer.clone(),
            action: run.action,
            cause: run.cause.kind(),
            commit: run.commit().clone(),
            digest: run.digest().clone(),
            phase: phase(run),
            over: is_over(&input, run),
            cancelling: run
                .running()
                .is_some_and(|attempt| matches!(attempt.stop, Some((StopReason::Cancelled, _)))),
            ended: ended(run, &snapshot.facts.runs),
            attempts: run.attempts.iter().map(AttemptView::new).collect(),
            counts: run.plan.as_ref().map(|plan| plan.counts).or_else(|| run.applied()),
            plan_digest: run.plan.as_ref().map(|plan| plan.digest.clone()),
            stale: run.plan.as_ref().is_some_and(|plan| plan.stale.is_some()),
            discarded_by: run.plan.as_ref().and_then(|plan| plan.discarded.clone()),
            apply_run: snapshot
                .facts
                .runs
                .iter()
                .find(|other| other.applies(run))
                .map(|it| it.id.clone()),
            approved_by: run.approved_by.clone(),
            window_override: run.window_override.clone(),
            made_before: run.made_before.clone(),
            created: Timestamp(run.created),
        }
    }
}

/// What is known about a layer, without what a start depends on outside of it.
pub(super) fn input<'a>(
    name: &'a LayerName,
    source: Option<&'a LayerSource>,
    snapshot: &'a Snapshot,
    surroundings: &'a Surroundings,
) -> Input<'a> {
    Input {
        name,
        layer: source.map(|source| &source.configured.layer),
        observation: snapshot.observation.as_ref(),
        facts: &snapshot.facts,
        surroundings,
        now: snapshot.now,
    }
}

impl AttemptView {
    fn new(attempt: &Attempt) -> Self {
        Self {
            number: attempt.number,
            place: attempt.place.clone(),
            started: Timestamp(attempt.created),
            ended: attempt.end.map(|(_, at)| Timestamp(at)),
            outcome: attempt
                .end
                .map(|(ending, _)| describe(ending).unwrap_or_else(|| "succeeded".to_owned())),
            state_lock: attempt.lock.as_ref().map(LockView::new),
        }
    }
}

fn phase(run: &Run) -> Phase {
    if let Some(attempt) = run.running() {
        return if attempt.launched { Phase::ClosingOut } else { Phase::Triggering };
    }
    match (run.closed, run.last_end()) {
        (_, Some((Ending::Succeeded, _))) => Phase::Succeeded,
        (Some(Closed::Superseded), _) | (_, Some((Ending::Stopped(StopReason::Superseded), _))) => {
            Phase::Superseded
        }
        (Some(Closed::Cancelled), _) | (_, Some((Ending::Stopped(StopReason::Cancelled), _))) => {
            Phase::Skipped
        }
        (None, Some(_)) => Phase::Failed,
        (None, None) => Phase::PendingTrigger,
    }
}

/// How a run ended; `None` if it succeeded. `runs` are those of its layer.
fn ended(run: &Run, runs: &[Run]) -> Option<String> {
    let how = match run.closed {
        Some(Closed::Cancelled) => describe(Ending::Stopped(StopReason::Cancelled)),
        _ => run.last_end().and_then(|(ending, _)| describe(ending)),
    }?;
    Some(match run.partly_applied(runs) {
        Some(part) => format!("{how}, after {part}"),
        None => how,
    })
}

/// How an attempt ended; `None` if it succeeded.
pub(crate) fn describe(ending: Ending) -> Option<String> {
    let text = match ending {
        Ending::Succeeded => return None,
        Ending::Failed(class) => class.describe(),
        Ending::Stopped(reason) => describe_stop(reason),
        Ending::StalePlan => "the plan no longer fits",
        Ending::Lost => "its process ended without a report",
        Ending::NeverStarted => "its process was never started",
        Ending::Job(failure) => failure.describe(),
    };
    Some(text.to_owned())
}

/// Why an attempt was stopped.
const fn describe_stop(reason: StopReason) -> &'static str {
    match reason {
        StopReason::Superseded => "stopped, because a newer commit took over",
        StopReason::Cancelled => "cancelled",
        StopReason::TimedOut => "stopped, because its time was up",
    }
}
