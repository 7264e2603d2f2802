//! How a run ended: what the registry is told, and the exit code.

use std::panic::AssertUnwindSafe;

use serde::Serialize;

use super::undelivered::UndeliveredLogs;
use crate::engine::TestCounts;
use crate::exit::Exit;
use crate::run::failure::Failure;
use crate::settings::PlanStatus;
use butler_base::event::Phase;
use butler_base::secret::Redactor;
use butler_plan::Counts;
use butler_result::{
    ChangeCounts, ChangeOutcome, Incomplete, PlannedChange, Problem, RunResult, TestResults,
    Timings,
};

/// What a run achieved, also when it failed after a part of it.
#[derive(Clone, Debug, Default)]
pub(in crate::run) struct Achievement {
    /// Resources that were planned, or really changed by an apply.
    pub(in crate::run) counts: Option<Counts>,
    /// How many resource instances there are after an apply.
    pub(in crate::run) resources: Option<u32>,
    /// What became of each planned change; none as long as nothing was applied, or when that is not
    /// known.
    pub(in crate::run) outcomes: Option<Outcomes>,
    /// Tests by result.
    pub(in crate::run) tests: Option<TestCounts>,
    /// One line for people.
    pub(in crate::run) summary: Option<String>,
    /// Whether a plan found changes that somebody may want to confirm.
    pub(in crate::run) awaits_confirmation: bool,
    /// Whether it found changes, or drift, and is to end with the exit code for these.
    pub(in crate::run) ends_with_changes: bool,
}

/// What became of the changes of a plan that was applied.
#[derive(Clone, Debug)]
pub(in crate::run) enum Outcomes {
    /// All of them were done.
    AllDone,
    /// Not all of them were done, or they were not done to the end.
    Incomplete {
        /// What the plan would have done.
        planned: Counts,
        /// Each of them, in the order in which the plan's changes are listed.
        changes: Vec<Option<ChangeOutcome>>,
    },
}

impl Outcomes {
    /// Says of each planned change what became of it.
    pub(in crate::run) fn mark(&self, planned: &mut [PlannedChange]) {
        match self {
            Self::AllDone => {
                for change in planned {
                    change.outcome = Some(ChangeOutcome::Done);
                }
            }
            Self::Incomplete { changes, .. } => {
                for (change, outcome) in planned.iter_mut().zip(changes) {
                    change.outcome = *outcome;
                }
            }
        }
    }

    /// What was not done.
    pub(in crate::run) fn incomplete(&self) -> Option<Incomplete> {
        match self {
            Self::AllDone => None,
            Self::Incomplete { planned, changes } => {
                Incomplete::of(change_counts(*planned), changes)
            }
        }
    }
}

/// How a run ended.
#[derive(Debug)]
pub(in crate::run) struct Outcome {
    pub(in crate::run) achievement: Achievement,
    pub(in crate::run) failure: Option<Failure>,
    /// The commit that was checked out.
    pub(in crate::run) commit: Option<String>,
    /// The tool that was used, `terraform 1.11.4` for example.
    pub(in crate::run) tool: Option<String>,
    /// The log lines that the registry did not get.
    pub(in crate::run) undelivered: Option<UndeliveredLogs>,
}

impl From<Failure> for Outcome {
    /// A run that did nothing but fail.
    fn from(failure: Failure) -> Self {
        Self {
            achievement: Achievement::default(),
            failure: Some(failure),
            commit: None,
            tool: None,
            undelivered: None,
        }
    }
}

impl Outcome {
    /// The exit code, provided that the final status was delivered.
    pub(in crate::run) fn exit(&self) -> Exit {
        match &self.failure {
            None if self.achievement.ends_with_changes => Exit::Changes,
            None => Exit::Success,
            Some(failure) => failure.cause.exit(),
        }
    }

    /// How the run ended, for everybody beside the registry. Its texts are not masked yet.
    pub(in crate::run) fn result(&self, plan_status: PlanStatus, timings: Timings) -> RunResult {
        let Achievement { counts, resources, outcomes, tests, summary, .. } = &self.achievement;
        let mut result = RunResult::of(self.status(plan_status), self.exit().code(), timings);
        result.error = self.failure.as_ref().map(Failure::problem);
        result.summary.clone_from(summary);
        result.tool.clone_from(&self.tool);
        result.source_commit.clone_from(&self.commit);
        result.counts = counts.map(change_counts);
        result.incomplete = outcomes.as_ref().and_then(Outcomes::incomplete);
        let undelivered = self.undelivered.as_ref().map(UndeliveredLogs::lines);
        result.undelivered_lines = undelivered.map_or(0, u64::from);
        result.resources_after = *resources;
        result.tests = tests.map(results);
        result
    }

