//! What an apply has not done of its plan.

use serde::Serialize;

use crate::change::{Action, ChangeOutcome, PlannedChange};
use crate::counts::ChangeCounts;

/// What an apply or destroy that did not get to its end has left undone.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Incomplete {
    /// What the plan would have done.
    pub planned: ChangeCounts,
    /// How many resources were created, and then failed: the next apply replaces them.
    pub tainted: u32,
    /// How many changes failed.
    pub failed: u32,
    /// How many changes were going on when the tool was ended.
    pub interrupted: u32,
    /// How many changes were not begun.
    pub not_started: u32,
    /// These changes, in the plan's order; no more than are listed of the plan.
    pub changes: Vec<IncompleteChange>,
}

/// A change that was not done.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct IncompleteChange {
    /// The resource, masked.
    pub address: String,
    /// What was to be done with it.
    pub action: Action,
    /// What became of that.
    pub outcome: ChangeOutcome,
}

impl Incomplete {
    /// Counts `outcomes`; none when all changes were done.
    #[must_use]
    pub fn of(planned: ChangeCounts, outcomes: &[Option<ChangeOutcome>]) -> Option<Self> {
        let mut incomplete = Self { planned, ..Self::default() };
        for outcome in outcomes.iter().flatten() {
            match outcome {
                ChangeOutcome::Done => {}
                ChangeOutcome::Tainted => incomplete.tainted += 1,
                ChangeOutcome::Failed => incomplete.failed += 1,
                ChangeOutcome::Interrupted => incomplete.interrupted += 1,
                ChangeOutcome::NotStarted => incomplete.not_started += 1,
            }
        }
        (!incomplete.counts().is_empty()).then_some(incomplete)
    }

    /// How many changes were begun and not completed, for whatever reason.
    #[must_use]
    pub const fn failed(&self) -> u32 {
        self.tainted + self.failed + self.interrupted
    }

    /// How many changes there are of each kind that there are, with the word for it.
    #[must_use]
    pub fn counts(&self) -> Vec<(u32, &'static str)> {
        let all = [
            (self.tainted, "tainted"),
            (self.failed, "failed"),
            (self.interrupted, "interrupted"),
            (self.not_started, "not started"),
        ];
        all.into_iter().filter(|(count, _)| *count > 0).collect()
    }
}

/// `1 tainted, 2 not started`.
impl std::fmt::Display for Incomplete {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let words: Vec<_> =
            self.counts().iter().map(|(count, word)| format!("{count} {word}")).collect();
        formatter.write_str(&words.join(", "))
    }
}

impl IncompleteChange {
    /// Those of `changes` that were not done.
    pub(super) fn all(changes: &[PlannedChange]) -> Vec<Self> {
        let incomplete = |change: &PlannedChange| {
            let outcome = change.outcome.filter(|outcome| *outcome != ChangeOutcome::Done)?;
            Some(Self { address: change.address.clone(), action: change.action, outcome })
        };
        changes.iter().filter_map(incomplete).collect()
    }
}
