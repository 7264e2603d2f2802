//! The body of POST status: a view of the result of a run.

use serde::Serialize;

use butler_base::error::FailureClass;
use butler_base::event::Phase;
use butler_protocol::backend::{StateLock, StateVersion};
use butler_protocol::configuration::StopStatus;
use butler_result::{ChangeCounts, FinalStatus, RunResult, TestCounts, UndeliveredLogs};

/// The body of POST status. A registry ignores the fields that it does not support.
#[derive(Debug, Default, Serialize)]
pub(in crate::run) struct StatusReport<'a> {
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resources_to_add: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resources_to_change: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resources_to_destroy: Option<u32>,
    #[serde(flatten)]
    rare: RareCounts,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_count_after: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    plan_summary: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    plan_changes: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<&'a StateVersion>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    compares_code: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    tests: Option<TestCounts>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ReportedProblem<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source_commit: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    undelivered_logs: Option<&'a UndeliveredLogs>,
}

/// The counts of actions that are in few plans. A number that is 0 is omitted.
#[derive(Debug, Default, Serialize)]
struct RareCounts {
    #[serde(skip_serializing_if = "Option::is_none")]
    resources_to_replace: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resources_to_import: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resources_to_move: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resources_to_forget: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    actions_to_execute: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outputs_to_change: Option<u32>,
}

impl RareCounts {
    fn of(counts: ChangeCounts) -> Self {
        let some = |count: u32| (count > 0).then_some(count);
        Self {
            resources_to_replace: some(counts.replace),
            resources_to_import: some(counts.import),
            resources_to_move: some(counts.moved),
            resources_to_forget: some(counts.forget),
            actions_to_execute: some(counts.actions),
            outputs_to_change: some(counts.outputs),
        }
    }
}

/// A [`Problem`] that omits a missing hint; in `result.json` it is `null`.
#[derive(Debug, Serialize)]
struct ReportedProblem<'a> {
    phase: Phase,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    class: Option<FailureClass>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lock: Option<&'a StateLock>,
}

impl StatusReport<'_> {
    /// The status with which a run begins.
    pub(in crate::run) fn running() -> Self {
        Self { status: "running", ..Self::default() }
    }

    /// The body of the request.
    pub(in crate::run) fn json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a status contains only texts and numbers")
    }
}

