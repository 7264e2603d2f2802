//! Runs, and why they exist.

use sha2::{Digest as _, Sha256};

use super::{
    Attempt, ChangeCounts, Commit, Digest, Ending, LayerName, LockId, Moment, PlanDigest, Revision,
    RunId, SavedPlan, StateLock, StopReason,
};

/// What a run does.
#[derive(
    Clone,
    Copy,
    Debug,
    Eq,
    Hash,
    Ord,
    PartialEq,
    PartialOrd,
    serde::Deserialize,
    serde::Serialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// Makes a plan, which changes nothing.
    Plan,
    /// Applies a saved plan.
    Apply,
    /// Compares the infrastructure with the state, which changes nothing.
    Drift,
    /// Applies a saved plan that destroys everything.
    Destroy,
    /// Starts something outside of this server.
    Trigger,
}

impl Action {
    /// The name, as in the API.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::Apply => "apply",
            Self::Drift => "drift",
            Self::Destroy => "destroy",
            Self::Trigger => "trigger",
        }
    }

    /// Whether an attempt can change infrastructure.
    #[must_use]
    pub const fn changes_infrastructure(self) -> bool {
        match self {
            Self::Apply | Self::Destroy | Self::Trigger => true,
            Self::Plan | Self::Drift => false,
        }
    }
}

/// Why a run was created, with what tells two occurrences of the cause apart.
#[derive(Clone, Debug, Eq, Hash, PartialEq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// A commit changed the layer's digest.
    Commit {
        /// How often the digest had changed ([`super::Observation::change`]).
        change: u64,
    },
    /// A check for drift was due.
    Schedule {
        /// When.
        due: Moment,
    },
    /// A person asked for it.
    Person {
        /// The `Idempotency-Key` of the request, or its id.
        request: String,
    },
    /// A person asked to destroy the layer. The plan destroys, and always needs an approval.
    Destroy {
        /// The `Idempotency-Key` of the request, or its id.
        request: String,
    },
    /// A person accepts what was changed outside of Terraform. The plan writes that into the state.
    Accept {
        /// The `Idempotency-Key` of the request, or its id.
        request: String,
    },
    /// A person asked for the removal of a state lock whose holder has ended. The plan removes it first.
    Unlock {
        /// The `Idempotency-Key` of the request, or its id.
        request: String,
        /// The lock.
        lock: LockId,
    },
    /// A layer that this one comes after was changed.
    Dependency {
        /// The upstream layer's apply.
        run: RunId,
        /// [`super::Observation::change`] of this layer: after a new digest and a revert, the plan
        /// is due once more.
        change: u64,
    },
    /// An apply failed after it may have changed something, or a plan became stale.
    Replan {
        /// The run that did.
        run: RunId,
    },
    /// Drift was found, and the layer repairs it.
    Drift {
        /// The check that found it.
        run: RunId,
        /// [`super::Observation::change`]: after a new digest and a revert, the repair is due once
        /// more. Stores of the first version do not have it.
        #[serde(default)]
        change: u64,
    },
    /// A plan is applied.
    Plan {
        /// The saved plan.
        plan: PlanDigest,
    },
}

impl Cause {
    /// The kind of cause, as in the API.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Commit { .. } => "commit",
            Self::Schedule { .. } => "schedule",
            Self::Person { .. } => "person",
            Self::Destroy { .. } => "destroy",
            Self::Accept { .. } => "accept",
            Self::Unlock { .. } => "unlock",
            Self::Dependency { .. } => "dependency",
            Self::Replan { .. } => "replan",
            Self::Drift { .. } => "drift",
            Self::Plan { .. } => "plan",
        }
    }

    /// What tells occurrences of this kind apart.
    #[must_use]
    pub fn occurrence(&self) -> String {
        match self {
            Self::Commit { change } => change.to_string(),
            Self::Schedule { due } => due.as_millis().to_string(),
            Self::Person { request } | Self::Destroy { request } | Self::Accept { request } => {
                request.clone()
            }
            Self::Unlock { request, lock } => format!("{lock}/{request}"),
            Self::Dependency { run, change } | Self::Drift { run, change } => {
                format!("{run}/{change}")
            }
            // The run belongs to one change only, and so does the new plan.
            Self::Replan { run } => run.to_string(),
            Self::Plan { plan } => plan.to_string(),
        }
    }

    /// Whether a person asked for the run. Such a run begins a new count of attempts.
    #[must_use]
    pub const fn is_person(&self) -> bool {
        match self {
            Self::Person { .. }
            | Self::Destroy { .. }
            | Self::Accept { .. }
            | Self::Unlock { .. } => true,
            Self::Commit { .. }
            | Self::Schedule { .. }
            | Self::Dependency { .. }
            | Self::Replan { .. }
            | Self::Drift { .. }
            | Self::Plan { .. } => false,
        }
    }
}

