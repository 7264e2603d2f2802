//! What people and programs see of a layer and of a run. It is derived; nothing here is stored.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Serialize, Serializer};

use crate::decision::{Decision, Input, is_over, waiting_runs};
use crate::layers::LayerSource;
use crate::model::{
    Action, Attempt, ChangeCounts, Closed, Commit, DriftKind, Ending, LayerName, Lease, Moment,
    Phase, PlanDigest, Reason, Revision, Run, RunId, StopReason, Surroundings,
};
use crate::store::Snapshot;

/// The state of a layer, with the names of the API.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LayerView {
    /// Its name.
    pub name: LayerName,
    /// Its repository; absent if the layer is no longer in the configuration.
    pub repository: Option<String>,
    /// Its branch or tag.
    #[serde(rename = "ref")]
    pub reference: Option<String>,
    /// The module's directory.
    pub path: Option<String>,
    /// The phase of its newest unfinished work.
    pub phase: Phase,
    /// Why nothing is started.
    pub reasons: Vec<Reason>,
    /// What was read from the repository last.
    pub revision: Option<Revision>,
    /// What was planned last.
    pub planned_revision: Option<Revision>,
    /// What is applied.
    pub applied_revision: Option<Revision>,
    /// Whether infrastructure and state differ.
    pub drift: DriftView,
    /// What the last check found to differ; absent if nothing was checked.
    pub drift_kind: Option<DriftKind>,
    /// Who may use the state now.
    pub lease: Option<Lease>,
    /// When the server looks at the layer again, if nothing happens before.
    pub next_look: Option<Timestamp>,
    /// The newest run.
    pub last_run: Option<RunView>,
    /// Who paused the layer.
    pub paused_by: Option<String>,
    /// When each run was created that waits for its first or next attempt.
    #[serde(skip)]
    pub waiting_runs: Vec<Moment>,
}

/// Whether infrastructure and state differ.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DriftView {
    /// Nothing was applied yet, so there is nothing to compare.
    Unknown,
    /// It was not checked since the last apply.
    Unchecked,
    /// They were equal.
    None,
    /// They differed.
    Found,
}

impl DriftView {
    /// The names of all values.
    pub(crate) const NAMES: [&str; 4] = ["unknown", "unchecked", "none", "found"];

    /// The name, as in the API.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Unchecked => "unchecked",
            Self::None => "none",
            Self::Found => "found",
        }
    }
}

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
    /// What the plan would change.
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
}

/// A moment as RFC 3339 text.
#[derive(Clone, Copy, Debug, Eq, PartialEq, schemars::JsonSchema)]
#[schemars(inline)]
pub struct Timestamp(#[schemars(with = "String", extend("format" = "date-time"))] pub Moment);

impl Timestamp {
    /// The moment of a clock of this machine.
    #[must_use]
    pub fn of(time: SystemTime) -> Self {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(Moment::from_millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX)))
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let time = UNIX_EPOCH + Duration::from_millis(self.0.as_millis());
        serializer.collect_str(&humantime::format_rfc3339_millis(time))
    }
}

impl LayerView {
    /// What was decided about a layer, on this snapshot.
    pub(super) fn new(
        name: &LayerName,
        source: Option<&LayerSource>,
        snapshot: &Snapshot,
        decision: &Decision,
    ) -> Self {
        let surroundings = Surroundings::default();
        let input = input(name, source, snapshot, &surroundings);
        let facts = &snapshot.facts;
        let planned =
            facts.runs.iter().rev().find(|run| run.action == Action::Plan && run.has_succeeded());
        let drift = match (&facts.drift, &facts.applied) {
            (_, None) => DriftView::Unknown,
            (None, _) => DriftView::Unchecked,
            (Some(found), _) if found.difference.is_some() => DriftView::Found,
            _ => DriftView::None,
        };
        Self {
            name: name.clone(),
            repository: source.map(|source| source.configured.repository.clone()),
            reference: source.map(|source| source.reference.clone()),
            path: source.map(|source| source.path.clone()),
            phase: decision.phase,
            reasons: decision.reasons.clone(),
            revision: snapshot.observation.as_ref().and_then(|known| known.revision().cloned()),
            planned_revision: planned.map(|run| run.revision.clone()),
            applied_revision: facts.applied.clone(),
            drift,
            drift_kind: facts.drift.as_ref().map(|found| found.kind),
            lease: facts.lease.clone(),
            next_look: decision.next_look.map(Timestamp),
            last_run: facts.runs.last().map(|run| RunView::new(name, source, snapshot, run)),
            paused_by: facts.paused_by.clone(),
            waiting_runs: waiting_runs(&input).map(|run| run.created).collect(),
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
            ended: match run.closed {
                Some(Closed::Cancelled) => describe(Ending::Stopped(StopReason::Cancelled)),
                _ => run.last_end().and_then(|(ending, _)| describe(ending)),
            },
            attempts: run.attempts.iter().map(AttemptView::new).collect(),
            counts: run.plan.as_ref().map(|plan| plan.counts),
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
            created: Timestamp(run.created),
        }
    }
}

/// What is known about a layer, without what a start depends on outside of it.
fn input<'a>(
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

/// How an attempt ended; `None` if it succeeded.
fn describe(ending: Ending) -> Option<String> {
    let text = match ending {
        Ending::Succeeded => return None,
        Ending::Failed(class) => class.describe(),
        Ending::Stopped(StopReason::Superseded) => "stopped, because a newer commit took over",
        Ending::Stopped(StopReason::Cancelled) => "cancelled",
        Ending::Stopped(StopReason::TimedOut) => "stopped, because its time was up",
        Ending::StalePlan => "the plan no longer fits",
        Ending::Lost => "its process ended without a report",
        Ending::NeverStarted => "its process was never started",
    };
    Some(text.to_owned())
}

/// The views of all layers, by name.
#[derive(Debug, Default)]
pub struct Views(RwLock<BTreeMap<LayerName, Arc<LayerView>>>);

impl Views {
    /// The view of a layer.
    #[must_use]
    pub fn layer(&self, name: &LayerName) -> Option<Arc<LayerView>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// The views of all layers, in the order of their names.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<LayerView>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// Looks at a layer, without doing anything for it.
    #[cfg(test)]
    pub(crate) async fn look<S: crate::store::Store>(
        &self,
        store: &S,
        name: &LayerName,
        source: Option<&LayerSource>,
    ) {
        let (facts, surroundings) =
            (source.map(|source| &source.configured), crate::model::Surroundings::default());
        let key = facts.map(|configured| configured.state_key.clone()).unwrap_or_default();
        let snapshot = store.snapshot(name, &key, &[]).await.unwrap();
        let decision = crate::decision::decide(&crate::decision::Input {
            name,
            layer: facts.map(|configured| &configured.layer),
            observation: snapshot.observation.as_ref(),
            facts: &snapshot.facts,
            surroundings: &surroundings,
            now: snapshot.now,
        });
        self.set(LayerView::new(name, source, &snapshot, &decision));
    }

    pub(super) fn set(&self, view: LayerView) {
        let mut views = self.0.write().unwrap_or_else(PoisonError::into_inner);
        views.insert(view.name.clone(), Arc::new(view));
    }
}
