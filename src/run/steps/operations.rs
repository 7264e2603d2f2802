//! What each operation runs, and what it leaves to be reported.

use std::path::Path;
use std::time::{Duration, SystemTime};

use super::command_input::Files;
use super::init::init;
use super::saved_plan::{self, Saving};
use super::state_place;
use super::workspace_choice;
use crate::engine::{Applied, Engine, PlanMode, Planned, Reported};
use crate::report::RunLog;
use crate::run::directory::recovery;
use crate::run::findings::Findings;
use crate::run::plan::plan_report::PlanReport;
use crate::run::plan::plan_text::PlanText;
use crate::run::reporting::outcome::{Failure, Outcomes};
use butler_base::blocking::blocking;
use butler_base::cancel::{Step, StopReason};
use butler_base::error::chain;
use butler_base::event::Phase;
use butler_plan::Counts;
use butler_protocol::spec::{ChangesExit, LocalOptions, Operation, Purpose};

/// How long reading state and outputs may take once the registry has ended the run.
const AFTER_CANCEL: Duration = Duration::from_secs(3);

/// How long reading the state after a failed apply may take.
const AFTER_FAILURE: Duration = Duration::from_mins(1);

/// Runs `init` and the operation.
pub(in crate::run) async fn operate(
    engine: &mut Engine<'_, RunLog>,
    operation: Operation,
    files: &mut Files<'_>,
    findings: &mut Findings,
) -> Result<(), Failure> {
    files.restored = saved_plan::restore(engine, files).await?;
    let files = &*files;
    let initialising = files.timeline.begin(Phase::Init);
    init(engine, files, operation == Operation::Validate).await?;
    drop(initialising);
    if let Some(kind) = state_place::initialised_backend(engine) {
        engine.killed_lock = engine.killed_lock.known(&kind);
    }
    if let Some(workspace) = &files.options.workspace
        && operation != Operation::Validate
    {
        workspace_choice::select(engine, workspace).await?;
    }
    let engine = &*engine;
    if let Some(downloads) = engine.downloads() {
        recovery::remove_fetched_states(downloads);
        state_place::check_initialised(engine, operation, files.allow_ephemeral_state)?;
    }
    let is_detailed = files.options.changes == ChangesExit::Detailed;
    match operation {
        Operation::Plan => {
            let saving = Saving::begin(engine, files).await?;
            let plan = plan(engine, plan_mode(&files.options), files, findings).await?;
            findings.achievement.counts = Some(plan.summary.counts);
            findings.achievement.summary = Some(plan.summary.line());
            let has_changes = plan.summary.has_changes();
            findings.plan = Some(plan);
            judge(files, findings).await?;
            // A plan that was rejected is not kept for a later apply.
            if let (Some(saving), Some(plan)) = (saving, &findings.plan) {
                saving.save(engine, plan).await?;
            }
            findings.achievement.awaits_confirmation = has_changes;
            findings.achievement.ends_with_changes = is_detailed && has_changes;
            Ok(())
        }
        Operation::Apply => apply(engine, PlanMode::Normal, files, findings).await,
        Operation::Destroy => apply(engine, PlanMode::Destroy, files, findings).await,
        Operation::Refresh => refresh(engine, files, findings).await,
        Operation::DriftCheck => {
            let plan = plan(engine, PlanMode::RefreshOnly, files, findings).await?;
            findings.achievement.counts = Some(Counts::default());
            findings.achievement.summary = Some(plan.summary.drift_line());
            findings.achievement.ends_with_changes = is_detailed && !plan.summary.drift.is_empty();
            findings.plan = Some(plan);
            Ok(())
        }
        Operation::Validate => validate(engine, files, findings).await,
        Operation::Test => test(engine, files, findings).await,
    }
}

/// What a plan that is not applied at once is for.
fn plan_mode(options: &LocalOptions) -> PlanMode {
    match options.purpose {
        Purpose::Bring => PlanMode::Normal,
        Purpose::Destroy => PlanMode::Destroy,
    }
}