impl RunId {
    /// The id of the run for this action on this digest, with its cause and the cause's occurrence.
    ///
    /// It depends on nothing else, and runs are inserted only if absent. So a webhook, a poll and a
    /// restart that see the same commit create one run.
    #[must_use]
    pub fn derived(layer: &LayerName, digest: &Digest, action: Action, cause: &Cause) -> Self {
        let mut hash = Sha256::new();
        let occurrence = cause.occurrence();
        for part in [layer.as_str(), digest.as_str(), action.as_str(), cause.kind(), &occurrence] {
            // The length separates the parts.
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        Self::new(hex::encode(&hash.finalize()[..16]))
    }
}

/// A run to insert if it does not exist.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NewRun {
    /// The id, derived from everything else.
    pub id: RunId,
    /// What it does.
    pub action: Action,
    /// Why.
    pub cause: Cause,
    /// What it is about.
    pub revision: Revision,
    /// [`super::Observation::change`] when the run was created.
    pub change: u64,
    /// Whether everything is destroyed: by the run, or by the plan that it makes.
    pub destroys: bool,
}

/// A run, with everything that happened to it.
#[derive(Clone, Debug, Eq, PartialEq, serde::Deserialize, serde::Serialize)]
pub struct Run {
    /// The id.
    pub id: RunId,
    /// What it does.
    pub action: Action,
    /// Why.
    pub cause: Cause,
    /// What it is about.
    pub revision: Revision,
    /// [`super::Observation::change`] when the run was created. A run that belongs to an earlier
    /// change is superseded.
    pub change: u64,
    /// Whether everything is destroyed: by the run, or by the plan that it makes.
    pub destroys: bool,
    /// When it was created.
    pub created: Moment,
    /// Its attempts, the oldest first. Only the last one can be running.
    pub attempts: Vec<Attempt>,
    /// Why no further attempt is made, if that was decided.
    pub closed: Option<Closed>,
    /// What a successful plan saved.
    pub plan: Option<SavedPlan>,
    /// Who approved the plan that this run applies. `None` if it is applied without approval.
    pub approved_by: Option<String>,
    /// Who lets it start although a window is closed, and why. Runs of earlier versions have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_override: Option<WindowOverride>,
    /// The last commit of the earlier history, if the commit of the run does not have a known ancestor in common with it
    /// ([`super::HistoryBreak`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unrelated_to: Option<Commit>,
    /// The layers that were not applied when its last attempt began, although they come first: a person asked for the
    /// plan. Runs of earlier versions have none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub made_before: Vec<LayerName>,
}

/// An administrator lets one run start although a window forbids its action.
#[derive(
    Clone, Debug, Eq, PartialEq, serde::Deserialize, serde::Serialize, schemars::JsonSchema,
)]
pub struct WindowOverride {
    /// The administrator.
    pub by: String,
    /// The reason, in the words of the administrator.
    pub reason: String,
}

impl Run {
    /// A run without attempts.
    #[must_use]
    pub fn new(run: NewRun, created: Moment) -> Self {
        let NewRun { id, action, cause, revision, change, destroys } = run;
        let attempts = Vec::new();
        let (closed, plan, approved_by, window_override) = (None, None, None, None);
        let made_before = Vec::new();
        Self {
            id,
            action,
            cause,
            revision,
            change,
            destroys,
            created,
            attempts,
            closed,
            plan,
            approved_by,
            window_override,
            unrelated_to: None,
            made_before,
        }
    }

    /// The attempt that has not ended.
    #[must_use]
    pub fn running(&self) -> Option<&Attempt> {
        self.attempts.last().filter(|attempt| attempt.end.is_none())
    }

    /// How the last attempt ended, and when.
    #[must_use]
    pub fn last_end(&self) -> Option<(Ending, Moment)> {
        self.attempts.last().and_then(|attempt| attempt.end)
    }

    /// The lock of the state that its last attempt reported.
    #[must_use]
    pub fn reported_lock(&self) -> Option<&StateLock> {
        self.attempts.last().and_then(|attempt| attempt.lock.as_ref())
    }

    /// Whether its last attempt succeeded.
    #[must_use]
    pub fn has_succeeded(&self) -> bool {
        matches!(self.last_end(), Some((Ending::Succeeded, _)))
    }

    /// Whether no further attempt is made: it succeeded, was closed, or was stopped for good.
    #[must_use]
    pub fn is_over(&self) -> bool {
        let stopped = match self.last_end() {
            Some((Ending::Stopped(why), _)) => why != StopReason::TimedOut,
            _ => false,
        };
        self.closed.is_some() || self.has_succeeded() || stopped
    }

    /// Whether it is an apply that no person has approved.
    #[must_use]
    pub fn is_automatic_apply(&self) -> bool {
        self.action == Action::Apply && self.approved_by.is_none()
    }

    /// Whether it is a plan that a person has asked for, which does not wait for the layers that come first.
    #[must_use]
    pub const fn is_requested_plan(&self) -> bool {
        matches!((self.action, &self.cause), (Action::Plan, Cause::Person { .. }))
    }

    /// Whether it plans what writes changes outside of Terraform into the state.
    #[must_use]
    pub const fn accepts(&self) -> bool {
        matches!(self.cause, Cause::Accept { .. })
    }

