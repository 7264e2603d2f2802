//! What happens to an attempt that runs.

use std::time::Duration;

use super::types::{Decision, Input, Step};
use crate::model::{Action, Attempt, Ending, Gate, Liveness, Phase, Reason, Run, StopReason};

/// How long an attempt may be silent. Then the server asks whether its process exists; this alone
/// never frees its lease.
pub(super) const SILENCE: Duration = Duration::from_mins(1);

/// How long it may be unknown whether a process exists. Then a person must say.
pub(super) const FATE_UNKNOWN: Duration = Duration::from_mins(10);

/// How long an attempt may go on after it was asked to stop. Then a person must look.
const STOP_IGNORED: Duration = Duration::from_mins(30);

/// The time between two questions whether a silent attempt exists.
const PROBE_AGAIN: Duration = Duration::from_secs(15);

/// How long the server that started an attempt may leave it to the others to ask. It asks more often than that.
const ASKED_ELSEWHERE: Duration = Duration::from_mins(1);

/// Decides about the attempt of a run that has not ended.
pub(super) fn watch(input: &Input<'_>, run: &Run, attempt: &Attempt) -> Decision {
    let id = || run.id.clone();
    let number = attempt.number;
    let phase = if attempt.launched { Phase::ClosingOut } else { Phase::Triggering };

    // The process is gone and left no result, or it never was there.
    if let Some((Liveness::Gone, _)) = attempt.probed {
        let ending = if attempt.launched { Ending::Lost } else { Ending::NeverStarted };
        return Decision::step(phase, Step::EndAttempt { run: id(), attempt: number, ending });
    }
    // Silence: ask, again and again, whether the process exists. This comes before a stop, which
    // cannot be delivered to a process that cannot be reached.
    let silent_at = attempt.heartbeat + SILENCE;
    let is_silent = input.now >= silent_at;
    let asked = attempt.probed.map(|(_, at)| at).filter(|at| *at >= attempt.heartbeat);
    let is_here = input.surroundings.reaches_attempt;
    let decision = if is_here {
        let ask_at = asked.map_or(silent_at, |at| at + PROBE_AGAIN);
        if is_silent && input.now >= ask_at {
            let reports = attempt.reports;
            Decision::step(phase, Step::Probe { run: id(), attempt: number, reports })
        } else {
            let rest = Decision::rest(phase).look_at(if is_silent { ask_at } else { silent_at });
            match &input.surroundings.start_waits_for {
                Some(why) => rest.because(Reason::new(Gate::Platform, waits(why))),
                None => rest,
            }
        }
    } else {
        // Once is enough: the time is counted from then on, until something is heard.
        let miss_at = asked.unwrap_or(silent_at) + ASKED_ELSEWHERE;
        match attempt.unknown_since {
            Some(since) if input.now.since(since) < FATE_UNKNOWN => {
                Decision::rest(phase).look_at(since + FATE_UNKNOWN)
            }
            Some(_) => Decision::rest(phase),
            None if input.now >= miss_at => {
                let reports = attempt.reports;
                Decision::step(phase, Step::Miss { run: id(), attempt: number, reports })
            }
            None => Decision::rest(phase).look_at(miss_at),
        }
    };
    if let Some(since) = attempt.unknown_since.filter(|_| is_silent) {
        return if input.now.since(since) < FATE_UNKNOWN {
            decision
        } else {
            let text = format!(
                "cannot tell whether attempt {number} of run {} still runs on {}; if it does not, \
                 `butler-runner layer unlock {} --force` frees the state",
                run.id, attempt.place, input.name
            );
            decision.block(Reason::new(Gate::Lease, text))
        };
    }
    if decision.step.is_some() {
        return decision;
    }
    // A request that was recorded but perhaps never sent is sent again: receiving it twice is
    // harmless.
    match attempt
        .stop
        .map(|(why, at)| (why, Some(at)))
        .or_else(|| reason_to_stop(input, run, attempt).map(|why| (why, None)))
    {
        Some((why, None)) if !is_here => {
            Decision::step(phase, Step::RequestStop { run: id(), attempt: number, why })
        }
        Some((why, _)) if !attempt.stop_delivered && is_here => {
            Decision::step(phase, Step::Stop { run: id(), attempt: number, why })
        }
        Some((_, Some(at))) if input.now.since(at) >= STOP_IGNORED => {
            let text = format!(
                "attempt {number} of run {} was asked to stop and still runs on {}; end its \
                 process there",
                run.id, attempt.place
            );
            decision.block(Reason::new(Gate::Lease, text))
        }
        Some((_, Some(at))) => decision.look_at(at + STOP_IGNORED),
        _ => decision.look_at(attempt.deadline),
    }
}

fn waits(why: &str) -> String {
    format!("the pod of the attempt has not begun: {why}")
}

/// Why the attempt has to stop now.
fn reason_to_stop(input: &Input<'_>, run: &Run, attempt: &Attempt) -> Option<StopReason> {
    // A newer digest cancels a plan, never an apply. A check for drift belongs to what is applied.
    let newer = input.observation.is_some_and(|observation| {
        observation.revision().is_some() && observation.change != run.change
    });
    if run.action == Action::Plan && newer {
        return Some(StopReason::Superseded);
    }
    (input.now >= attempt.deadline).then_some(StopReason::TimedOut)
}
