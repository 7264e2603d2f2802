//! Makes a plan, its report, and runs the program that checks it.

use std::path::PathBuf;

use tokio::sync::oneshot;

use super::command_input::CommandInput;
use crate::engine::{Engine, PlanMode, Planned};
use crate::report::RunLog;
use crate::run::failure::Failure;
use crate::run::findings::Findings;
use crate::run::plan::plan_report::{PlanOptions, PlanReport};
use crate::run::plan::plan_text::PlanText;
use butler_base::blocking::blocking;
use butler_base::event::Phase;

/// Makes the plan, or reads a saved one, and prepares its report.
pub(in crate::run) async fn make_plan(
    engine: &Engine<'_, RunLog>,
    mode: PlanMode,
    input: &CommandInput<'_>,
    findings: &mut Findings,
) -> Result<Planned, Failure> {
    let _span = input.timeline.begin(Phase::Plan);
    let options = &input.plan;
    let (printed, is_printed) = oneshot::channel();
    let engine_work = async {
        match &input.restored {
            Some(plan) => engine.show_saved(plan, printed).await,
            None => engine.plan(&input.plan_request(mode), printed).await,
        }
    };
    let failed = |error| Failure::of_engine(Phase::Plan, &error);
    // The text is made while `show` still runs. If `plan` fails, the sender is dropped and both end.
    let (files, text) = tokio::join!(engine_work, make_text(is_printed, options, engine.log));
    let files = files.map_err(failed)?;
    let (summary, report) =
        PlanReport::create(&files, text, options, engine.log).await.map_err(failed)?;
    findings.plan_report = Some(report);
    Ok(Planned { files, summary })
}

/// Makes the text of a plan for the reports as soon as the engine has sent the file that it `is_printed`
/// in.
///
/// # Errors
/// If a file cannot be read or written, or if the engine failed before it sent the file.
async fn make_text(
    is_printed: oneshot::Receiver<PathBuf>,
    options: &PlanOptions,
    log: &RunLog,
) -> std::io::Result<PlanText> {
    let printed = is_printed.await.map_err(std::io::Error::other)?;
    let (for_registry, redactor) = (options.limit.is_some(), log.redactor().clone());
    blocking(move |_| PlanText::create(printed, for_registry, &redactor)).await
}

/// Runs the program that checks the plan (`--after-plan`), if one is named.
pub(in crate::run) async fn run_after_plan(
    input: &CommandInput<'_>,
    findings: &mut Findings,
) -> Result<(), Failure> {
    let Some(program) = &input.after_plan else { return Ok(()) };
    let _span = input.timeline.begin(Phase::AfterPlan);
    program.check_plan(findings, &input.plan).await
}