async fn plan(
    engine: &Engine<'_, RunLog>,
    mode: PlanMode,
    files: &Files<'_>,
    findings: &mut Findings,
) -> Result<Planned, Failure> {
    let _span = files.timeline.begin(Phase::Plan);
    let options = &files.plan;
    let text = async |printed: &Path| {
        let (printed, for_registry) = (printed.to_owned(), options.limit.is_some());
        let redactor = engine.log.redactor().clone();
        let make = move || PlanText::make(printed, for_registry, &redactor);
        blocking(|_| make()).await
    };
    let failed = |error| Failure::of_engine(Phase::Plan, &error);
    let (saved, text) = match &files.restored {
        Some(plan) => engine.show_saved(plan, text).await,
        None => engine.plan(&files.request(mode), text).await,
    }
    .map_err(failed)?;
    let (summary, report) =
        PlanReport::prepare(&saved, text, options, engine.log).await.map_err(failed)?;
    findings.plan_report = Some(report);
    Ok(Planned { saved, summary })
}

/// Has the plan judged, where a program is named for that.
async fn judge(files: &Files<'_>, findings: &Findings) -> Result<(), Failure> {
    let Some(judge) = &files.judge else { return Ok(()) };
    let _span = files.timeline.begin(Phase::AfterPlan);
    judge.judge(findings, &files.plan).await
}

async fn apply(
    engine: &Engine<'_, RunLog>,
    mode: PlanMode,
    files: &Files<'_>,
    findings: &mut Findings,
) -> Result<(), Failure> {
    let plan = plan(engine, mode, files, findings).await?;
    findings.achievement.summary = Some(plan.summary.line());
    findings.plan = Some(plan);
    judge(files, findings).await?;
    let Findings { plan, achievement, .. } = findings;
    let plan = plan.as_ref().expect("the plan was put there above");
    if let Some(approver) = &files.approver {
        approver.approve(plan, mode, engine).await?;
    }
    let _span = files.timeline.begin(Phase::Apply);
    if let Err((failure, reported)) = apply_plan(engine, plan, files).await {
        if let Some(applied) = applied(engine, plan, &reported).await {
            achievement.counts = Some(applied.counts);
            achievement.resources = Some(applied.resources);
            let outcomes =
                Outcomes::Incomplete { planned: plan.summary.counts, changes: applied.outcomes };
            let incomplete = outcomes.incomplete().map(|incomplete| format!("; {incomplete}"));
            achievement.outcomes = Some(outcomes);
            achievement.summary = Some(format!(
                "Applied before it ended: {}{}. {}",
                applied.counts.done(),
                incomplete.unwrap_or_default(),
                plan.summary.line()
            ));
        }
        return Err(failure);
    }
    achievement.counts = Some(plan.summary.counts);
    achievement.resources = Some(plan.summary.resources_after);
    achievement.outcomes = Some(Outcomes::AllDone);
    achievement.summary = Some(format!("Applied: {}.", plan.summary.counts.done()));
    outputs(engine, findings).await
}

/// What an apply that did not get to its end has done; none when the state does not say so in time.
async fn applied(
    engine: &Engine<'_, RunLog>,
    plan: &Planned,
    reported: &Reported,
) -> Option<Applied> {
    let applied = tokio::time::timeout(AFTER_FAILURE, engine.applied(plan, reported));
    let applied = tokio::select! {
        applied = applied => applied.ok(),
        _ = grace_after_stop(engine) => None,
    };
    match applied {
        Some(Ok(applied)) => return Some(applied),
        Some(Err(error)) => tracing::warn!(error = %chain(&error), "what was applied is not known"),
        None => tracing::warn!("what was applied is not known: reading the state took too long"),
    }
    None
}

