//! How far a run has come, and whether it gets another attempt.

use std::time::Duration;

use sha2::{Digest as _, Sha256};

use super::types::Input;
use crate::model::{
    Action, Attempt, Closed, Ending, FailureClass, JobFailure, Layer, Moment, Run, RunId,
    StopReason,
};

/// The wait after the first failure.
const FIRST_WAIT: Duration = Duration::from_secs(15);

/// The longest wait.
const LONGEST_WAIT: Duration = Duration::from_hours(1);

/// How far a run has come.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Progress {
    /// It waits for its first or next attempt.
    Open {
        /// The end of the wait after a failure.
        not_before: Moment,
    },
    /// An attempt runs.
    Running,
    /// It is done.
    Succeeded,
    /// It failed and is not retried: the failure is not of the kind that goes away.
    Failed(Failure),
    /// It may have changed something, or its plan is stale: only a new plan can go on.
    NeedsPlan {
        /// The end of the wait before it.
        not_before: Moment,
    },
    /// Its attempts are used up.
    Exhausted {
        /// What went wrong last.
        failure: Failure,
        /// How many attempts have failed.
        failed: u32,
    },
    /// It gets no further attempt, for this reason.
    Closed(Closed),
}

/// What went wrong.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Failure {
    /// A failure that the attempt reported.
    Class(FailureClass),
    /// It took too long.
    TimedOut,
    /// It ended without a report.
    Lost,
    /// It was never started.
    NeverStarted,
    /// The plan was stale.
    Stale,
    /// The cluster ended its Job, or did not start it.
    Job(JobFailure),
}

impl Failure {
    /// What went wrong with an attempt that ended so. `None` if it succeeded, or was stopped for good.
    pub(super) const fn of(ending: Ending) -> Option<Self> {
        Some(match ending {
            Ending::Succeeded | Ending::Stopped(StopReason::Superseded | StopReason::Cancelled) => {
                return None;
            }
            Ending::Stopped(StopReason::TimedOut) => Self::TimedOut,
            Ending::Failed(class) => Self::Class(class),
            Ending::StalePlan => Self::Stale,
            Ending::Lost => Self::Lost,
            Ending::NeverStarted => Self::NeverStarted,
            Ending::Job(failure) => Self::Job(failure),
        })
    }

    /// Names the limit to increase before the same thing can succeed, in the imperative, if one was reached.
    pub(super) const fn reached_limit(self) -> Option<&'static str> {
        Some(match self {
            Self::TimedOut => "increase `timeout` of the layer",
            Self::Class(FailureClass::OutOfMemory) => "give it more memory",
            Self::Job(failure @ (JobFailure::OutOfMemory | JobFailure::Deadline)) => {
                return failure.advice();
            }
            _ => return None,
        })
    }

    /// What went wrong, for a sentence: "failed: {}".
    pub(super) const fn describe(self) -> &'static str {
        match self {
            Self::Class(class) => class.describe(),
            Self::TimedOut => "it took longer than its timeout",
            Self::Lost => "its process ended without a report",
            Self::NeverStarted => "its process could not be started",
            Self::Stale => "its plan was stale",
            Self::Job(failure) => failure.describe(),
        }
    }
}

/// How far `run` has come.
pub(super) fn progress(input: &Input<'_>, layer: &Layer, run: &Run) -> Progress {
    if let Some(closed) = run.closed {
        return Progress::Closed(closed);
    }
    let Some(attempt) = run.attempts.last() else {
        return Progress::Open { not_before: run.created };
    };
    let Some((ending, ended)) = attempt.end else { return Progress::Running };
    let Some(failure) = Failure::of(ending) else {
        return match ending {
            Ending::Stopped(StopReason::Superseded) => Progress::Closed(Closed::Superseded),
            Ending::Stopped(_) => Progress::Closed(Closed::Cancelled),
            _ => Progress::Succeeded,
        };
    };
    // The same time and the same memory are not enough for a new plan and its apply either.
    if failure.reached_limit().is_some() {
        return Progress::Failed(failure);
    }
    let needs_plan = may_have_changed(run) || failure == Failure::Stale;
    let is_retried = match failure {
        Failure::Class(class) => class.is_retried(),
        Failure::Lost | Failure::NeverStarted => true,
        Failure::Job(failure) => failure.is_retried(),
        Failure::TimedOut | Failure::Stale => false,
    };
    if !needs_plan && !is_retried {
        return Progress::Failed(failure);
    }
    if is_replaced(input, run) {
        return Progress::Closed(Closed::Superseded);
    }
    let failed = failed_attempts(input, run);
    if failed >= layer.most_attempts {
        return Progress::Exhausted { failure, failed };
    }
    // A wait does not help against a stale plan, so the first one is made again at once.
    let is_first_stale = failure == Failure::Stale && failed <= 1;
    let wait = if is_first_stale { Duration::ZERO } else { backoff(&run.id, failed) };
    let not_before = ended + wait;
    if needs_plan { Progress::NeedsPlan { not_before } } else { Progress::Open { not_before } }
}

