//! Applies a plan, and finds out what an incomplete apply has done.

use std::time::{Duration, SystemTime};

use super::command_input::CommandInput;
use super::fixed_variables::check_fixed_variables;
use super::grace::{grace_after_stop, within};
use super::planning::{make_plan, run_after_plan};
use super::remote_runs::RemoteEnd;
use super::saved_plan;
use super::state_version::left_by_apply;
use crate::engine::{AppliedChanges, Engine, PlanMode, Planned, ReportedResources};
use crate::report::RunLog;
use crate::run::directory::recovery;
use crate::run::failure::Failure;
use crate::run::findings::{ApplyOutcome, Findings};

use butler_base::blocking::blocking;
use butler_base::error::chain;
use butler_base::event::Phase;
use butler_result::ChangeCounts;

/// How long the state may be read after a failed apply.
const READING_AFTER_FAILURE: Duration = Duration::from_mins(1);

/// Plans, waits for the approval, applies, and reads the outputs.
pub(in crate::run) async fn apply(
    engine: &Engine<'_, RunLog>,
    mode: PlanMode,
    input: &CommandInput<'_>,
    findings: &mut Findings,
) -> Result<(), Failure> {
    let plan = make_plan(engine, mode, input, findings).await?;
    check_variables(&plan, input).await?;
    findings.summary = Some(plan.summary.line());
    findings.plan = Some(plan);
    // Before the question: the user must not approve a plan that is rejected afterwards.
    run_after_plan(input, findings).await?;
    let plan = findings.plan.as_ref().expect("the plan was put there above");
    if let Some(approver) = &input.approver {
        approver.approve(plan, mode, engine).await?;
    }
    // The last moment: afterwards, infrastructure changes.
    saved_plan::confirm(engine, input).await?;
    let _span = input.timeline.begin(Phase::Apply);
    if let Err((failure, reported)) = apply_plan(engine, plan, input).await {
        let Some(reported) = reported else { return Err(failure) };
        findings.state = left_by_apply(engine, &input.options.state_report).await;
        // The state shows which changes were made before the failure.
        if let Some(applied) = applied_changes(engine, plan, &reported).await {
            findings.counts = Some(applied.counts);
            findings.resources_after = Some(applied.resources);
            let outcome = ApplyOutcome::Incomplete {
                planned: plan.summary.counts,
                changes: applied.outcomes,
            };
            let incomplete = outcome.incomplete().map(|incomplete| format!("; {incomplete}"));
            findings.apply_outcome = Some(outcome);
            findings.summary = Some(format!(
                "Applied before it ended: {}{}. {}",
                applied.counts.done(),
                incomplete.unwrap_or_default(),
                plan.summary.line()
            ));
        }
        return Err(failure);
    }
    if mode == PlanMode::Destroy {
        warn_of_forgotten(engine, plan.summary.counts.forget);
    }
    findings.counts = Some(plan.summary.counts);
    findings.resources_after = Some(plan.summary.resources_after);
    findings.apply_outcome = Some(ApplyOutcome::Complete);
    findings.summary = Some(format!("Applied: {}.", plan.summary.counts.done()));
    // After the apply has succeeded for the report: a failure here does not undo it.
    let (version, read) = tokio::join!(
        left_by_apply(engine, &input.options.state_report),
        read_outputs(engine, findings)
    );
    findings.state = version;
    read
}

/// Warns of resources that a destroy has only removed from the state.
fn warn_of_forgotten(engine: &Engine<'_, RunLog>, count: u32) {
    if count > 0 {
        let resources =
            if count == 1 { "1 resource is" } else { &format!("{count} resources are") };
        engine.log.warn(&format!(
            "{resources} removed from the state and not destroyed, as the module says: what they stand for still exists"
        ));
    }
}

/// Refuses values of variables that differ from those of a saved plan.
async fn check_variables(plan: &Planned, input: &CommandInput<'_>) -> Result<(), Failure> {
    if input.variables.fixed.is_empty() {
        return Ok(());
    }
    let (given, json) = (input.variables.fixed.clone(), plan.files.json.clone());
    let secret = input.plan.sensitive.clone();
    blocking(move |_| check_fixed_variables(&given, &json, |name| secret.contains(name))).await
}

