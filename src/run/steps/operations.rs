//! The commands of each operation, in their order, and the results that it stores for the reports.

use super::applying::{apply, refresh};
use super::command_input::CommandInput;
use super::init::init;
use super::planning::{make_plan, run_after_plan};
use super::saved_plan::{self, PendingPlanFile};
use super::state_location;
use super::state_lock;
use super::state_secrets::register_state_secrets;
use super::state_version;
use super::workspace_choice::select_workspace;
use crate::engine::{Engine, PlanMode, Planned};
use crate::report::RunLog;
use crate::run::directory::recovery;
use crate::run::failure::Failure;
use crate::run::findings::Findings;
use butler_base::error::FailureClass;
use butler_base::event::Phase;
use butler_protocol::backend::{DriftComparison, StateReport};
use butler_protocol::spec::{ChangesExit, Operation, PlanFile, PlanPurpose};
use butler_result::ChangeCounts;

/// Runs `init` and the commands of the operation. Results are stored in `findings`, also those of an
/// operation that fails.
pub(in crate::run) async fn run_operation(
    engine: &mut Engine<'_, RunLog>,
    operation: Operation,
    mut input: CommandInput<'_>,
    findings: &mut Findings,
) -> Result<(), Failure> {
    // Before `init`, which reads the lock file and the other files that were saved with the plan.
    input.restored = saved_plan::restore(engine, &input, operation).await?;
    let input = &input;
    let pending = match operation {
        Operation::Plan => PendingPlanFile::prepare(engine, input).await?,
        _ => None,
    };

    let initialising = input.timeline.begin(Phase::Init);
    let _plugin_cache = init(engine, input, !operation.uses_backend()).await?;
    drop(initialising);

    // Only `init` shows which backend Terragrunt has generated, and the lock's fate depends on it.
    if let Some(kind) = state_location::initialised_backend(engine) {
        engine.killed_lock = engine.killed_lock.with_known_backend(&kind);
    }
    // Workspaces are stored in the backend.
    if let Some(workspace) = &input.options.workspace
        && operation.uses_backend()
    {
        select_workspace(engine, workspace).await?;
    }

    // The last check before a command can change the state: it must not be in Terragrunt's copy.
    let engine = &*engine;
    if let Some(downloads) = engine.downloads() {
        recovery::remove_fetched_states(downloads);
        state_location::check_initialised(engine, operation, input.allow_ephemeral_state)?;
    }

    if let Some(id) = &input.options.force_unlock {
        state_lock::remove(engine, id).await?;
    }

    if operation.plans() {
        register_state_secrets(engine, input).await;
    }

    let result = match operation {
        Operation::Plan => plan_only(engine, input, pending, findings).await,
        Operation::Apply => Box::pin(apply(engine, PlanMode::Normal, input, findings)).await,
        Operation::Destroy => Box::pin(apply(engine, PlanMode::Destroy, input, findings)).await,
        Operation::Refresh => refresh(engine, input, findings).await,
        Operation::DriftCheck => check_drift(engine, input, findings).await,
        Operation::Validate => validate(engine, input, findings).await,
        Operation::Test => test(engine, input, findings).await,
    };
    // A plan that was applied or saved is not recorded any more.
    input.remote.discard(engine).await;
    result
}

/// Plans without an apply, and saves the plan in the `pending` file.
async fn plan_only(
    engine: &Engine<'_, RunLog>,
    input: &CommandInput<'_>,
    pending: Option<PendingPlanFile>,
    findings: &mut Findings,
) -> Result<(), Failure> {
    let mode = match input.options.purpose {
        PlanPurpose::Apply => PlanMode::Normal,
        PlanPurpose::Destroy => PlanMode::Destroy,
        PlanPurpose::Accept => PlanMode::RefreshOnly,
    };
    let plan = make_plan(engine, mode, input, findings).await?;
    findings.state = state_version::planned_on(&input.options.state_report, &plan);
    let summary = &plan.summary;
    let (counts, line, has_changes) = if mode == PlanMode::RefreshOnly {
        let has_changes = summary.has_changes() || !summary.drift.is_empty();
        (summary.drift_counts, summary.drift_line(engine.tool.product.title()), has_changes)
    } else {
        (summary.counts, summary.line(), summary.has_changes())
    };
    (findings.counts, findings.summary) = (Some(counts), Some(line));
    findings.plan_changes = Some(has_changes);
    findings.plan = Some(plan);
    // Before the plan is saved: a rejected plan must not be applied later.
    run_after_plan(input, findings).await?;
    // A registry never applies a plan without changes. A user can want to, and so can one who destroys.
    let is_sent = matches!(input.options.plan_file, PlanFile::Send { .. });
    let is_needed = has_changes || mode == PlanMode::Destroy || !is_sent;
    if let (Some(pending), Some(plan)) = (pending.filter(|_| is_needed), &findings.plan) {
        pending.save(engine, input, plan).await?;
        engine.remote_runs.take();
    }
    findings.awaits_confirmation = has_changes;
    findings.ends_with_changes = is_detailed(input) && has_changes;
    Ok(())
}