    fn status(&self, plan_status: PlanStatus) -> &'static str {
        match (&self.failure, plan_status) {
            (Some(failure), _) => failure.cause.status(),
            (None, PlanStatus::Planned) if self.achievement.awaits_confirmation => "planned",
            (None, _) => "succeeded",
        }
    }

    /// The body of the final status (registry API, POST status).
    pub(in crate::run) fn report(&self, plan_status: PlanStatus) -> StatusReport {
        let counts = self.achievement.counts;
        let summary = match (&self.failure, &self.achievement.summary) {
            (None, summary) => summary.clone(),
            (Some(failure), None) => Some(failure.problem().lines().join("\n")),
            (Some(failure), Some(summary)) => {
                Some(format!("{}\n{summary}", failure.problem().lines().join("\n")))
            }
        };
        StatusReport {
            status: self.status(plan_status),
            exit_code: Some(self.exit().code()),
            resources_to_add: counts.map(|counts| counts.create),
            resources_to_change: counts.map(|counts| counts.update),
            resources_to_destroy: counts.map(|counts| counts.delete),
            resource_count_after: self.achievement.resources,
            plan_summary: summary,
            tests: self.achievement.tests.map(results),
            error: self.failure.as_ref().map(|failure| ErrorReport {
                phase: failure.phase,
                message: failure.reason.clone(),
                advice: failure.advice.clone(),
            }),
            source_commit: self.commit.clone(),
            tool: self.tool.clone(),
            undelivered_logs: self.undelivered.clone(),
        }
    }
}

/// The body of POST status. Fields that today's registry does not know are dropped there.
#[derive(Clone, Debug, Default, Serialize)]
pub(in crate::run) struct StatusReport {
    pub(in crate::run) status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resources_to_add: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resources_to_change: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resources_to_destroy: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_count_after: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::run) plan_summary: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tests: Option<TestResults>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::run) error: Option<ErrorReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source_commit: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    undelivered_logs: Option<UndeliveredLogs>,
}

impl StatusReport {
    /// The same with secrets masked in its texts: reasons quote what failed, and that may be a URL
    /// with a password in it.
    pub(in crate::run) fn masked(self, redactor: &Redactor) -> Self {
        let masked = AssertUnwindSafe(|| self.clone().mask(redactor));
        // A text that cannot be masked is left out; the status itself is never lost for it.
        std::panic::catch_unwind(masked).unwrap_or_else(|_| self.bare())
    }

    fn mask(mut self, redactor: &Redactor) -> Self {
        let mask = |text: &mut String| *text = redactor.redact(text.as_bytes()).into_owned();
        self.plan_summary.iter_mut().for_each(mask);
        if let Some(error) = &mut self.error {
            mask(&mut error.message);
            error.advice.iter_mut().for_each(mask);
        }
        if let Some(undelivered) = &mut self.undelivered_logs {
            undelivered.kept_in.iter_mut().chain(&mut undelivered.problem).for_each(mask);
        }
        self
    }

    /// The same without any text.
    fn bare(&self) -> Self {
        Self { status: self.status, exit_code: self.exit_code, ..Self::default() }
    }

    /// The same for who hears of an end that the registry did not get: what it failed or was stopped
    /// for before says more.
    pub(in crate::run) fn undelivered(&mut self, status: &'static str, problem: &Problem) {
        if self.error.is_none() {
            self.status = status;
            self.error = Some(ErrorReport {
                phase: problem.phase,
                message: problem.message.clone(),
                advice: problem.advice.clone(),
            });
        }
    }

    /// The report with which a run begins.
    pub(in crate::run) fn running() -> Self {
        Self { status: "running", ..Self::default() }
    }
}

#[derive(Clone, Debug, Serialize)]
pub(in crate::run) struct ErrorReport {
    phase: Phase,
    pub(in crate::run) message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
}

const fn change_counts(counts: Counts) -> ChangeCounts {
    ChangeCounts {
        add: counts.create,
        change: counts.update,
        destroy: counts.delete,
        replace: counts.replace,
        import: counts.import,
        moved: counts.moved,
        forget: counts.forget,
    }
}

const fn results(counts: TestCounts) -> TestResults {
    TestResults { passed: counts.passed, failed: counts.failed, skipped: counts.skipped }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(failure: Option<Failure>) -> Outcome {
        Outcome {
            achievement: Achievement::default(),
            failure,
            commit: None,
            tool: None,
            undelivered: None,
        }
    }

    #[test]
    fn run_without_a_failure_succeeds() {
        let outcome = outcome(None);
        assert_eq!(outcome.exit(), Exit::Success);
        assert_eq!(outcome.report(PlanStatus::Succeeded).status, "succeeded");
    }

    #[test]
    fn only_a_plan_with_changes_awaits_confirmation_and_only_where_asked() {
        let mut outcome = outcome(None);
        assert_eq!(outcome.report(PlanStatus::Planned).status, "succeeded");
        outcome.achievement.awaits_confirmation = true;
        assert_eq!(outcome.report(PlanStatus::Planned).status, "planned");
        assert_eq!(outcome.report(PlanStatus::Succeeded).status, "succeeded");
    }
}
