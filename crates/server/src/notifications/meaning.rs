//! What an entry of the journal means for people.
//!
//! It is decided from the entry, and from what was known when it was recorded: later runs and attempts do not change
//! it. So a receiver that was down gets the same messages as one that was not. Only a plan that no longer waits is
//! not told.

use super::message::Notification;
use crate::config::NotificationEvent;
use crate::decision::{Input, WhyApproval, final_failure, needs_approval};
use crate::model::{
    Action, Ending, Facts, JournalEntry, JournalKind, Layer, LayerName, Run, StopReason,
    Surroundings,
};

/// What is known about the layer of an entry.
#[derive(Clone, Debug)]
pub(super) struct Known {
    /// The name that the layer has now.
    pub(super) layer: LayerName,
    /// What the configuration says; `None` if the layer is not in it.
    pub(super) configured: Option<Layer>,
    /// The run of the entry, if it is still kept.
    pub(super) run: Option<Run>,
    /// The runs of the layer that were created before it, the oldest first.
    pub(super) older: Vec<Run>,
    /// Whether the plan of the run is the newest one, and no person has decided about it.
    pub(super) is_undecided: bool,
}

/// Whether an entry of this kind can mean anything.
pub(super) const fn can_mean(kind: &JournalKind) -> bool {
    match kind {
        JournalKind::AttemptEnded { .. }
        | JournalKind::DriftFound { .. }
        | JournalKind::DriftResolved
        | JournalKind::ChecksFailed { .. }
        | JournalKind::ChecksPassed
        | JournalKind::BreakerOpened => true,
        JournalKind::RevisionRead { .. }
        | JournalKind::RunCreated { .. }
        | JournalKind::PlanApproved { .. }
        | JournalKind::WindowOverridden { .. }
        | JournalKind::PlanDiscarded { .. }
        | JournalKind::PlanStale { .. }
        | JournalKind::AttemptStarted
        | JournalKind::ApplyBegan
        | JournalKind::StopRequested { .. }
        | JournalKind::RunClosed { .. }
        | JournalKind::BreakerReset { .. }
        | JournalKind::Renamed { .. }
        | JournalKind::Paused { .. }
        | JournalKind::Resumed => false,
    }
}

/// What the entry means. A receiver gets the first one that it has selected.
pub(super) fn meanings(entry: &JournalEntry, known: &Known) -> Vec<Notification> {
    let layer = &known.layer;
    let one = |event, title, reason: &str| vec![notification(entry, known, event, title, reason)];
    match &entry.change.what {
        JournalKind::AttemptEnded { ending } => of_end(entry, known, *ending),
        JournalKind::DriftFound { .. } => one(
            NotificationEvent::Drift,
            format!("{layer}: drift found"),
            "The infrastructure differs from what was applied, in another way than before.",
        ),
        JournalKind::DriftResolved => one(
            NotificationEvent::Resolved,
            format!("{layer}: drift resolved"),
            "The drift that was found before is gone.",
        ),
        JournalKind::ChecksFailed { checks } => one(
            NotificationEvent::Checks,
            format!("{layer}: checks fail"),
            &format!("Conditions of the module do not hold: {}.", checks.join(", ")),
        ),
        JournalKind::ChecksPassed => one(
            NotificationEvent::Resolved,
            format!("{layer}: checks pass"),
            "All conditions of the module hold again.",
        ),
        JournalKind::BreakerOpened => one(
            NotificationEvent::Breaker,
            "automatic applies of all layers are stopped".to_owned(),
            &format!(
                "Automatic applies of several layers in a row have failed, the last one of {layer}; an \
                 administrator resets the breaker."
            ),
        ),
        _ => Vec::new(),
    }
}

/// What the end of an attempt means.
fn of_end(entry: &JournalEntry, known: &Known, ending: Ending) -> Vec<Notification> {
    let Some(run) = known.run.as_ref().and_then(|run| at_end(entry, run)) else {
        return of_unknown_run(entry, known, ending).into_iter().collect();
    };
    let (layer, verb) = (&known.layer, name(run.action));
    let tell =
        |event, title: String, reason: &str| notification(entry, known, event, title, reason);
    if ending != Ending::Succeeded {
        let Some(why) = failure(known, &known.older, &run) else { return Vec::new() };
        let part = run.partly_applied(&known.older);
        let part = part.map(|part| format!(", after {part}")).unwrap_or_default();
        let reason = format!("The {verb} failed because {why}{part}.");
        return vec![tell(NotificationEvent::Failed, format!("{layer}: {verb} failed"), &reason)];
    }
    let mut found = Vec::new();
    match run.action {
        Action::Plan => found.extend(approval(known, &run).map(|reason| {
            tell(NotificationEvent::Waiting, format!("{layer}: plan waits for approval"), reason)
        })),
        Action::Apply => found.push(tell(
            NotificationEvent::Applied,
            format!("{layer}: applied"),
            "The plan was applied.",
        )),
        Action::Destroy => found.push(tell(
            NotificationEvent::Applied,
            format!("{layer}: destroyed"),
            "The layer was destroyed.",
        )),
        Action::Drift | Action::Trigger => {}
    }
    if had_failed_before(known, run.action) {
        let reason = format!("The {verb} before had failed.");
        let title = format!("{layer}: {verb} succeeds again");
        found.push(tell(NotificationEvent::Resolved, title, &reason));
    }
    found
}