async fn refresh(
    engine: &Engine<'_, RunLog>,
    files: &Files<'_>,
    findings: &mut Findings,
) -> Result<(), Failure> {
    let plan = plan(engine, PlanMode::RefreshOnly, files, findings).await?;
    let plan = findings.plan.insert(plan);
    findings.achievement.counts = Some(Counts::default());
    let _span = files.timeline.begin(Phase::Apply);
    findings.achievement.summary = Some(plan.summary.drift_line());
    // Terraform refuses such a plan where all that it would store is not known yet.
    if plan.summary.applyable != Some(false) {
        apply_plan(engine, plan, files).await.map_err(|(failure, _)| failure)?;
    }
    outputs(engine, findings).await
}

/// Applies, and sees to it that the state is stored even where that failed at first. When it fails,
/// what the tool reported about resources is returned too.
async fn apply_plan(
    engine: &Engine<'_, RunLog>,
    plan: &Planned,
    files: &Files<'_>,
) -> Result<(), (Failure, Reported)> {
    let begun = SystemTime::now();
    let Err(mut unfinished) =
        engine.apply(plan, &files.variables.apply, &files.options.planning).await
    else {
        return Ok(());
    };
    if let Some(downloads) = engine.downloads() {
        recovery::collect_errored_state(downloads, engine.directory);
    }
    let said = if files.in_place {
        engine.release(&mut unfinished).await;
        recovery::describe_errored_state(engine, &unfinished, begun)
    } else {
        recovery::push_state(engine, &mut unfinished).await
    };
    let mut failure = Failure::of_engine(Phase::Apply, &unfinished.error);
    if let Some(said) = said {
        failure.reason = format!("{}; {said}", failure.reason);
    }
    Err((failure, unfinished.reported))
}

async fn outputs(engine: &Engine<'_, RunLog>, findings: &mut Findings) -> Result<(), Failure> {
    // The apply is done and counts, so a stop that came in its last moment does not matter; only
    // whoever sent it does not wait for long.
    let outputs = tokio::select! {
        outputs = engine.outputs() => outputs.map_err(|error| Failure::of_engine(Phase::Apply, &error))?,
        reason = grace_after_stop(engine) => return Err(Failure::stopped(Phase::Apply, &reason)),
    };
    findings.outputs = Some(outputs);
    Ok(())
}

/// Completes when the time for reading state and outputs after a stop is over.
async fn grace_after_stop(engine: &Engine<'_, RunLog>) -> StopReason {
    let late = engine.stop.overdue(Step::State);
    let reason = engine.stop.requested().await;
    tokio::select! {
        () = late => {}
        () = tokio::time::sleep(AFTER_CANCEL), if engine.stop.run_is_over() => {}
    }
    reason
}

async fn validate(
    engine: &Engine<'_, RunLog>,
    files: &Files<'_>,
    findings: &mut Findings,
) -> Result<(), Failure> {
    let _span = files.timeline.begin(Phase::Validate);
    let validated =
        engine.validate().await.map_err(|error| Failure::of_engine(Phase::Validate, &error))?;
    if !validated.valid {
        return Err(Failure::because(Phase::Validate, validated.summary));
    }
    findings.achievement.summary = Some(validated.summary);
    Ok(())
}

async fn test(
    engine: &Engine<'_, RunLog>,
    files: &Files<'_>,
    findings: &mut Findings,
) -> Result<(), Failure> {
    let _span = files.timeline.begin(Phase::Test);
    let tested = engine
        .test(&files.variables.plan)
        .await
        .map_err(|error| Failure::of_engine(Phase::Test, &error))?;
    if tested.is_broken && tested.junit.is_some() {
        engine.log.warn("cannot parse the JUnit file: not valid XML; test counts are unknown");
    }
    findings.achievement.tests = tested.counts;
    findings.junit = tested.junit;
    let summary =
        tested.counts.map_or_else(|| "no test results".to_owned(), |counts| counts.to_string());
    if !tested.passed {
        return Err(Failure::because(Phase::Test, format!("tests failed: {summary}")));
    }
    findings.achievement.summary = Some(format!("Tests: {summary}."));
    Ok(())
}
