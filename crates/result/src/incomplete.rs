//! The changes that an apply has not completed.

use serde::Serialize;

use crate::change::{Action, ChangeOutcome, PlannedChange};
use crate::counts::ChangeCounts;

/// The incomplete changes of an apply or destroy that ended early.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Incomplete {
    /// The counts of the plan.
    pub planned: ChangeCounts,
    /// The number of resources that were created and then failed: the next apply replaces them.
    pub tainted: u32,
    /// The number of changes that failed.
    pub failed: u32,
    /// The number of changes that were in progress when the tool ended.
    pub interrupted: u32,
    /// The number of changes that were completed and are not in the stored state.
    pub not_in_state: u32,
    /// The number of changes whose outcome is not known.
    pub unknown: u32,
    /// The number of changes that were not started.
    pub not_started: u32,
    /// These changes, in the plan's order; only those that the list of the plan contains.
    pub changes: Vec<IncompleteChange>,
}

/// An incomplete change.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct IncompleteChange {
    /// The resource, redacted.
    pub address: String,
    /// The planned action.
    pub action: Action,
    /// The outcome.
    pub outcome: ChangeOutcome,
}

impl Incomplete {
    /// Counts `outcomes`; none if all changes are complete.
    #[must_use]
    pub fn of(planned: ChangeCounts, outcomes: &[Option<ChangeOutcome>]) -> Option<Self> {
        let mut incomplete = Self { planned, ..Self::default() };
        for outcome in outcomes.iter().flatten() {
            match outcome {
                ChangeOutcome::Done => {}
                ChangeOutcome::Tainted => incomplete.tainted += 1,
                ChangeOutcome::Failed => incomplete.failed += 1,
                ChangeOutcome::Interrupted => incomplete.interrupted += 1,
                ChangeOutcome::NotInState => incomplete.not_in_state += 1,
                ChangeOutcome::Unknown => incomplete.unknown += 1,
                ChangeOutcome::NotStarted => incomplete.not_started += 1,
            }
        }
        (!incomplete.counts().is_empty()).then_some(incomplete)
    }

    /// The number of changes that were started and not completed, for any reason.
    #[must_use]
    pub const fn failed(&self) -> u32 {
        self.tainted + self.failed + self.interrupted
    }

    /// The number of changes by outcome, with its word; zero is omitted.
    #[must_use]
    pub fn counts(&self) -> Vec<(u32, &'static str)> {
        let all = [
            (self.tainted, "tainted"),
            (self.failed, "failed"),
            (self.interrupted, "interrupted"),
            (self.not_in_state, "not in the stored state"),
            (self.unknown, "unknown"),
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
    /// The incomplete ones of `changes`.
    pub(super) fn all(changes: &[PlannedChange]) -> Vec<Self> {
        let incomplete = |change: &PlannedChange| {
            let outcome = change.outcome.filter(|outcome| *outcome != ChangeOutcome::Done)?;
            Some(Self { address: change.address.clone(), action: change.action, outcome })
        };
        changes.iter().filter_map(incomplete).collect()
    }
}
