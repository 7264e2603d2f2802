//! The facts of one layer, and the rules by which they change.
//!
//! Every store loads a record, changes it with these methods, and writes it back, in one
//! transaction. So all stores have the same rules.

use super::needs::{Need, NewerRuns};
use super::{AttemptId, AttemptResult, Note, Outcome};
use crate::model::{
    Action, Attempt, Cause, Closed, Commit, DriftFinding, DriftKind, Ending, LayerName, Liveness,
    Moment, NewRun, Observation, PlanDigest, ReportedLock, Revision, Run, RunId, SavedPlan, Seen,
    Sighting, StalePlan, StateVersion, Unrelated, Upstream, UpstreamWait, WindowOverride,
};

/// A breaker that a failed apply has opened.
#[derive(Clone, Debug, PartialEq, serde::Deserialize, serde::Serialize)]
pub(super) struct OpenedBreaker {
    /// The apply.
    pub(super) run: RunId,
    /// When it did.
    #[serde(default)]
    pub(super) at: Moment,
    /// Who has reset it.
    pub(super) reset_by: Option<String>,
}

/// The facts of one layer.
#[derive(Clone, Debug, Default, PartialEq, serde::Deserialize, serde::Serialize)]
pub(super) struct Record {
    pub(super) observation: Option<Observation>,
    /// The applied revision, and when it was applied.
    pub(super) applied: Option<(Revision, Moment)>,
    pub(super) drift: Option<DriftFinding>,
    /// The difference that was found last and is not known to be gone: it was told, and is not told again.
    #[serde(default)]
    pub(super) known_drift: Option<String>,
    /// The difference between infrastructure and state of the last normal plan, if this plan was empty: the code says
    /// already what the infrastructure is, so this difference is no drift.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) accepted_drift: Option<String>,
    /// The difference that the last apply has repaired, if no check since then has found none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) repaired_drift: Option<String>,
    /// The failing checks that the last check for drift has found. The journal has them, so they are not told again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) known_checks: Vec<String>,
    /// The hash of the changes of outputs that the last check for drift has found since the last apply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) known_outputs: Option<String>,
    /// The version of the state that this server has left, or has found to be what the code says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) state: Option<StateVersion>,
    pub(super) paused_by: Option<String>,
    /// The lock of the state that was reported last, if no attempt has succeeded since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) reported_lock: Option<ReportedLock>,
    /// The earlier names of the layer whose files were not moved yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) files_of: Vec<LayerName>,
    /// The breaker that an apply of the layer has opened last.
    #[serde(default)]
    pub(super) breaker: Option<OpenedBreaker>,
    /// The number of the row of failures in which an automatic apply of the layer was counted last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) failed_row: Option<u64>,
    /// Whether an attempt was ever started, also of a run that was removed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) has_started: bool,
    /// The sequence number of the begin of the newest plan that succeeded.
    pub(super) planned: u64,
    /// The last apply that changed something, and the sequence number of its end.
    pub(super) changed: Option<(u64, RunId)>,
    /// The runs that decisions read, the oldest first. Stores keep them apart from the rest.
    #[serde(skip)]
    pub(super) runs: Vec<Run>,
}

impl Record {
    /// Whether the revision that was read last is applied.
    pub(super) fn is_applied(&self) -> bool {
        let read = self.observation.as_ref().and_then(Observation::revision);
        let applied = self.applied.as_ref().map(|(revision, _)| &revision.digest);
        read.is_some_and(|revision| applied == Some(&revision.digest))
    }

    /// Why the revision that was read last is not applied.
    pub(super) fn waits(&self) -> Option<UpstreamWait> {
        if let Some(by) = &self.paused_by {
            return Some(UpstreamWait::Paused(by.clone()));
        }
        let change = self.change();
        let mut runs = self.runs.iter().rev().filter(|run| run.change == change);
        let run = runs.find(|run| matches!(run.action, Action::Plan | Action::Apply))?;
        let action = run.action;
        let Some(attempt) = run.attempts.last() else {
            return Some(UpstreamWait::Queued(action, run.created));
        };
        Some(match (attempt.end, &run.plan) {
            (None, _) => UpstreamWait::Running(action, attempt.created),
            (Some(_), Some(SavedPlan { discarded: Some(by), saved, .. })) => {
                UpstreamWait::Discarded(*saved, by.clone())
            }
            (Some((Ending::Succeeded, _)), Some(plan)) => UpstreamWait::Approval(plan.saved),
            (Some((_, ended)), _) => UpstreamWait::Failed(action, ended),
        })
    }

