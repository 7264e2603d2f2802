//! What each operation runs, and what it leaves to be reported.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::init::{Providers, init};
use super::outcome::Failure;
use super::phases::Findings;
use super::plan_report::{PlanOptions, PlanReport};
use super::plan_text::PlanText;
use super::{recovery, state_place};
use crate::blocking::blocking;
use crate::cancel::{Step, StopReason};
use crate::engine::{Counts, Engine, EngineError, PlanMode, Planned};
use crate::error::{Advice, chain};
use crate::event::Phase;
use crate::report::RunLog;
use crate::secret::on_clean_stack;
use crate::spec::Operation;
use crate::timeline::Timeline;
use crate::workspace::VariableFiles;

/// How long reading state and outputs may take once the registry has ended the run.
const AFTER_CANCEL: Duration = Duration::from_secs(3);

/// How long reading the state after a failed apply may take.
const AFTER_FAILURE: Duration = Duration::from_mins(1);

/// The files that commands are given, and how the plan that they make is reported.
pub(super) struct Files {
    pub(super) variables: VariableFiles,
    pub(super) backend: Option<PathBuf>,
    /// Whether the module's directory is the user's own.
    pub(super) in_place: bool,
    pub(super) plan: PlanOptions,
    /// Whether a state may be lost at the end.
    pub(super) allow_ephemeral_state: bool,
    pub(super) providers: Providers,
    /// Where each command is noted.
    pub(super) timeline: Timeline,
}

/// Runs `init` and the operation.
pub(super) async fn operate(
    engine: &mut Engine<'_, RunLog>,
    operation: Operation,
    files: &Files,
    findings: &mut Findings,
) -> Result<(), Failure> {
    let initialising = files.timeline.begin(Phase::Init);
    init(engine, files, operation == Operation::Validate).await?;
    drop(initialising);
    if let Some(kind) = state_place::initialised_backend(engine) {
        engine.killed_lock = engine.killed_lock.known(&kind);
    }
    let engine = &*engine;
    if let Some(downloads) = engine.downloads() {
        recovery::forget_brought_states(downloads);
        state_place::check_initialised(engine, operation, files.allow_ephemeral_state)?;
    }
    match operation {
        Operation::Plan => {
            let plan = plan(engine, PlanMode::Normal, files, findings).await?;
            findings.achievement.counts = Some(plan.summary.counts);
            findings.achievement.summary = Some(plan.summary.line());
            findings.achievement.awaits_confirmation = plan.summary.has_changes();
            findings.plan = Some(plan);
            Ok(())
        }
        Operation::Apply => apply(engine, PlanMode::Normal, files, findings).await,
        Operation::Destroy => apply(engine, PlanMode::Destroy, files, findings).await,
        Operation::Refresh => refresh(engine, files, findings).await,
        Operation::DriftCheck => {
            let plan = plan(engine, PlanMode::RefreshOnly, files, findings).await?;
            findings.achievement.counts = Some(Counts::default());
            findings.achievement.summary = Some(plan.summary.drift_line());
            findings.plan = Some(plan);
            Ok(())
        }
        Operation::Validate => validate(engine, files, findings).await,
        Operation::Test => test(engine, files, findings).await,
    }
}

async fn plan(
    engine: &Engine<'_, RunLog>,
    mode: PlanMode,
    files: &Files,
    findings: &mut Findings,
) -> Result<Planned, Failure> {
    let _span = files.timeline.begin(Phase::Plan);
    let options = &files.plan;
    let text = async |printed: &Path| {
        let (printed, for_registry) = (printed.to_owned(), options.limit.is_some());
        let redactor = engine.log.redactor().clone();
        let make = move || PlanText::make(printed, for_registry, &redactor);
        blocking(|_| on_clean_stack(make)).await
    };
    let failed = |error| engine_failure(Phase::Plan, &error);
    let (saved, text) = engine.plan(mode, &files.variables.plan, text).await.map_err(failed)?;
    let (summary, report) =
        PlanReport::prepare(&saved, text, options, engine.log).await.map_err(failed)?;
    findings.plan_report = Some(report);
    Ok(Planned { saved, summary })
}

async fn apply(
    engine: &Engine<'_, RunLog>,
    mode: PlanMode,
    files: &Files,
    findings: &mut Findings,
) -> Result<(), Failure> {
    let plan = plan(engine, mode, files, findings).await?;
    let plan = findings.plan.insert(plan);
    let _span = files.timeline.begin(Phase::Apply);
    findings.achievement.summary = Some(plan.summary.line());
    if let Err(failure) = apply_plan(engine, plan, files).await {
        let applied = tokio::time::timeout(AFTER_FAILURE, engine.applied(plan));
        let applied = tokio::select! {
            applied = applied => applied.ok(),
            _ = impatient(engine) => None,
        };
        match applied {
            Some(Ok(applied)) => {
                findings.achievement.counts = Some(applied.counts);
                findings.achievement.resources = Some(applied.resources);
                findings.achievement.summary = Some(format!(
                    "Applied before it ended: {}. {}",
                    applied.counts,
                    plan.summary.line()
                ));
            }
            Some(Err(error)) => {
                tracing::warn!(error = %chain(&error), "what was applied is not known");
            }
            None => {
                tracing::warn!("what was applied is not known: reading the state took too long");
            }
        }
        return Err(failure);
    }
    findings.achievement.counts = Some(plan.summary.counts);
    findings.achievement.resources = Some(plan.summary.resources_after);
    findings.achievement.summary = Some(format!("Applied: {}.", plan.summary.counts));
    outputs(engine, findings).await
}

