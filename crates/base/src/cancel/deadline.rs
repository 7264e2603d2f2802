//! How much time is left for each step of a teardown after a signal.
//!
//! A CI system that sends a signal kills the job a fixed time later, and the final status has to be
//! delivered before that. Each step has its own limit, so that the runner does not wait long for
//! an unreachable registry, and must also leave enough time for the steps after it. In the worst case
//! the tool uses its whole grace period and every step times out; the sum still fits.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::step::Step;
use super::stop::{Stop, StopState};
use super::times::Times;

/// The least time for the final status: one attempt is made even if no time is left.
const LEAST: Duration = Duration::from_secs(1);

/// How long a command may take to end if no time is left: it may hold the state lock, and releases it
/// only if it is not killed immediately.
const LAST_GRACE: Duration = Duration::from_secs(2);

impl StopState {
    /// When a step that began at `begun` has to end; none without a deadline.
    fn end_of(&self, step: Step, begun: Instant, times: Times) -> Option<Instant> {
        if self.over && step.is_for_the_registry() {
            return Some(begun);
        }
        let signalled = self.signalled?;
        let end = self.share_of(step, times)?.min(begun.max(signalled) + step.limit());
        let matters = matches!(step, Step::Status | Step::StatusAgain);
        Some(if matters { end.max(begun + LEAST) } else { end })
    }

    /// When the share of a step ends after a signal, independent of its begin.
    fn share_of(&self, step: Step, times: Times) -> Option<Instant> {
        let patient = self.signalled? + times.grace;
        let tool = self.urgent.map_or(patient, |urgent| patient.min(urgent + times.urgent));
        Some(tool + times.report - times.report * step.left_for_others() / 100)
    }
}

impl Stop {
    /// Waits for `work`, but after a signal only until `step` has to end. If the registry has ended the
    /// run, steps for the registry end immediately. Work that is ready immediately always completes.
    pub async fn within<T>(&self, step: Step, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            done = work => Some(done),
            () = self.overdue(step) => None,
        }
    }

    /// How long a command may take to end after it was asked to because `step` is overdue.
    #[must_use]
    pub fn last_grace(&self, step: Step) -> Duration {
        let share = self.state.borrow().share_of(step, self.times);
        share.map_or(LAST_GRACE, |share| {
            let end = share + self.times.report / 10;
            end.saturating_duration_since(Instant::now()).min(LAST_GRACE)
        })
    }

    /// Waits until `step`, which begins now, has to end because of a signal or the registry.
    pub async fn overdue(&self, step: Step) {
        let begun = Instant::now();
        let mut changes = self.state.subscribe();
        loop {
            let end = changes.borrow_and_update().end_of(step, begun, self.times);
            let late = async {
                match end {
                    Some(end) => sleep_until(end).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = late => return,
                // `self` owns the sender, so this cannot fail.
                _ = changes.changed() => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::super::stop::StopReason;
    use super::*;
    use crate::platform::Signal;

    const TIMES: Times = Times {
        grace: Duration::from_secs(20),
        urgent: Duration::from_secs(5),
        report: Duration::from_secs(9),
    };

    fn signal(stop: &Stop) {
        stop.request(StopReason::Signal(Signal::SIGTERM));
    }

    #[tokio::test(start_paused = true)]
    async fn sum_of_all_step_timeouts_is_within_the_limit() {
        let stop = Stop::with(TIMES);
        let begun = Instant::now();
        signal(&stop);
        tokio::time::sleep(TIMES.grace).await;
        for step in Step::ALL {
            assert_eq!(stop.within(step, pending::<()>()).await, None);
            if matches!(step, Step::Lock | Step::State) {
                // A command that holds the lock and ignores the signal.
                assert!(stop.last_grace(step) > Duration::ZERO);
                tokio::time::sleep(stop.last_grace(step)).await;
            }
            if step == Step::Files {
                let latest = TIMES.grace + TIMES.report * 52 / 100;
                assert!(begun.elapsed() <= latest, "{:?}: too late", begun.elapsed());
            }
            if step == Step::Outputs {
                let latest = TIMES.grace + TIMES.report * 2 / 3;
                assert!(begun.elapsed() <= latest, "{:?}: too late", begun.elapsed());
            }
        }
        assert!(begun.elapsed() <= TIMES.grace + TIMES.report + Duration::from_millis(10));
    }

    #[tokio::test(start_paused = true)]
    async fn unused_grace_period_is_not_waited_for() {
        let stop = Stop::with(TIMES);
        let begun = Instant::now();
        signal(&stop);
        assert_eq!(stop.within(Step::Logs, pending::<()>()).await, None);
        assert!(begun.elapsed() <= Step::Logs.limit() + Duration::from_millis(10));
        assert_eq!(stop.within(Step::Plan, async { 7 }).await, Some(7));
    }

    #[tokio::test(start_paused = true)]
    async fn last_grace_period_ends_before_the_deadline() {
        let stop = Stop::with(TIMES);
        assert_eq!(stop.last_grace(Step::Lock), LAST_GRACE);
        stop.request(StopReason::RunOver { status: "cancelled".to_owned() });
        assert_eq!(stop.last_grace(Step::Lock), LAST_GRACE, "a cancelled run has no deadline");
        let stop = Stop::with(TIMES);
        signal(&stop);
        assert_eq!(stop.last_grace(Step::Lock), LAST_GRACE, "the tool has not used its grace");
        tokio::time::sleep(TIMES.grace + TIMES.report * 40 / 100).await;
        assert_eq!(stop.last_grace(Step::Lock), Duration::ZERO);
        let short = TIMES.report / 10;
        let left = stop.last_grace(Step::State);
        assert!(left <= short && left + Duration::from_millis(10) > short, "{left:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn second_signal_shortens_all_steps() {
        let stop = Stop::with(Times { grace: Duration::from_hours(1), ..TIMES });
        stop.request(StopReason::RunOver { status: "cancelled".to_owned() });
        assert_eq!(stop.within(Step::Plan, pending::<()>()).await, None, "it takes no more");
        let hour = tokio::time::sleep(Duration::from_hours(1));
        assert_eq!(stop.within(Step::Files, hour).await, Some(()));
        let begun = Instant::now();
        signal(&stop);
        tokio::time::sleep(TIMES.urgent).await;
        for step in Step::ALL {
            assert_eq!(stop.within(step, pending::<()>()).await, None);
        }
        assert!(begun.elapsed() <= TIMES.urgent + TIMES.report + Duration::from_millis(10));
    }

    #[tokio::test(start_paused = true)]
    async fn final_status_is_attempted_after_the_deadline() {
        let stop = Stop::with(TIMES);
        signal(&stop);
        tokio::time::sleep(Duration::from_hours(1)).await;
        let posted = tokio::time::sleep(LEAST / 2);
        assert_eq!(stop.within(Step::Status, posted).await, Some(()));
        assert_eq!(stop.within(Step::Plan, pending::<()>()).await, None);
    }
}