    /// The commits that were read and applied.
    pub(super) fn commits(&self) -> impl Iterator<Item = &Commit> {
        let read = self.observation.as_ref().and_then(Observation::revision);
        let applied = self.applied.as_ref().map(|(revision, _)| revision);
        read.into_iter().chain(applied).map(|revision| &revision.commit)
    }

    /// How often the digest has changed.
    pub(super) fn change(&self) -> u64 {
        self.observation.as_ref().map_or(0, |observation| observation.change)
    }

    /// All runs, and what each of them is needed for. It follows from the runs that decisions read
    /// alone, so it is the same for a record without the others.
    pub(super) fn needs(&self) -> impl Iterator<Item = (&Run, Need)> {
        let mut newer = NewerRuns::default();
        let change = self.change();
        let needs: Vec<_> =
            self.runs.iter().rev().map(|run| (run, newer.need(run, change))).collect();
        needs.into_iter().rev()
    }

    fn run_mut(&mut self, id: &RunId) -> Option<&mut Run> {
        self.runs.iter_mut().find(|run| run.id == *id)
    }

    /// The attempt, if it is the last one of its run and has not ended.
    fn current(&mut self, id: &AttemptId) -> Option<&mut Attempt> {
        self.run_mut(&id.run)?
            .attempts
            .last_mut()
            .filter(|attempt| attempt.number == id.number && attempt.end.is_none())
    }

    /// Whether no commit was read.
    pub(super) fn is_unread(&self) -> bool {
        self.observation.as_ref().and_then(Observation::commit).is_none()
    }

    /// Records what the repository contains. `unrelated` is that of [`Observation::after`].
    pub(super) fn observe(
        &mut self,
        sighting: &Sighting,
        unrelated: &[Unrelated],
        now: Moment,
    ) -> Outcome {
        let known = self.observation.as_ref();
        if known.is_some_and(|known| known.sighting == *sighting) {
            return Outcome::Refused;
        }
        self.observation = Some(Observation::after(known, sighting.clone(), unrelated, now));
        Outcome::Made
    }

    /// Inserts a run of the current change that does not exist.
    pub(super) fn insert(&mut self, run: NewRun, now: Moment) -> Outcome {
        let is_current = self.observation.as_ref().is_some_and(|known| known.change == run.change);
        // The id contains the name. After a layer was renamed and named back, a slow server can still have a decision
        // about a run that exists with an id of the other name.
        let exists = self.runs.iter().any(|known| {
            let is_same = known.action == run.action && known.cause == run.cause;
            known.id == run.id || (is_same && known.digest() == &run.revision.digest)
        });
        if !is_current || exists {
            return Outcome::Refused;
        }
        let history_break = self.observation.as_ref().and_then(|read| read.history_break.as_ref());
        let unrelated_to = history_break.map(|known| known.before.clone());
        self.runs.push(Run { unrelated_to, ..Run::new(run, now) });
        Outcome::Made
    }

    /// Adds the next attempt to a run that waits and was not superseded.
    pub(super) fn start(
        &mut self,
        attempt: Attempt,
        id: &RunId,
        upstreams: &[Upstream],
    ) -> Outcome {
        let Some(run) = self.runs.iter().find(|run| run.id == *id) else {
            return Outcome::Refused;
        };
        // The lease does not say so if the identity of the state has changed since the other attempt
        // started: that one holds the lease of the earlier state, and works in the same directory.
        let is_busy = self.runs.iter().any(|run| run.running().is_some());
        let waits = !run.is_over() && !is_busy;
        let is_next = run.attempts.len() + 1 == attempt.number as usize;
        let is_current = if run.action == Action::Drift {
            // A check for drift belongs to what is applied, not to what was read.
            self.applied.as_ref().map(|(revision, _)| &revision.digest) == Some(run.digest())
        } else {
            let is_found = self.observation.as_ref().and_then(Observation::revision).is_some();
            let missing = upstreams.iter().any(|upstream| !upstream.satisfied);
            is_found && run.change == self.change() && (!missing || run.is_requested_plan())
        };
        let has_valid_plan = match &run.cause {
            Cause::Plan { plan } => {
                Run::saved_plan(&self.runs, plan).is_some_and(SavedPlan::is_valid)
                    && !upstreams.iter().any(|upstream| upstream.has_changed)
            }
            _ => true,
        };
        // Without its files, the layer would begin with an empty state.
        if self.paused_by.is_some()
            || !self.files_of.is_empty()
            || !waits
            || !is_next
            || !is_current
            || !has_valid_plan
        {
            return Outcome::Refused;
        }
        self.has_started = true;
        if let Some(run) = self.run_mut(id) {
            run.attempts.push(attempt);
            if run.is_requested_plan() {
                let missing = upstreams.iter().filter(|upstream| !upstream.satisfied);
                run.made_before = missing.map(|upstream| upstream.name.clone()).collect();
            }
        }
        Outcome::Made
    }