async fn refresh(
    engine: &Engine<'_, RunLog>,
    files: &Files,
    findings: &mut Findings,
) -> Result<(), Failure> {
    let plan = plan(engine, PlanMode::RefreshOnly, files, findings).await?;
    let plan = findings.plan.insert(plan);
    findings.achievement.counts = Some(Counts::default());
    let _span = files.timeline.begin(Phase::Apply);
    findings.achievement.summary = Some(plan.summary.drift_line());
    // Terraform refuses such a plan where all that it would store is not known yet.
    if plan.summary.applyable != Some(false) {
        apply_plan(engine, plan, files).await?;
    }
    outputs(engine, findings).await
}

/// Applies, and sees to it that the state is stored even where that failed at first.
async fn apply_plan(
    engine: &Engine<'_, RunLog>,
    plan: &Planned,
    files: &Files,
) -> Result<(), Failure> {
    let begun = SystemTime::now();
    let Err(mut unfinished) = engine.apply(plan, &files.variables.apply).await else {
        return Ok(());
    };
    if let Some(downloads) = engine.downloads() {
        recovery::bring_state_home(downloads, engine.directory);
    }
    let said = if files.in_place {
        engine.release(&mut unfinished).await;
        recovery::point_to_state(engine, &unfinished, begun)
    } else {
        recovery::push_state(engine, &mut unfinished).await
    };
    let mut failure = engine_failure(Phase::Apply, &unfinished.error);
    if let Some(said) = said {
        failure.reason = format!("{}; {said}", failure.reason);
    }
    Err(failure)
}

async fn outputs(engine: &Engine<'_, RunLog>, findings: &mut Findings) -> Result<(), Failure> {
    // The apply is done and counts, so a stop that came in its last moment does not matter; only
    // whoever sent it does not wait for long.
    let outputs = tokio::select! {
        outputs = engine.outputs() => outputs.map_err(|error| engine_failure(Phase::Apply, &error))?,
        reason = impatient(engine) => return Err(Failure::stopped(Phase::Apply, &reason)),
    };
    findings.outputs = Some(outputs);
    Ok(())
}

/// Completes a moment after the run has to stop: whoever wants that does not wait for long.
async fn impatient(engine: &Engine<'_, RunLog>) -> StopReason {
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
    files: &Files,
    findings: &mut Findings,
) -> Result<(), Failure> {
    let _span = files.timeline.begin(Phase::Validate);
    let validated =
        engine.validate().await.map_err(|error| engine_failure(Phase::Validate, &error))?;
    findings.achievement.summary = Some(validated.summary.clone());
    if validated.valid { Ok(()) } else { Err(Failure::because(Phase::Validate, validated.summary)) }
}

async fn test(
    engine: &Engine<'_, RunLog>,
    files: &Files,
    findings: &mut Findings,
) -> Result<(), Failure> {
    let _span = files.timeline.begin(Phase::Test);
    let tested = engine
        .test(&files.variables.plan)
        .await
        .map_err(|error| engine_failure(Phase::Test, &error))?;
    if tested.is_broken && tested.junit.is_some() {
        engine
            .log
            .warn("the JUnit file cannot be read: it is no XML, and nobody can count the tests");
    }
    findings.achievement.tests = tested.counts;
    findings.junit = tested.junit;
    let summary =
        tested.counts.map_or_else(|| "no test results".to_owned(), |counts| counts.to_string());
    findings.achievement.summary = Some(format!("Tests: {summary}."));
    if tested.passed {
        Ok(())
    } else {
        Err(Failure::because(Phase::Test, format!("tests failed: {summary}")))
    }
}

pub(super) fn engine_failure(phase: Phase, error: &EngineError) -> Failure {
    match error {
        EngineError::Stopped { reason, left, .. } => {
            let mut failure = Failure::stopped(phase, reason);
            if let Some(left) = left {
                failure.reason =
                    format!("{}; the tool had to be killed, and {left}", failure.reason);
            }
            Failure { advice: error.advice(), left: left.clone(), ..failure }
        }
        error => {
            Failure { left: error.left().cloned().map(Box::new), ..Failure::new(phase, error) }
        }
    }
}
