//! What people read about the failure of an attempt, in the words of the attempt.

use crate::model::{Attempt, Cause, Ending, Gate, Reason, Run};

/// The sentence about the failure that the last attempt of `run` reported, as a reason of `gate`.
pub(super) fn reason(run: &Run, gate: Gate) -> Option<Reason> {
    let failure = run.attempts.last().and_then(failure)?;
    Some(Reason::new(gate, format!("the last attempt reported: {failure}")))
}

/// Why `run` makes a new plan, if the earlier plan did not fit any more.
pub(super) fn why_planned_again(run: &Run, runs: &[Run]) -> Option<Reason> {
    let Cause::Replan { run: earlier } = &run.cause else { return None };
    let is_earlier = |other: &&Run| other.id == *earlier;
    let attempt = runs.iter().find(is_earlier)?.attempts.last()?;
    let is_stale = matches!(attempt.end, Some((Ending::StalePlan, _)));
    let failure = failure(attempt).filter(|_| is_stale)?;
    Some(Reason::new(Gate::Approval, format!("planned again: {failure}")))
}

fn failure(attempt: &Attempt) -> Option<&str> {
    attempt.failure.as_deref()
}