    /// Gives a run that waits no further attempts.
    pub(super) fn close(&mut self, run: &RunId, why: Closed) -> Outcome {
        match self.run_mut(run) {
            Some(run) if !run.is_over() && run.running().is_none() => {
                run.closed = Some(why);
                Outcome::Made
            }
            _ => Outcome::Refused,
        }
    }

    /// Records something about an attempt that has not ended.
    pub(super) fn note(&mut self, id: &AttemptId, note: Note, now: Moment) -> Outcome {
        let Some(attempt) = self.current(id) else { return Outcome::Refused };
        let made = note.apply(attempt, now);
        if made == Outcome::Made && note == Note::Begins {
            (self.applied, self.drift) = (None, None);
            (self.state, self.accepted_drift) = (None, None);
        }
        made
    }

    /// Records the end of an attempt that has not ended, and what follows from it.
    pub(super) fn finish(
        &mut self,
        id: &AttemptId,
        mut result: AttemptResult,
        (now, sequence): (Moment, u64),
    ) -> Outcome {
        let Some(attempt) = self.current(id) else { return Outcome::Refused };
        let is_gone = matches!(attempt.probed, Some((Liveness::Gone, _)));
        if matches!(result.ending, Ending::Lost | Ending::NeverStarted) && !is_gone {
            return Outcome::Refused;
        }
        let (began, started, stop) = (attempt.began, attempt.sequence, attempt.stop);
        let Some(run) = self.run_mut(&id.run) else { return Outcome::Refused };
        // A plan that was not saved cannot be applied, and says nothing about its changes.
        let has_plan = run.action != Action::Plan || result.plan.is_some();
        if result.ending == Ending::Succeeded && !has_plan {
            result.ending = Ending::Lost;
        }
        // The request is why it ended, however its process took it: a cancelled run must not be
        // retried because Terraform reported a failure, or the process was killed.
        if let Some((why, _)) = stop.filter(|_| result.ending != Ending::Succeeded) {
            result.ending = Ending::Stopped(why);
        }
        let (ending, end) = (result.ending, Some((result.ending, now)));
        run.plan = result.plan.map(|plan| SavedPlan { saved: now, ..plan });
        let is_empty = run.plan.as_ref().is_some_and(|plan| plan.is_empty) && !run.destroys;
        let (action, revision, destroys) = (run.action, run.revision.clone(), run.destroys);
        let change = run.change;
        let accepts = run.accepts();
        if let Some(attempt) = run.attempts.last_mut() {
            attempt.end = end;
            (attempt.reported, attempt.applied) = (result.reported, result.applied);
            attempt.lock.clone_from(&result.lock);
            attempt.failure = result.failure;
        }
        if let Some(lock) = result.lock {
            self.reported_lock = Some(ReportedLock { run: id.run.clone(), destroys, lock });
        } else if ending == Ending::Succeeded {
            self.reported_lock = None;
        }
        let (state, difference) = (result.state.take(), result.difference.take());
        let (unmatched, of_state) =
            (std::mem::take(&mut result.unmatched), result.state_difference.take());
        if began {
            self.state.clone_from(&state);
        }
        if ending == Ending::Succeeded {
            if action == Action::Plan {
                self.planned = self.planned.max(started);
            }
            match action {
                Action::Apply => {
                    (self.applied, self.drift) = (Some((revision, now)), None);
                    let known = self.known_drift.take();
                    self.repaired_drift = known.filter(|_| self.is_repair(&id.run));
                    self.known_outputs = None;
                }
                Action::Destroy => {
                    (self.applied, self.drift) = (None, None);
                    self.known_drift = None;
                }
                Action::Plan if is_empty => {
                    // A revision whose normal plan is empty is applied: the code says what the infrastructure is.
                    if !accepts {
                        self.applied = Some((revision, now));
                        self.accepted_drift = of_state;
                    }
                    (self.drift, self.known_drift) = (None, None);
                    self.state = state.or_else(|| self.state.take());
                }
                Action::Drift => {
                    let (run, kind, since) = (id.run.clone(), result.drift_kind, None);
                    let seen = std::mem::take(&mut result.seen);
                    if self.see(&seen) {
                        self.changed = Some((sequence, run.clone()));
                    }
                    let found = DriftFinding { run, difference, kind, since, unmatched, seen };
                    let found = if result.compares_code {
                        self.compare_code(found, of_state)
                    } else {
                        self.compare_state(found)
                    };
                    self.find_drift(found, state, now);
                }
                Action::Plan | Action::Trigger => {}
            }
        }
        // A person has approved content that is from the new history only.
        if ending == Ending::Succeeded
            && action.changes_infrastructure()
            && let Some(read) = &mut self.observation
        {
            read.history_break.take_if(|known| change >= known.change);
        }
        // So that it is neither approved nor started again.
        if ending == Ending::StalePlan
            && let Some(Cause::Plan { plan }) = self.run_mut(&id.run).map(|run| run.cause.clone())
            && let Some(saved) = Run::saved_plan_mut(&mut self.runs, &plan)
        {
            saved.stale = Some(result.stale.unwrap_or(StalePlan::State));
        }
        // An apply that ended early may have changed what others read. One of a stale plan has not.
        let is_interrupted = !matches!(ending, Ending::Succeeded | Ending::StalePlan);
        let may_have_changed = result.changed || (began && is_interrupted);
        if action.changes_infrastructure() && may_have_changed {
            self.changed = Some((sequence, id.run.clone()));
        }
        Outcome::Made
    }