/// The run as it was when the attempt of the entry had ended.
fn at_end(entry: &JournalEntry, run: &Run) -> Option<Run> {
    let number = entry.change.attempt?;
    let mut run = Run { closed: None, ..run.clone() };
    run.attempts.retain(|attempt| attempt.number <= number);
    run.attempts.last().is_some_and(|last| last.number == number).then_some(run)
}

/// The end of an attempt of a run that was removed from the history: only what is certain is told.
fn of_unknown_run(entry: &JournalEntry, known: &Known, ending: Ending) -> Option<Notification> {
    let why = match ending {
        Ending::Failed(class) if !class.is_retried() => class.describe(),
        Ending::Stopped(StopReason::TimedOut) => "its time was up",
        _ => return None,
    };
    let (layer, reason) = (&known.layer, format!("The run failed because {why}."));
    let title = format!("{layer}: run failed");
    Some(notification(entry, known, NotificationEvent::Failed, title, &reason))
}

/// Why `run` failed for good, when only `older` runs existed.
fn failure(known: &Known, older: &[Run], run: &Run) -> Option<&'static str> {
    let mut runs = older.to_vec();
    runs.push(run.clone());
    let facts = Facts { runs, ..Facts::default() };
    let surroundings = Surroundings::default();
    let input = Input {
        name: &known.layer,
        layer: known.configured.as_ref(),
        observation: None,
        facts: &facts,
        surroundings: &surroundings,
        now: run.last_end().map(|(_, at)| at).unwrap_or_default(),
    };
    final_failure(&input, run)
}

/// Whether the last run with this action that has come to an end had failed. One that was cancelled or superseded says
/// nothing.
fn had_failed_before(known: &Known, action: Action) -> bool {
    for (position, run) in known.older.iter().enumerate().rev() {
        if run.action != action {
            continue;
        }
        if run.has_succeeded() {
            return false;
        }
        let run = Run { closed: None, ..run.clone() };
        if failure(known, &known.older[..position], &run).is_some() {
            return true;
        }
    }
    false
}

/// Why the plan of `run` waits for an approval, if it does.
fn approval(known: &Known, run: &Run) -> Option<&'static str> {
    let layer = known.configured.as_ref().filter(|_| known.is_undecided)?;
    Some(match needs_approval(layer, &known.older, run)? {
        WhyApproval::Destroys => "The plan destroys the layer when a user approves it.",
        WhyApproval::DestroyLimit(_) => {
            "The plan deletes, replaces or forgets more resources than `destroy-limit` allows; it is applied \
             when a user approves it."
        }
        WhyApproval::UnrelatedHistory => {
            "The commit has no known ancestor in common with what was read before: check that the address still leads \
             to the same repository. The plan is applied when a user approves it."
        }
        WhyApproval::Actions => {
            "The plan executes actions, and `destroy-limit` cannot count what they destroy; it is applied when a \
             user approves it."
        }
        WhyApproval::FailedApply => {
            "The apply before it failed and may have changed something; the plan is applied when a user \
             approves it."
        }
        WhyApproval::Strategy => "The plan is applied when a user approves it.",
    })
}

/// What a run with this action is called.
const fn name(action: Action) -> &'static str {
    match action {
        Action::Plan => "plan",
        Action::Apply => "apply",
        Action::Drift => "check for drift",
        Action::Destroy => "destroy",
        Action::Trigger => "trigger",
    }
}

fn notification(
    entry: &JournalEntry,
    known: &Known,
    event: NotificationEvent,
    title: String,
    reason: &str,
) -> Notification {
    let run = known.run.as_ref();
    let planned = run.and_then(|run| run.plan.as_ref()).map(|plan| plan.counts);
    let counts = match event {
        NotificationEvent::Waiting => planned,
        NotificationEvent::Applied => run.and_then(Run::applied),
        _ => None,
    };
    Notification {
        event,
        layer: known.layer.clone(),
        run: entry.change.run.clone(),
        action: run.map(|run| run.action),
        commit: run.map(|run| run.commit().clone()),
        counts,
        title,
        reason: reason.to_owned(),
        at: entry.at,
    }
}
