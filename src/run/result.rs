//! Builds the result of a run: the one account of how it ended. The final status and all documents are
//! views of it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use secrecy::ExposeSecret;

use super::context::run_id;
use super::failure::Failure;
use super::findings::{ApplyOutcome, Findings};
use super::reporting::outputs;
use crate::engine::Planned;
use crate::exit::Exit;
use crate::settings::{PlanStatus, Settings};
use butler_base::secret::Redactor;
use butler_protocol::spec::{ArchiveSource, GitSource, RunSpec, Source};
use butler_result::{FinalStatus, RunResult, Timings};
use butler_source::git::shown_repository;

/// Builds the result of a run that ended with `findings` and perhaps a `failure`. Only the outputs
/// and changes are masked; see [`RunResult::mask`]. The exit code is right if the final status is
/// delivered.
pub(super) fn build_result(
    settings: &Settings,
    spec: Option<&RunSpec>,
    findings: Findings,
    failure: Option<&Failure>,
    redactor: &Redactor,
    timings: Timings,
) -> (RunResult, Exit) {
    let exit = exit(failure, &findings);
    let status = status(failure, &findings, settings.plan_status);
    let mut result = RunResult::of(status, exit.code(), timings);
    result.run_id = run_id(settings);
    if let Some(spec) = spec {
        describe_module(spec, &mut result);
    }
    result.error = failure.map(Failure::problem);
    let looks_for_drift = spec.is_some_and(|spec| spec.operation.looks_for_drift());
    let of_plan = findings.plan.as_ref().map(|Planned { summary, .. }| {
        summary.has_changes() || looks_for_drift && !summary.drift.is_empty()
    });
    result.plan_changes = findings.plan_changes.or(of_plan);
    result.state = findings.state;
    result.compares_code = findings.compares_code;
    result.counts = findings.counts;
    result.incomplete = findings.apply_outcome.as_ref().and_then(ApplyOutcome::incomplete);
    if let Some(Ok(mut plan)) = findings.plan_report {
        if let Some(outcome) = &findings.apply_outcome {
            outcome.mark(&mut plan.changes);
        }
        result.set_changes(plan.changes);
    }
    result.resources_after = findings.resources_after;
    result.tests = findings.tests;
    if let Some(json) = &findings.outputs {
        // A bug in the redactor costs the outputs in the documents, and not the final status.
        let shown = catch_unwind(AssertUnwindSafe(|| outputs::shown(json, redactor)));
        result.outputs = shown.unwrap_or_default();
    }
    result.summary = findings.summary;
    result.tool = findings.tool;
    result.source_commit = findings.commit;
    (result, exit)
}

const fn exit(failure: Option<&Failure>, findings: &Findings) -> Exit {
    match failure {
        Some(failure) => failure.cause.exit(),
        None if findings.ends_with_changes => Exit::Changes,
        None => Exit::Success,
    }
}

const fn status(
    failure: Option<&Failure>,
    findings: &Findings,
    plan_status: PlanStatus,
) -> FinalStatus {
    match (failure, plan_status) {
        (Some(failure), _) => failure.cause.status(),
        (None, PlanStatus::Planned) if findings.awaits_confirmation => FinalStatus::Planned,
        (None, PlanStatus::Planned | PlanStatus::Succeeded) => FinalStatus::Succeeded,
    }
}

fn describe_module(spec: &RunSpec, result: &mut RunResult) {
    result.operation = Some(spec.operation);
    match &spec.source {
        Source::Git(GitSource { working_directory, .. })
        | Source::Archive(ArchiveSource { working_directory, .. }) => {
            let repository = spec.source.repository();
            result.source_repository =
                repository.and_then(|git| shown_repository(git.repository.expose_secret()));
            result.source_directory = Some(working_directory.trim_matches('/').to_owned());
        }
        Source::Directory(directory) => {
            result.source_directory = Some(directory.display().to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use butler_base::event::Phase;

    #[test]
    fn only_a_plan_with_changes_awaits_confirmation_and_only_if_requested() {
        let mut findings = Findings::default();
        assert_eq!(status(None, &findings, PlanStatus::Planned), FinalStatus::Succeeded);
        findings.awaits_confirmation = true;
        assert_eq!(status(None, &findings, PlanStatus::Planned), FinalStatus::Planned);
        assert_eq!(status(None, &findings, PlanStatus::Succeeded), FinalStatus::Succeeded);
        let failure = Failure::because(Phase::Plan, "no");
        assert_eq!(status(Some(&failure), &findings, PlanStatus::Planned), FinalStatus::Failed);
    }

    #[test]
    fn failure_counts_more_than_changes_for_the_exit_code() {
        let mut findings = Findings::default();
        assert_eq!(exit(None, &findings), Exit::Success);
        findings.ends_with_changes = true;
        assert_eq!(exit(None, &findings), Exit::Changes);
        let failure = Failure::because(Phase::Plan, "no");
        assert_eq!(exit(Some(&failure), &findings), Exit::Failed);
    }
}