    /// Whether `run` applies a plan that was made to repair drift.
    fn is_repair(&self, run: &RunId) -> bool {
        let Some(apply) = self.runs.iter().find(|known| known.id == *run) else { return false };
        let mut plans = self.runs.iter().filter(|planned| apply.applies(planned));
        plans.any(|planned| matches!(planned.cause, Cause::Drift { .. }))
    }

    /// Records the findings of a check for drift besides the difference. Returns whether outputs have moved in another
    /// way than before, so that the layers that come after are planned.
    fn see(&mut self, seen: &Seen) -> bool {
        self.known_checks.clone_from(&seen.failing_checks);
        let has_moved =
            seen.outputs_difference.is_some() && seen.outputs_difference != self.known_outputs;
        self.known_outputs.clone_from(&seen.outputs_difference);
        has_moved
    }

    /// What a check has found that compares the infrastructure with the state. If the code says something else than the
    /// state, it is drift that they are the same.
    fn compare_state(&self, mut found: DriftFinding) -> DriftFinding {
        let Some(accepted) = &self.accepted_drift else { return found };
        match &found.difference {
            Some(difference) if difference == accepted => {
                (found.difference, found.kind) = (None, DriftKind::WithoutEffect);
            }
            Some(_) => {}
            None => {
                let undone = format!("undone {accepted}");
                (found.difference, found.kind) = (Some(undone), DriftKind::Changes);
            }
        }
        found
    }

    /// What a check has found that compares the code with the state. An empty plan says what any empty plan says.
    fn compare_code(&mut self, found: DriftFinding, of_state: Option<String>) -> DriftFinding {
        if found.difference.is_none() {
            self.accepted_drift = of_state;
        }
        found
    }

    /// Records what a check has found in this version of the state.
    fn find_drift(&mut self, mut found: DriftFinding, state: Option<StateVersion>, now: Moment) {
        // What another program has written is known as soon as it is what the code says.
        if found.kind != DriftKind::ChangedOutside {
            self.state = state.or_else(|| self.state.take());
        }
        self.known_drift.clone_from(&found.difference);
        if found.difference.is_none() {
            self.repaired_drift = None;
        }
        let earlier = self.drift.as_ref().and_then(|found| found.since);
        found.since = found.difference.is_some().then(|| earlier.unwrap_or(now));
        self.drift = Some(found);
    }