/// Plans with `-refresh-only` and reports changes that were made outside of Terraform. The check is a normal plan
/// instead if the registry requests a comparison with the code, or if another program has written the state since the
/// last run that the registry knows: state and infrastructure can then be equal and differ from the code.
async fn check_drift(
    engine: &Engine<'_, RunLog>,
    input: &CommandInput<'_>,
    findings: &mut Findings,
) -> Result<(), Failure> {
    let report = &input.options.state_report;
    if matches!(report, StateReport::Send { compare: DriftComparison::Code, .. }) {
        return compare_code(engine, input, findings).await;
    }
    let plan = make_plan(engine, PlanMode::RefreshOnly, input, findings).await?;
    findings.state = state_version::planned_on(report, &plan);
    if let Some(sentence) = state_version::foreign(report, findings.state.as_ref()) {
        engine.log.announce(&sentence);
        plan.files.remove();
        input.remote.discard(engine).await;
        return compare_code(engine, input, findings).await;
    }
    findings.counts = Some(ChangeCounts::default());
    findings.summary = Some(plan.summary.drift_line(engine.tool.product.title()));
    end_check(input, !plan.summary.drift.is_empty(), plan, findings);
    Ok(())
}

/// Checks for drift with a normal plan.
async fn compare_code(
    engine: &Engine<'_, RunLog>,
    input: &CommandInput<'_>,
    findings: &mut Findings,
) -> Result<(), Failure> {
    let plan = make_plan(engine, PlanMode::Normal, input, findings).await?;
    findings.state = state_version::planned_on(&input.options.state_report, &plan);
    findings.compares_code = true;
    findings.counts = Some(plan.summary.counts);
    findings.summary = Some(plan.summary.line());
    end_check(input, plan.summary.has_changes(), plan, findings);
    Ok(())
}

/// Records the plan of a check, and whether it has found drift.
fn end_check(input: &CommandInput<'_>, has_drift: bool, plan: Planned, findings: &mut Findings) {
    findings.plan_changes = Some(has_drift);
    findings.ends_with_changes = is_detailed(input) && has_drift;
    findings.plan = Some(plan);
}

/// Whether changes have an exit code of their own (`--detailed-exitcode`).
fn is_detailed(input: &CommandInput<'_>) -> bool {
    input.options.changes == ChangesExit::Detailed
}

async fn validate(
    engine: &Engine<'_, RunLog>,
    input: &CommandInput<'_>,
    findings: &mut Findings,
) -> Result<(), Failure> {
    let _span = input.timeline.begin(Phase::Validate);
    let validated =
        engine.validate().await.map_err(|error| Failure::of_engine(Phase::Validate, &error))?;
    if !validated.valid {
        return Err(
            Failure::because(Phase::Validate, validated.summary).classed(FailureClass::Syntax)
        );
    }
    findings.summary = Some(validated.summary);
    Ok(())
}

async fn test(
    engine: &Engine<'_, RunLog>,
    input: &CommandInput<'_>,
    findings: &mut Findings,
) -> Result<(), Failure> {
    let _span = input.timeline.begin(Phase::Test);
    let tested = engine
        .test(&input.variables.plan)
        .await
        .map_err(|error| Failure::of_engine(Phase::Test, &error))?;
    if tested.is_broken && tested.junit.is_some() {
        engine.log.warn("cannot parse the JUnit file: not valid XML; test counts are unknown");
    }
    findings.tests = tested.counts;
    findings.junit = tested.junit;
    let summary =
        tested.counts.map_or_else(|| "no test results".to_owned(), |counts| counts.to_string());
    if !tested.left.is_empty() {
        let left = format!(
            "the clean-up of the tests left resources that must be removed manually: {}",
            tested.left.join(", ")
        );
        findings.summary = Some(format!("Tests: {summary}; {left}."));
        let all_passed = tested.counts.is_some_and(|counts| counts.failed == 0);
        let reason = if all_passed { left } else { format!("tests failed: {summary}; {left}") };
        return Err(Failure::because(Phase::Test, reason)
            .advise("look for these resources by their names: they are not in a state")
            .classed(FailureClass::Module));
    }
    if !tested.passed {
        return Err(Failure::because(Phase::Test, format!("tests failed: {summary}")));
    }
    findings.summary = Some(format!("Tests: {summary}."));
    Ok(())
}