/// Applies a refresh-only plan: stores changes that were made outside of Terraform in the state.
pub(in crate::run) async fn refresh(
    engine: &Engine<'_, RunLog>,
    input: &CommandInput<'_>,
    findings: &mut Findings,
) -> Result<(), Failure> {
    let plan = make_plan(engine, PlanMode::RefreshOnly, input, findings).await?;
    let plan = findings.plan.insert(plan);
    findings.counts = Some(ChangeCounts::default());
    let _span = input.timeline.begin(Phase::Apply);
    findings.summary = Some(plan.summary.drift_line(engine.tool.product.title()));
    // Terraform refuses a refresh-only plan whose new values are all still unknown.
    if plan.summary.applyable != Some(false) {
        apply_plan(engine, plan, input).await.map_err(|(failure, _)| failure)?;
    }
    read_outputs(engine, findings).await
}

/// The changes that an incomplete apply has made; none if the state cannot be read in time.
async fn applied_changes(
    engine: &Engine<'_, RunLog>,
    plan: &Planned,
    reported: &ReportedResources,
) -> Option<AppliedChanges> {
    let read = engine.read_applied_changes(plan, reported);
    match within(engine, READING_AFTER_FAILURE, read).await {
        Some(Ok(applied)) => return Some(applied),
        Some(Err(error)) => {
            tracing::warn!(error = %chain(&error), "cannot read which changes were applied");
        }
        None => tracing::warn!(
            "cannot read which changes were applied: reading the state took too long"
        ),
    }
    None
}

/// Applies a plan. If the tool could not store the state, stores it now or reports where it is.
///
/// # Errors
/// If the apply fails or is stopped. Also returns what the tool printed about resources, unless a server makes the apply and
/// may go on with it.
async fn apply_plan(
    engine: &Engine<'_, RunLog>,
    plan: &Planned,
    input: &CommandInput<'_>,
) -> Result<(), (Failure, Option<ReportedResources>)> {
    // A server refuses to apply a plan without changes.
    let is_empty = !plan.summary.has_changes() && plan.summary.drift.is_empty();
    if is_empty && engine.remote_runs.take().is_some() {
        return Ok(());
    }
    let begun = SystemTime::now();
    let Err(mut unfinished) =
        engine.apply(plan, &input.variables.apply, &input.options.planning).await
    else {
        // A run on a server has ended with the command.
        engine.remote_runs.take();
        return Ok(());
    };
    if let Some(downloads) = engine.downloads() {
        recovery::collect_errored_state(downloads, engine.directory);
    }
    let state_note = if input.in_place {
        engine.release_lock(&mut unfinished).await;
        recovery::describe_errored_state(engine, &unfinished, begun)
    } else {
        recovery::push_state(engine, &mut unfinished).await
    };
    let mut failure = Failure::of_engine(Phase::Apply, &unfinished.error);
    if let Some(note) = state_note {
        failure.reason = format!("{}; {note}", failure.reason);
    }
    if let Some(RemoteEnd::Open(note)) = input.remote.end_of_apply(engine).await {
        failure.reason = format!("{}; {note}", failure.reason);
        return Err((failure, None));
    }
    Err((failure, Some(unfinished.reported)))
}

/// Reads the outputs of the module.
async fn read_outputs(engine: &Engine<'_, RunLog>, findings: &mut Findings) -> Result<(), Failure> {
    // A stop in the last moment of the apply does not change its result, but shortens the time for this.
    let outputs = tokio::select! {
        outputs = engine.read_outputs() => outputs.map_err(|error| Failure::of_engine(Phase::Apply, &error))?,
        reason = grace_after_stop(engine) => return Err(Failure::stopped(Phase::Apply, &reason)),
    };
    findings.outputs = Some(outputs);
    Ok(())
}