/// Whether the last attempt of `run` has failed after it may have changed something.
fn may_have_changed(run: &Run) -> bool {
    let Some(attempt) = run.attempts.last().filter(|_| run.action.changes_infrastructure()) else {
        return false;
    };
    let failure = attempt.end.and_then(|(ending, _)| Failure::of(ending));
    failure.is_some_and(|failure| match failure {
        Failure::Class(_) | Failure::TimedOut => attempt.began,
        // It may have begun after its last report.
        Failure::Lost => true,
        // As with a lost attempt, except for those that cannot have begun.
        Failure::Job(failure) => attempt.began || failure.may_have_begun(),
        Failure::NeverStarted | Failure::Stale => false,
    })
}

/// Whether an apply has failed before `planned` after it may have changed something, for the same change. Then the
/// plan is not applied by itself: what made one apply fail would make the next one fail, too. A success ends that, and
/// a person who asks for a run. `runs` are those of the layer, the oldest first, with `planned` or up to it.
pub(super) fn follows_failed_apply(runs: &[Run], planned: &Run) -> bool {
    let older = runs.split(|run| run.id == planned.id).next().unwrap_or_default();
    let latest_first = std::iter::once(planned).chain(older.iter().rev());
    for run in latest_first.filter(|run| run.change == planned.change) {
        if may_have_changed(run) {
            return true;
        }
        let is_applied = run.action.changes_infrastructure() && run.has_succeeded();
        if is_applied || run.cause.is_person() {
            return false;
        }
    }
    false
}

/// Whether there is a newer run with the action of `run`, for the same change. A check for drift does
/// not belong to a change.
fn is_replaced(input: &Input<'_>, run: &Run) -> bool {
    let mut newer = input.facts.runs.iter().rev().take_while(|other| other.id != run.id);
    newer.any(|other| {
        let is_drift = run.action == Action::Drift;
        other.action == run.action && (is_drift || other.change == run.change)
    })
}

/// The attempts that failed for the run's digest and action, across the plans in between, since the
/// last success or since a person asked for a run.
fn failed_attempts(input: &Input<'_>, run: &Run) -> u32 {
    let runs = input.facts.runs.iter().rev().skip_while(|other| other.id != run.id);
    let mut failed = 0;
    for other in runs {
        let is_same = other.action == run.action && other.digest() == run.digest();
        if is_same && other.change == run.change {
            if other.id != run.id && other.has_succeeded() {
                break;
            }
            let failures = other.attempts.iter().filter(|attempt| has_failed(attempt));
            failed += u32::try_from(failures.count()).unwrap_or(u32::MAX);
            // Each check for drift counts for itself: the next one is a new question.
            if run.action == Action::Drift {
                break;
            }
        }
        if other.cause.is_person() {
            break;
        }
    }
    failed
}

/// Whether the attempt ended by itself, and without success.
fn has_failed(attempt: &Attempt) -> bool {
    match attempt.end {
        None | Some((Ending::Succeeded, _)) => false,
        Some((Ending::Stopped(why), _)) => why == StopReason::TimedOut,
        Some((
            Ending::Failed(_)
            | Ending::StalePlan
            | Ending::Lost
            | Ending::NeverStarted
            | Ending::Job(_),
            _,
        )) => true,
    }
}

/// The wait after the `failed`-th failed attempt: 15 s, doubled with each one, at most an hour, and
/// up to a fifth more or less. The difference depends on the run, so that runs that failed together
/// do not start together.
fn backoff(run: &RunId, failed: u32) -> Duration {
    let doubled =
        FIRST_WAIT.saturating_mul(1_u32.checked_shl(failed.saturating_sub(1)).unwrap_or(u32::MAX));
    let wait = doubled.min(LONGEST_WAIT);
    wait.mul_f64(0.8 + 0.4 * fraction(&[run.as_str().as_bytes(), &failed.to_le_bytes()]))
}

/// A number from 0 to 1 that is always the same for `parts`.
pub(crate) fn fraction(parts: &[&[u8]]) -> f64 {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part);
    }
    let digest = hash.finalize();
    f64::from(u16::from_le_bytes([digest[0], digest[1]])) / f64::from(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_an_hour_and_differ_by_a_fifth() {
        for (failed, seconds) in [(1, 15.0), (2, 30.0), (3, 60.0), (9, 3600.0), (80, 3600.0)] {
            let waits: Vec<f64> = (0..200)
                .map(|run| backoff(&RunId::new(format!("run-{run}")), failed).as_secs_f64())
                .collect();
            let least = waits.iter().copied().fold(f64::INFINITY, f64::min);
            let most = waits.iter().copied().fold(0.0, f64::max);
            assert!(least >= seconds * 0.799 && least < seconds * 0.85, "{failed}: {least}");
            assert!(most <= seconds * 1.201 && most > seconds * 1.15, "{failed}: {most}");
        }
    }
}