    /// Approves the newest plan of the current change.
    pub(super) fn approve(
        &mut self,
        layer: &LayerName,
        plan: &PlanDigest,
        by: &str,
        now: Moment,
    ) -> Outcome {
        let change = self.change();
        let mut plans = self.runs.iter().rev().filter(|run| run.change == change);
        let newest = plans.find_map(|run| run.plan.as_ref().map(|saved| (run, saved)));
        let Some((planned, saved)) = newest else { return Outcome::Refused };
        if saved.digest != *plan || saved.is_empty || !saved.is_valid() {
            return Outcome::Refused;
        }
        let destroys = planned.destroys;
        let action = if destroys { Action::Destroy } else { Action::Apply };
        // An apply that was created without approval can wait for one. Under an earlier name of the layer, it got
        // another id.
        let known = self.runs.iter().find(|run| run.applies(planned)).map(|run| run.id.clone());
        let id = if let Some(known) = known {
            known
        } else {
            let (cause, revision) = (Cause::Plan { plan: plan.clone() }, planned.revision.clone());
            let id = RunId::derived(layer, &revision.digest, action, &cause);
            let new = NewRun { id: id.clone(), action, cause, revision, change, destroys };
            let _ = self.insert(new, now);
            id
        };
        match self.run_mut(&id) {
            Some(run) if run.approved_by.is_none() && run.closed.is_none() => {
                run.approved_by = Some(by.to_owned());
                Outcome::Made
            }
            _ => Outcome::Refused,
        }
    }

    /// Lets a run that waits start although a window forbids it.
    pub(super) fn override_window(&mut self, run: &RunId, given: WindowOverride) -> Outcome {
        match self.run_mut(run) {
            Some(run)
                if !run.is_over() && run.running().is_none() && run.window_override.is_none() =>
            {
                run.window_override = Some(given);
                Outcome::Made
            }
            _ => Outcome::Refused,
        }
    }

    /// Takes the history of the layer `from` as that of the layer that has had only `known` so far.
    pub(super) fn take_over(&mut self, from: &LayerName, known: Self) {
        if let Some(read) = known.observation {
            let last = self.observation.as_ref();
            let after = Observation::after(last, read.sighting, &[], read.at);
            let history_break = after.history_break.clone().or(read.history_break);
            self.observation = Some(Observation { history_break, ..after });
        }
        self.paused_by = self.paused_by.take().or(known.paused_by);
        self.files_of.push(from.clone());
        // A plan contains paths with the name of the layer.
        let applied: Vec<PlanDigest> = self
            .runs
            .iter()
            .filter(|run| run.has_succeeded())
            .filter_map(|run| match &run.cause {
                Cause::Plan { plan } => Some(plan.clone()),
                _ => None,
            })
            .collect();
        let plans = self.runs.iter_mut().filter_map(|run| run.plan.as_mut());
        for saved in plans.filter(|saved| saved.is_valid() && !saved.is_empty) {
            if !applied.contains(&saved.digest) {
                saved.stale = Some(StalePlan::Renamed);
            }
        }
    }

    /// Records that the files of earlier names were moved.
    pub(super) fn files_moved(&mut self) -> Outcome {
        if self.files_of.is_empty() {
            return Outcome::Refused;
        }
        self.files_of.clear();
        Outcome::Made
    }

    /// Records that an automatic apply has failed in this row, if none of the layer was counted in it.
    pub(super) fn fail_in_row(&mut self, row: u64) -> Outcome {
        if self.failed_row.replace(row) == Some(row) { Outcome::Refused } else { Outcome::Made }
    }

    /// Records that the failed apply `run` has opened the breaker.
    pub(super) fn open_breaker(&mut self, run: &RunId, at: Moment) -> Outcome {
        self.breaker = Some(OpenedBreaker { run: run.clone(), at, reset_by: None });
        Outcome::Made
    }

    /// Records who has reset the breaker, if an apply of this layer had opened it.
    pub(super) fn reset_breaker(&mut self, by: &str) -> Outcome {
        match &mut self.breaker {
            Some(OpenedBreaker { reset_by: reset_by @ None, .. }) => {
                *reset_by = Some(by.to_owned());
                Outcome::Made
            }
            _ => Outcome::Refused,
        }
    }

    /// Discards a plan that no attempt was started to apply.
    pub(super) fn discard(&mut self, plan: &PlanDigest, by: &str) -> Outcome {
        match Run::saved_plan_mut(&mut self.runs, plan) {
            Some(saved) if saved.is_valid() && !saved.is_empty => {
                saved.discarded = Some(by.to_owned());
                Outcome::Made
            }
            _ => Outcome::Refused,
        }
    }
}
