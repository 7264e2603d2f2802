//! What runs are needed for.
//!
//! Decisions read few runs of a layer, however many it has: `layer plan` every hour must not make
//! each decision slower. What is needed follows from the runs that are read alone, and a run that is
//! not read once is never read again, so stores can leave the others out.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{Action, Cause, PlanDigest, Run};

/// How far a run is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum RunState {
    /// An attempt runs.
    Running,
    /// It can get an attempt, or its plan can be applied: its commit may be needed.
    Open,
    /// Neither.
    Over,
}

impl RunState {
    /// Its name in a database.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Open => "open",
            Self::Over => "over",
        }
    }
}

/// What a run is needed for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Need {
    /// How far it is.
    pub(super) state: RunState,
    /// Whether decisions read it. A record leaves the other runs out: their number has no limit.
    pub(super) is_read: bool,
}

/// What is known about the runs of a layer from the newest one back to a run.
#[derive(Debug, Default)]
pub(super) struct NewerRuns {
    actions: BTreeSet<Action>,
    causes: BTreeSet<&'static str>,
    has_plan: bool,
    /// The plans that attempts apply now. They read them, also if something newer was pushed.
    applying: BTreeSet<PlanDigest>,
    /// The actions whose failed attempts are counted, and how many runs can still be of interest.
    counted: BTreeMap<Action, u32>,
}

/// As many runs as `retries.max` may allow attempts: more failures need not be counted.
const MOST_COUNTED: u32 = 100;

impl NewerRuns {
    /// What the next older run is needed for.
    pub(super) fn need(&mut self, run: &Run, change: u64) -> Need {
        let is_drift = run.action == Action::Drift;
        let is_current = run.change == change && !is_drift;
        // The last check for drift counts, also if something newer was pushed.
        let is_newest = (is_current || is_drift) && self.actions.insert(run.action);
        // One plan for a change of an upstream layer, one repair, one apply of a plan.
        let is_newest_cause = is_current && self.causes.insert(run.cause.kind());
        let is_newest_plan = is_current && run.plan.is_some() && !self.has_plan;
        self.has_plan |= is_newest_plan;
        let can_be_applied = is_newest_plan
            && run.plan.as_ref().is_some_and(|plan| plan.is_valid() && !plan.is_empty);
        // A run that failed waits for its next attempt until a newer one with its action exists, or
        // the digest has changed. One that never had an attempt waits until a decision closes it.
        let can_start = !run.is_over() && (is_newest || run.attempts.is_empty());
        let is_applied = run.plan.as_ref().is_some_and(|plan| self.applying.contains(&plan.digest));
        if let (Some(_), Cause::Plan { plan }) = (run.running(), &run.cause) {
            self.applying.insert(plan.clone());
        }
        let state = if run.running().is_some() {
            RunState::Running
        } else if can_start || can_be_applied {
            RunState::Open
        } else {
            RunState::Over
        };
        let is_counted = run.change == change && self.is_counted(run, is_newest && is_current);
        let is_read = is_newest
            || is_newest_cause
            || is_newest_plan
            || is_applied
            || is_counted
            || state != RunState::Over;
        Need { state, is_read }
    }

    /// Whether the attempts of newer runs are counted back to this one: until one succeeded, or a
    /// person asked for a run.
    fn is_counted(&mut self, run: &Run, is_newest: bool) -> bool {
        if is_newest {
            self.counted.insert(run.action, MOST_COUNTED);
        }
        let left = self.counted.get_mut(&run.action);
        let is_counted = left.is_some_and(|left| {
            let is_near = *left > 0;
            *left = left.saturating_sub(1);
            is_near
        });
        if run.has_succeeded() {
            self.counted.remove(&run.action);
        }
        let ends_count = run.cause.is_person() && !self.counted.is_empty();
        if ends_count {
            self.counted.clear();
        }
        is_counted || ends_count
    }
}
