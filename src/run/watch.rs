//! Watches for what ends a run early: signals, and the registry's word.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::registry::{Client, Patience, RegistryError, RunStatus};
use butler_base::cancel::{Stop, StopReason};
use butler_base::pace::Pace;
use butler_base::platform::{Chores, Signal, StopSignals};
use butler_base::process::reap_orphans;

/// The longest that the registry is left alone because it asks for it: it may have ended the run.
const LONGEST_REST: Duration = Duration::from_mins(1);
/// The same signal again within this time is an echo and no impatience: `timeout` and terminals
/// signal a process and then its whole group.
const ECHO: Duration = Duration::from_secs(1);

/// A watching task that ends when it is dropped.
#[derive(Debug)]
pub struct Watch(JoinHandle<()>);

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Asks the run to stop when a signal asks this process to end, and to hurry at the second one.
///
/// # Errors
/// When the operating system does not let it watch.
pub fn signals(stop: &Stop) -> std::io::Result<Watch> {
    let mut signals = StopSignals::watch()?;
    let stop = stop.clone();
    let mut echoes = Echoes::default();
    Ok(Watch(tokio::spawn(async move {
        while let Some(signal) = signals.next().await {
            if !echoes.is_echo(signal) {
                tracing::warn!(%signal, "signal received");
                stop.request(StopReason::Signal(signal));
            }
        }
    })))
}

/// Tells a signal from its echo.
#[derive(Default)]
struct Echoes(Option<(Signal, Instant)>);

impl Echoes {
    fn is_echo(&mut self, signal: Signal) -> bool {
        let echo = self.0.is_some_and(|(last, at)| last == signal && at.elapsed() < ECHO);
        if !echo {
            self.0 = Some((signal, Instant::now()));
        }
        echo
    }
}

/// Takes the signals that are nobody's wish, and reaps what this process has adopted.
pub(super) fn chores() -> std::io::Result<Watch> {
    let mut chores = Chores::watch()?;
    Ok(Watch(tokio::spawn(async move {
        while let Some(()) = chores.child_ended().await {
            reap_orphans();
        }
    })))
}

/// Asks the registry whether the run still goes on: `interval` after the last time at most, and a
/// little sooner by chance, because runners that were started together must not ask together.
pub(super) fn cancellation(client: Arc<Client>, stop: &Stop, interval: Duration) -> Watch {
    let stop = stop.clone();
    let ask = move || {
        let client = client.clone();
        async move { client.status(Patience::Once).await }
    };
    Watch(tokio::spawn(async move { stop.request(until_over(interval, ask).await) }))
}

/// Asks until the run is over. Returns how that was said.
async fn until_over<F>(interval: Duration, ask: impl Fn() -> F) -> StopReason
where
    F: Future<Output = Result<RunStatus, RegistryError>>,
{
    let mut pace = Pace::new(interval);
    let mut since = Instant::now();
    let mut rest = Duration::ZERO;
    loop {
        tokio::time::sleep_until(since + pace.wait().max(rest)).await;
        // What is cancelled while the answer is on its way is seen within the interval, too.
        since = Instant::now();
        rest = Duration::ZERO;
        match ask().await {
            Ok(RunStatus::Over(status)) => return StopReason::RunOver { status },
            Err(RegistryError::RunOver) => return StopReason::RunOver { status: "409".to_owned() },
            Ok(_) => {}
            // It is asked again soon; a registry that stays away shows when something is sent. One
            // that takes long to fail gets its rest after that.
            Err(error) => {
                since = Instant::now();
                rest = error.retry_after().unwrap_or_default().min(LONGEST_REST);
                tracing::debug!(error = %butler_base::error::chain(&error), "status not known");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_same_signal_at_once_is_an_echo_and_another_or_a_later_one_is_not() {
        let mut echoes = Echoes::default();
        assert!(!echoes.is_echo(Signal::SIGTERM));
        assert!(echoes.is_echo(Signal::SIGTERM));
        assert!(!echoes.is_echo(Signal::SIGINT));
        assert!(!echoes.is_echo(Signal::SIGTERM));
        tokio::time::sleep(ECHO).await;
        assert!(!echoes.is_echo(Signal::SIGTERM));
    }
    const INTERVAL: Duration = Duration::from_secs(30);

    /// How long an answer takes.
    const ANSWER: Duration = Duration::from_millis(200);

    /// Timers are this exact.
    const TICK: Duration = Duration::from_millis(1);

    /// When a runner asks that is started now, until it hears at `end` that its run is over, and how
    /// long after `end` that is.
    async fn asked(end: Instant) -> (Vec<Instant>, Duration) {
        let times = std::sync::Mutex::new(Vec::new());
        let ask = || {
            let now = Instant::now();
            times.lock().unwrap().push(now);
            async move {
                tokio::time::sleep(ANSWER).await;
                let status = if now < end { "applying" } else { "cancelled" };
                Ok(RunStatus::from(status.to_owned()))
            }
        };
        let reason = until_over(INTERVAL, ask).await;
        assert_eq!(reason, StopReason::RunOver { status: "cancelled".to_owned() });
        (times.into_inner().unwrap(), end.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn runners_that_start_together_ask_apart_and_each_hears_within_the_interval() {
        let begin = Instant::now();
        let end = begin + INTERVAL * 20;
        let runners = futures_util::future::join_all((0..100).map(|_| asked(end))).await;
        for (times, heard) in &runners {
            let all = [&[begin], times.as_slice()].concat();
            let longest = all.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
            assert!(longest <= INTERVAL + TICK, "{longest:?}");
            assert!(*heard <= INTERVAL + ANSWER + TICK * 2, "{heard:?}");
        }
        // A twentieth of the time has a twentieth of what is asked in the middle of it, or so; in
        // step it would have all or nothing.
        for round in 0..20 {
            let from = begin + INTERVAL * 5 + INTERVAL / 20 * round;
            let within = |time: &&Instant| (from..from + INTERVAL / 20).contains(*time);
            let together =
                runners.iter().flat_map(|(times, _)| times.iter().filter(within)).count();
            assert!(together <= 30, "{together} of 100 ask in the same twentieth of the interval");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_registry_that_fails_is_left_alone_for_as_long_as_it_asks_and_no_longer_than_a_minute()
     {
        let times = std::sync::Mutex::new(Vec::new());
        let ask = || {
            let mut times = times.lock().unwrap();
            times.push(Instant::now());
            let round = times.len();
            async move {
                let rest = [None, Some(Duration::from_secs(45)), Some(Duration::MAX)];
                match rest.get(round - 1) {
                    Some(retry_after) => Err(RegistryError::Refused {
                        what: String::new(),
                        status: reqwest::StatusCode::SERVICE_UNAVAILABLE,
                        message: String::new(),
                        retry_after: *retry_after,
                        redirect: None,
                        odd_run_id: None,
                    }),
                    None => Ok(RunStatus::Over("cancelled".to_owned())),
                }
            }
        };
        until_over(INTERVAL, ask).await;
        let times = times.into_inner().unwrap();
        let waits: Vec<_> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(waits[0] <= INTERVAL + TICK, "{waits:?}");
        assert_eq!(waits[1..], [Duration::from_secs(45), LONGEST_REST]);
    }
}