impl<'a> StatusReport<'a> {
    /// The final status, with `stop_status` for a run that was stopped. The result must be masked.
    pub(in crate::run) fn of(result: &'a RunResult, stop_status: StopStatus) -> Self {
        let status = match (result.status, stop_status) {
            (FinalStatus::Cancelled, StopStatus::Failed) => FinalStatus::Failed,
            (status, _) => status,
        };
        let counts = result.counts;
        // Registries that do not show `error` show the reason as part of the summary.
        let error = result.error.as_ref().map(|problem| problem.lines().join("\n"));
        let summary: Vec<_> = error.into_iter().chain(result.summary.clone()).collect();
        Self {
            status: status.name(),
            exit_code: Some(result.exit_code),
            resources_to_add: counts.map(|counts| counts.add),
            resources_to_change: counts.map(|counts| counts.change),
            resources_to_destroy: counts.map(|counts| counts.destroy),
            rare: RareCounts::of(counts.unwrap_or_default()),
            resource_count_after: result.resources_after,
            plan_summary: (!summary.is_empty()).then(|| summary.join("\n")),
            plan_changes: result.plan_changes,
            state: result.state.as_ref(),
            compares_code: result.compares_code,
            tests: result.tests,
            error: result.error.as_ref().map(|problem| ReportedProblem {
                phase: problem.phase,
                message: &problem.message,
                advice: problem.advice.as_deref(),
                class: problem.class,
                lock: problem.lock.as_ref(),
            }),
            source_commit: result.source_commit.as_deref(),
            tool: result.tool.as_deref(),
            undelivered_logs: result.undelivered_logs.as_ref(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;
    use butler_result::{Problem, Timings};

    fn result(status: FinalStatus, exit_code: u8) -> RunResult {
        let timings =
            Timings { started: SystemTime::UNIX_EPOCH, total: Duration::ZERO, phases: Vec::new() };
        RunResult::of(status, exit_code, timings)
    }

    fn json(report: &StatusReport<'_>) -> String {
        String::from_utf8(report.json()).unwrap()
    }

    #[test]
    fn unknown_values_are_omitted() {
        assert_eq!(json(&StatusReport::running()), r#"{"status":"running"}"#);
        let result = result(FinalStatus::Succeeded, 0);
        let report = StatusReport::of(&result, StopStatus::Failed);
        assert_eq!(json(&report), r#"{"status":"succeeded","exit_code":0}"#);
    }

    #[test]
    fn final_status_contains_the_reason_in_summary_and_error() {
        let mut result = result(FinalStatus::Failed, 1);
        let counts = ChangeCounts { add: 1, change: 2, destroy: 3, ..ChangeCounts::default() };
        result.counts = Some(counts);
        result.resources_after = Some(4);
        result.summary = Some("Applied before it ended.".to_owned());
        result.error = Some(Problem {
            phase: Phase::Apply,
            message: "no".to_owned(),
            advice: None,
            class: Some(FailureClass::Lock),
            lock: Some(StateLock { id: Some("1-2".to_owned()), holder: None }),
        });
        result.source_commit = Some("4f2a".to_owned());
        result.tool = Some("terraform 1.11.4".to_owned());
        result.undelivered_logs =
            Some(UndeliveredLogs { lines: 1, first: 2, last: 2, kept_in: None, problem: None });
        let expected = concat!(
            r#"{"status":"failed","exit_code":1,"resources_to_add":1,"resources_to_change":2,"#,
            r#""resources_to_destroy":3,"resource_count_after":4,"#,
            r#""plan_summary":"Error: apply: no\nApplied before it ended.","#,
            r#""error":{"phase":"apply","message":"no","class":"lock","lock":{"id":"1-2"}},"source_commit":"4f2a","#,
            r#""tool":"terraform 1.11.4","undelivered_logs":{"lines":1,"first":2,"last":2}}"#
        );
        assert_eq!(json(&StatusReport::of(&result, StopStatus::Cancelled)), expected);
    }

    #[test]
    fn stop_is_cancelled_only_for_a_registry_that_knows_this_status() {
        use FinalStatus::{Cancelled, Failed, Planned, Succeeded};
        for (status, unaware, aware) in [
            (Cancelled, "failed", "cancelled"),
            (Failed, "failed", "failed"),
            (Succeeded, "succeeded", "succeeded"),
            (Planned, "planned", "planned"),
        ] {
            let result = result(status, 143);
            for (stop_status, name) in
                [(StopStatus::Failed, unaware), (StopStatus::Cancelled, aware)]
            {
                let report = StatusReport::of(&result, stop_status);
                assert_eq!((report.status, report.exit_code), (name, Some(143)));
            }
        }
    }

    #[test]
    fn final_status_has_the_rare_actions_that_occur() {
        let mut result = result(FinalStatus::Succeeded, 0);
        let counts = ChangeCounts::default();
        for (counts, field) in [
            (ChangeCounts { replace: 2, ..counts }, "replace"),
            (ChangeCounts { import: 2, ..counts }, "import"),
            (ChangeCounts { moved: 2, ..counts }, "move"),
            (ChangeCounts { forget: 2, ..counts }, "forget"),
        ] {
            result.counts = Some(counts);
            let expected = format!(
                r#"{{"status":"succeeded","exit_code":0,"resources_to_add":0,"resources_to_change":0,"resources_to_destroy":0,"resources_to_{field}":2}}"#
            );
            assert_eq!(json(&StatusReport::of(&result, StopStatus::Cancelled)), expected);
        }
        result.counts = Some(ChangeCounts { actions: 1, outputs: 2, ..counts });
        let text = json(&StatusReport::of(&result, StopStatus::Cancelled));
        assert!(text.ends_with(r#","actions_to_execute":1,"outputs_to_change":2}"#), "{text}");
    }
}
