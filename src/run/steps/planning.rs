//! Makes a plan, its report, and runs the program that checks it.

use std::collections::BTreeSet;
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
use butler_plan::PlanSummary;
use butler_result::ChangeCounts;

/// The advice about a plan that ignores an option.
const IGNORED_OPTION: &str = "the server of the workspace plans, and does not know the option: let the workspace execute locally";

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
    if let Some(run) = engine.remote_runs.last()
        && input.restored.is_none()
        && !options.given_secrets.is_empty()
    {
        engine.log.warn(&sent_in_clear(run.host.as_str(), &options.given_secrets));
    }
    let (summary, report) =
        PlanReport::create(&files, text, options, engine.log).await.map_err(failed)?;
    findings.plan_report = Some(report);
    // A saved plan was checked when it was made.
    if input.restored.is_none() {
        let has_targets = !input.options.planning.targets.is_empty();
        check_asked(mode, has_targets, &summary)
            .map_err(|text| Failure::because(Phase::Plan, text).advise(IGNORED_OPTION))?;
    }
    Ok(Planned { files, summary })
}

/// The warning about sensitive variables that the tool has sent to a server for a run there.
fn sent_in_clear(host: &str, names: &BTreeSet<String>) -> String {
    let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    format!(
        "the values of {} were sent to {host} as variables of the run, where users of the workspace can read them: store \
         them there as sensitive variables of the workspace instead",
        names.join(", ")
    )
}

/// Fails if a plan ignores an option. A tool on this machine follows its options, but with `cloud` and `remote` a
/// server plans, and it can ignore an option that it does not know.
///
/// # Errors
/// The ignored option, and the changes of the plan.
fn check_asked(mode: PlanMode, has_targets: bool, summary: &PlanSummary) -> Result<(), String> {
    // An `import` block takes effect also if only the state is refreshed.
    let ChangeCounts { add, change, replace, destroy, .. } = summary.counts;
    let ignored = match mode {
        PlanMode::RefreshOnly => (add + change + destroy > 0).then_some("-refresh-only"),
        PlanMode::Destroy => (add + change + replace > 0).then_some("-destroy"),
        PlanMode::Normal => None,
    };
    let ignored =
        ignored.or_else(|| (has_targets && summary.complete == Some(true)).then_some("-target"));
    ignored.map_or(Ok(()), |option| {
        let line = summary.line();
        Err(format!(
            "the plan was asked for with `{option}`, and was made without this option: {line} Nothing was applied"
        ))
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plan_that_ignores_an_option_is_refused() {
        let counts = |set: fn(&mut ChangeCounts)| {
            let mut counts = ChangeCounts::default();
            set(&mut counts);
            counts
        };
        let add = counts(|it| it.add = 1);
        let change = counts(|it| it.change = 1);
        let replace = counts(|it| (it.add, it.destroy, it.replace) = (1, 1, 1));
        let destroy = counts(|it| it.destroy = 1);
        let import = counts(|it| it.import = 1);
        let moved = counts(|it| it.moved = 1);
        let forget = counts(|it| it.forget = 1);
        let none = ChangeCounts::default();
        let modes = [PlanMode::RefreshOnly, PlanMode::Destroy, PlanMode::Normal];
        for (counts, refused) in [
            (add, [true, true, false]),
            (change, [true, true, false]),
            (replace, [true, true, false]),
            (destroy, [true, false, false]),
            (import, [false; 3]),
            (moved, [false; 3]),
            (forget, [false; 3]),
            (none, [false; 3]),
        ] {
            for (mode, refused) in modes.into_iter().zip(refused) {
                let summary = PlanSummary { counts, ..PlanSummary::default() };
                let checked = check_asked(mode, false, &summary);
                assert_eq!(checked.is_err(), refused, "{mode:?}: {counts:?}");
            }
        }
        for (complete, has_targets, refused) in [
            (Some(true), true, true),
            (Some(true), false, false),
            (Some(false), true, false),
            (None, true, false),
        ] {
            let summary = PlanSummary { counts: add, complete, ..PlanSummary::default() };
            let checked = check_asked(PlanMode::Normal, has_targets, &summary);
            assert_eq!(checked.is_err(), refused, "{complete:?} {has_targets}");
        }
        let summary = PlanSummary { counts: add, ..PlanSummary::default() };
        let text = check_asked(PlanMode::RefreshOnly, false, &summary).unwrap_err();
        assert!(text.contains("`-refresh-only`") && text.contains("1 to add"), "{text}");
    }
}