    /// Whether it applies the plan that `planned` has made.
    #[must_use]
    pub fn applies(&self, planned: &Self) -> bool {
        let saved = planned.plan.as_ref().map(|saved| &saved.digest);
        matches!(&self.cause, Cause::Plan { plan } if Some(plan) == saved)
    }

    /// The newest plan with this digest among those that `runs` saved, the oldest run first. Plans that were made
    /// within the same second can have the same bytes: a discarded one must not stand for its successor.
    #[must_use]
    pub fn saved_plan<'a>(runs: &'a [Self], digest: &PlanDigest) -> Option<&'a SavedPlan> {
        let mut plans = runs.iter().rev().filter_map(|run| run.plan.as_ref());
        plans.find(|saved| saved.digest == *digest)
    }

    /// As [`Run::saved_plan`], for a change of it.
    pub fn saved_plan_mut<'a>(
        runs: &'a mut [Self],
        digest: &PlanDigest,
    ) -> Option<&'a mut SavedPlan> {
        let mut plans = runs.iter_mut().rev().filter_map(|run| run.plan.as_mut());
        plans.find(|saved| saved.digest == *digest)
    }

    /// What its last attempt has changed, if it was an apply that reported this.
    #[must_use]
    pub fn applied(&self) -> Option<ChangeCounts> {
        self.attempts.last().and_then(|attempt| attempt.applied)
    }

    /// How much of its plan an apply that did not succeed has made, as text like "2 of 5 changes". `None` if
    /// its last attempt did not report it, or none of `runs` saved the plan.
    #[must_use]
    pub fn partly_applied(&self, runs: &[Self]) -> Option<String> {
        let Cause::Plan { plan } = &self.cause else { return None };
        let applied = self.applied().filter(|_| !self.has_succeeded())?;
        let planned = Self::saved_plan(runs, plan)?.counts;
        Some(format!("{} of {} changes", applied.total(), planned.total()))
    }

    /// The commit.
    #[must_use]
    pub const fn commit(&self) -> &Commit {
        &self.revision.commit
    }

    /// The digest.
    #[must_use]
    pub const fn digest(&self) -> &Digest {
        &self.revision.digest
    }
}

/// Why a run gets no further attempt although none succeeded or failed for good.
#[derive(
    Clone, Copy, Debug, Eq, PartialEq, serde::Deserialize, serde::Serialize, schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Closed {
    /// A newer digest took over, or the plan that it applies is no longer valid.
    Superseded,
    /// A person cancelled it.
    Cancelled,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_ids_differ_in_each_part() {
        let id = |layer: &str, digest: &str, action, cause| {
            RunId::derived(&layer.parse().unwrap(), &Digest::new(digest), action, &cause)
        };
        let base = id("a", "d", Action::Plan, Cause::Commit { change: 1 });
        assert_eq!(base, id("a", "d", Action::Plan, Cause::Commit { change: 1 }));
        for other in [
            id("b", "d", Action::Plan, Cause::Commit { change: 1 }),
            id("a", "e", Action::Plan, Cause::Commit { change: 1 }),
            id("a", "d", Action::Apply, Cause::Commit { change: 1 }),
            id("a", "d", Action::Plan, Cause::Commit { change: 2 }),
            id("a", "d", Action::Plan, Cause::Person { request: "1".to_owned() }),
            id("a", "d", Action::Plan, unlock("1", "x")),
        ] {
            assert_ne!(base, other);
        }
        let base = id("a", "d", Action::Plan, unlock("1", "x"));
        assert_eq!(base, id("a", "d", Action::Plan, unlock("1", "x")));
        for other in [unlock("2", "x"), unlock("1", "y")] {
            assert_ne!(base, id("a", "d", Action::Plan, other));
        }
    }

    fn unlock(request: &str, lock: &str) -> Cause {
        Cause::Unlock { request: request.to_owned(), lock: lock.parse().unwrap() }
    }

    #[test]
    fn attempt_of_an_earlier_version_has_reported_no_lock() {
        let now = Moment::default();
        let token = butler_registry::TokenHash::of("brce_test");
        let place = || "here".to_owned();
        let attempt = Attempt::new(1, place(), place(), token, 1, now, now);
        let old = serde_json::to_value(&attempt).unwrap();
        assert!(old.get("lock").is_none(), "{old}");
        assert_eq!(serde_json::from_value::<Attempt>(old).unwrap(), attempt);
    }

    #[test]
    fn repairs_of_one_drift_differ_by_the_change() {
        let id = |change| {
            let cause = Cause::Drift { run: RunId::new("check"), change };
            RunId::derived(&"a".parse().unwrap(), &Digest::new("d"), Action::Plan, &cause)
        };
        assert_ne!(id(1), id(3));
        let old: Cause = serde_json::from_str(r#"{"drift": {"run": "check"}}"#).unwrap();
        assert_eq!(old, Cause::Drift { run: RunId::new("check"), change: 0 });
    }
}
