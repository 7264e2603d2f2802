//! Applies a plan, and finds out what an incomplete apply has done.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::command_input::CommandInput;
use super::fixed_variables::check_fixed_variables;
use super::grace::{grace_after_stop, within};
use super::handover::Handover;
use super::planning::{make_plan, run_after_plan};
use super::saved_plan;
use super::state_version::left_by_apply;
use super::unfinished_apply::UnfinishedApply;
use crate::engine::{AppliedChanges, Engine, PlanMode, Planned, StatesAfter};
use crate::report::RunLog;
use crate::run::directory::recovery::{self, LeftState, StateFiles};
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
    if let Err(unfinished) = apply_plan(engine, plan, input).await {
        if unfinished.goes_on {
            return Err(unfinished.into_failure(None));
        }
        findings.state = left_by_apply(engine, &input.options.state_report).await;
        let applied = applied_changes(engine, plan, &unfinished).await;
        let failure = unfinished.into_failure(applied.as_ref());
        // The states show which changes were made before the failure.
        if let Some(applied) = applied {
            record(applied, plan.summary.counts, &plan.summary.line(), findings);
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
    let (resources, remain) = match count {
        0 => return,
        1 => ("1 resource is".to_owned(), "it still exists"),
        _ => (format!("{count} resources are"), "they still exist"),
    };
    engine.log.warn(&format!(
        "{resources} removed from the state and not destroyed, as the module says: {remain}"
    ));
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
        apply_plan(engine, plan, input)
            .await
            .map_err(|unfinished| unfinished.into_failure(None))?;
    }
    read_outputs(engine, findings).await
}

/// Records the changes of an apply that ended early. `plan` is the line about the plan.
fn record(applied: AppliedChanges, planned: ChangeCounts, plan: &str, findings: &mut Findings) {
    findings.counts = applied.counts;
    findings.resources_after = applied.resources;
    let outcome = ApplyOutcome::Incomplete { planned, changes: applied.outcomes };
    let incomplete = outcome.incomplete().map(|incomplete| incomplete.to_string());
    findings.apply_outcome = Some(outcome);
    let done = match applied.counts {
        Some(counts) => format!("Applied before it ended: {}", counts.done()),
        None => "The state cannot be read, so it is not known what was applied".to_owned(),
    };
    let parts: Vec<_> = [Some(done), incomplete].into_iter().flatten().collect();
    findings.summary = Some(format!("{}. {plan}", parts.join("; ")));
}

/// The changes that an incomplete apply has made; none if the plan or a state cannot be parsed.
async fn applied_changes(
    engine: &Engine<'_, RunLog>,
    plan: &Planned,
    unfinished: &UnfinishedApply,
) -> Option<AppliedChanges> {
    let states = StatesAfter {
        stored: read_state(engine, None).await,
        unsaved: match &unfinished.state {
            Some(file) => read_state(engine, Some(file)).await,
            None => None,
        },
    };
    engine
        .applied_changes(plan, states, &unfinished.reported)
        .inspect_err(|error| {
            tracing::warn!(error = %chain(error), "cannot read which changes were applied");
        })
        .ok()
}

/// The JSON of the state in `file`, or of the backend; none if it cannot be read in time.
async fn read_state(engine: &Engine<'_, RunLog>, file: Option<&Path>) -> Option<BufReader<File>> {
    let reason = match within(engine, READING_AFTER_FAILURE, engine.show_state(file)).await {
        Some(Ok(state)) => return Some(state),
        Some(Err(error)) => chain(&error),
        None => "it took too long".to_owned(),
    };
    tracing::warn!(%reason, "cannot read the state after the apply");
    None
}

/// Applies a plan. If the tool could not store the state, stores it now or finds out where it is.
///
/// # Errors
/// If the apply fails or is stopped.
async fn apply_plan(
    engine: &Engine<'_, RunLog>,
    plan: &Planned,
    input: &CommandInput<'_>,
) -> Result<(), Box<UnfinishedApply>> {
    // A server refuses to apply a plan without changes.
    let is_empty = !plan.summary.has_changes() && plan.summary.drift.is_empty();
    if is_empty && engine.remote_runs.take().is_some() {
        return Ok(());
    }
    let begun = SystemTime::now();
    let Err(mut unfinished) =
        engine.apply(plan, &input.variables.apply, &input.options.planning).await
    else {
        // The command succeeds only after its run on a server has ended.
        engine.remote_runs.take();
        return Ok(());
    };
    if let Some(downloads) = engine.downloads() {
        recovery::collect_errored_state(downloads, engine.directory);
    }
    let files = StateFiles {
        secrets: input.secrets,
        recovery: &input.recovery,
        user: input.handover.as_ref().map(Handover::user),
    };
    let on_server = input.remote.wait_for_apply(engine).await;
    let goes_on = on_server.is_some();
    let (state, note) = if goes_on {
        (None, on_server)
    } else if input.in_place {
        engine.release_lock(&mut unfinished).await;
        match recovery::find_left_state(engine, &files, &unfinished, begun) {
            Some(LeftState { file, note }) => (file, Some(note)),
            None => (None, None),
        }
    } else {
        let note = recovery::push_state(engine, &files, &mut unfinished).await;
        (recovery::unsaved_state(engine), note)
    };
    let failure = Failure::of_engine(Phase::Apply, &unfinished.error);
    let reported = unfinished.reported;
    Err(Box::new(UnfinishedApply { failure, reported, state, note, goes_on }))
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
