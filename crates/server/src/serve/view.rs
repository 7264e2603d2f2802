//! What people and programs see of a layer. It is derived; nothing here is stored.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use serde::Serialize;

use super::run_view::{LockView, RunView, input};
use super::timestamp::Timestamp;
use crate::decision::{Decision, waiting_runs};
use crate::layers::LayerSource;
use crate::model::{
    Action, DriftKind, Gate, LayerName, Lease, Moment, Phase, Reason, Revision, Run, RunId, Seen,
    Surroundings,
};
use crate::store::Snapshot;

/// The state of a layer, with the names of the API.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LayerView {
    /// Its name.
    pub name: LayerName,
    /// Its repository; absent if the layer is no longer in the configuration, or its custom resource is not known yet.
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
    /// The layers of `after` that it waits for.
    pub waits_for: Vec<LayerName>,
    /// What people should know about the layer, in sentences.
    pub notes: Vec<String>,
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
    /// The entries of `drift.ignore` that name nothing of the layer, as the last check found.
    pub unmatched_ignores: Vec<String>,
    /// The addresses of checks, resources and outputs with a condition that did not hold at the last check for drift.
    pub failing_checks: Vec<String>,
    /// The outputs that have moved since the last apply, as the last check found.
    pub moved_outputs: Vec<String>,
    /// The number of changes that the code wants, if the last check compared it.
    pub wanted_changes: Option<u64>,
    /// The run of the last check.
    pub drift_run: Option<RunId>,
    /// The run whose plan waits for an approval.
    pub waiting_run: Option<RunId>,
    /// That run, with its plan.
    #[serde(skip)]
    pub waiting_plan: Option<RunView>,
    /// Who may use the state now.
    pub lease: Option<Lease>,
    /// The lock of the state that an attempt reported last, if none has succeeded since.
    pub state_lock: Option<LockView>,
    /// When the server looks at the layer again, if nothing happens before.
    pub next_look: Option<Timestamp>,
    /// The newest run.
    pub last_run: Option<RunView>,
    /// Who paused the layer.
    pub paused_by: Option<String>,
    /// Whether a custom resource that is not known yet may define it.
    #[serde(skip)]
    pub is_unlisted: bool,
    /// When each run was created that waits for its first or next attempt.
    #[serde(skip)]
    pub waiting_runs: Vec<Moment>,
    /// When the drift was found that was not resolved.
    #[serde(skip)]
    pub drift_since: Option<Moment>,
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

impl LayerView {
    /// Whether the newest commit has reached what the strategy allows. A layer that a person has destroyed, or whose
    /// plan a person has discarded, has not; with `plan-only`, a plan with changes has no such reason.
    pub(super) fn is_done(&self) -> bool {
        let has = |gate| self.reasons.iter().any(|reason| reason.gate == gate);
        match self.phase {
            Phase::Noop => !has(Gate::Source),
            Phase::Succeeded => !has(Gate::Approval),
            Phase::Observed
            | Phase::PendingTrigger
            | Phase::Triggering
            | Phase::ClosingOut
            | Phase::Failed
            | Phase::Superseded
            | Phase::Blocked
            | Phase::Skipped => false,
        }
    }

    /// Whether it is no longer in the configuration.
    #[must_use]
    pub const fn is_removed(&self) -> bool {
        self.repository.is_none() && !self.is_unlisted
    }

    /// Whether the breaker is why the layer is blocked. It has not failed itself.
    #[must_use]
    pub fn is_held(&self) -> bool {
        let is_held = |reason: &Reason| reason.gate == Gate::Breaker;
        self.phase == Phase::Blocked && self.reasons.iter().any(is_held)
    }

    /// Whether a check for drift is being started, or runs.
    pub(super) fn is_checked(&self) -> bool {
        let runs = matches!(self.phase, Phase::Triggering | Phase::ClosingOut);
        runs && self.last_run.as_ref().is_some_and(|run| run.action == Action::Drift)
    }

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
        let waiting = waiting_run(snapshot, decision);
        let seen = facts.drift.as_ref().map(|found| found.seen.clone()).unwrap_or_default();
        let notes = source.map(|source| source.notes.clone()).unwrap_or_default();
        Self {
            name: name.clone(),
            repository: source.map(|source| source.configured.repository.clone()),
            reference: source.map(|source| source.reference.clone()),
            path: source.map(|source| source.path.clone()),
            phase: decision.phase,
            reasons: decision.reasons.clone(),
            waits_for: waits_for(snapshot, decision),
            notes: notes.into_iter().chain(noticed(&seen)).collect(),
            revision: snapshot.observation.as_ref().and_then(|known| known.revision().cloned()),
            planned_revision: planned.map(|run| run.revision.clone()),
            applied_revision: facts.applied.clone(),
            drift,
            drift_kind: facts.drift.as_ref().map(|found| found.kind),
            unmatched_ignores: facts
                .drift
                .as_ref()
                .map(|it| it.unmatched.clone())
                .unwrap_or_default(),
            failing_checks: seen.failing_checks,
            moved_outputs: seen.outputs,
            wanted_changes: seen.wanted,
            drift_run: facts.drift.as_ref().map(|found| found.run.clone()),
            waiting_run: waiting.map(|run| run.id.clone()),
            waiting_plan: waiting.map(|run| RunView::new(name, source, snapshot, run)),
            lease: facts.lease.clone(),
            state_lock: facts.reported_lock.as_ref().map(|it| LockView::new(&it.lock)),
            next_look: decision.next_look.map(Timestamp),
            last_run: snapshot
                .newest_run
                .as_ref()
                .map(|run| RunView::new(name, source, snapshot, run)),
            paused_by: facts.paused_by.clone(),
            is_unlisted: false,
            drift_since: facts.drift.as_ref().and_then(|found| found.since),
            waiting_runs: waiting_runs(&input).map(|run| run.created).collect(),
        }
    }
}

/// The layers that come first and are not applied, if a run waits for them.
fn waits_for(snapshot: &Snapshot, decision: &Decision) -> Vec<LayerName> {
    let waits = decision.reasons.iter().any(|reason| reason.gate == Gate::Dependency);
    let missing = snapshot.upstreams.iter().filter(|upstream| waits && !upstream.satisfied);
    missing.map(|upstream| upstream.name.clone()).collect()
}

/// Sentences about the findings of a check for drift besides the difference.
fn noticed(seen: &Seen) -> impl Iterator<Item = String> {
    let sentence = |what: &str, names: &[String]| {
        (!names.is_empty()).then(|| format!("{what}: {}", names.join(", ")))
    };
    let checks = sentence("checks failing", &seen.failing_checks);
    let outputs = sentence("outputs have moved since the last apply", &seen.outputs);
    checks.into_iter().chain(outputs)
}

/// The run whose plan waits for an approval. A plan that was discarded and a run that was cancelled have the
/// same gate, but nothing waits for them.
fn waiting_run<'a>(snapshot: &'a Snapshot, decision: &Decision) -> Option<&'a Run> {
    let is_gate = |reason: &Reason| reason.gate == Gate::Approval;
    let waits = decision.phase == Phase::PendingTrigger && decision.reasons.iter().any(is_gate);
    let planned = snapshot.facts.runs.iter().rev().find(|run| run.plan.is_some());
    planned.filter(|_| waits)
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

    /// Forgets a layer.
    pub(crate) fn remove(&self, name: &LayerName) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).remove(name);
    }

    pub(crate) fn set(&self, view: LayerView) {
        let mut views = self.0.write().unwrap_or_else(PoisonError::into_inner);
        views.insert(view.name.clone(), Arc::new(view));
    }
}
