//! Watches for the events that end a run early: signals, and a cancellation by the registry.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::registry::{Client, Patience, RegistryError, RunStatus};
use butler_base::cancel::{Stop, StopReason};
use butler_base::pace::Pace;
use butler_base::platform::{Chores, Signal, StopSignals};
use butler_base::process::reap_orphans;

/// The longest `Retry-After` that the runner honours: meanwhile the registry may have ended the run.
const LONGEST_REST: Duration = Duration::from_mins(1);
/// The same signal within this time is an echo, not a second request: `timeout` and terminals signal
/// a process and then its whole group.
const ECHO: Duration = Duration::from_secs(1);

/// A watching task that ends when it is dropped.
#[derive(Debug)]
pub struct Watch(JoinHandle<()>);

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Requests the stop of the run at the first signal that ends processes, and an urgent stop at the
/// second one.
///
/// # Errors
/// The signal handlers cannot be installed.
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

/// Recognises echoes of a signal.
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

/// Handles SIGCHLD: reaps the orphaned processes that this process has adopted.
pub(super) fn chores() -> std::io::Result<Watch> {
    let mut chores = Chores::watch()?;
    Ok(Watch(tokio::spawn(async move {
        while let Some(()) = chores.child_ended().await {
            reap_orphans();
        }
    })))
}

/// Polls the status of the run, and requests a stop when the registry has ended it. The time between two
/// requests is at most `interval`, minus a random part: runners that were started together must not
/// send their requests together.
pub(super) fn cancellation(client: Arc<Client>, stop: &Stop, interval: Duration) -> Watch {
    let stop = stop.clone();
    let request_status = move || {
        let client = client.clone();
        async move { client.status(Patience::Once).await }
    };
    Watch(tokio::spawn(async move { stop.request(until_over(interval, request_status).await) }))
}

/// Polls until the run is over.
async fn until_over<F>(interval: Duration, request_status: impl Fn() -> F) -> StopReason
where
    F: Future<Output = Result<RunStatus, RegistryError>>,
{
    let mut pace = Pace::new(interval);
    let mut since = Instant::now();
    let mut rest = Duration::ZERO;
    loop {
        tokio::time::sleep_until(since + pace.wait().max(rest)).await;
        // Measured from the request, because the run may be cancelled while the response is on its
        // way.
        since = Instant::now();
        rest = Duration::ZERO;
        match request_status().await {
            Ok(RunStatus::Over(status)) => return StopReason::RunOver { status },
            Err(RegistryError::RunOver) => return StopReason::RunOver { status: "409".to_owned() },
            Ok(_) => {}
            // Not a reason to stop: the next request may succeed, and a report shows a registry that
            // stays unreachable. `Retry-After` counts from the response.
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
    async fn same_signal_within_a_second_is_an_echo_and_others_are_not() {
        let mut echoes = Echoes::default();
        assert!(!echoes.is_echo(Signal::SIGTERM));
        assert!(echoes.is_echo(Signal::SIGTERM));
        assert!(!echoes.is_echo(Signal::SIGINT));
        assert!(!echoes.is_echo(Signal::SIGTERM));
        tokio::time::sleep(ECHO).await;
        assert!(!echoes.is_echo(Signal::SIGTERM));
    }

    const INTERVAL: Duration = Duration::from_secs(30);

    /// The duration of a request.
    const RESPONSE_TIME: Duration = Duration::from_millis(200);

    /// The precision of timers.
    const TICK: Duration = Duration::from_millis(1);

    /// The times of the requests of a runner that starts now, until its run is over at `end`, and how
    /// long after `end` the runner notices it.
    async fn poll_until(end: Instant) -> (Vec<Instant>, Duration) {
        let times = std::sync::Mutex::new(Vec::new());
        let request_status = || {
            let now = Instant::now();
            times.lock().unwrap().push(now);
            async move {
                tokio::time::sleep(RESPONSE_TIME).await;
                let status = if now < end { "applying" } else { "cancelled" };
                Ok(RunStatus::from(status.to_owned()))
            }
        };
        let reason = until_over(INTERVAL, request_status).await;
        assert_eq!(reason, StopReason::RunOver { status: "cancelled".to_owned() });
        (times.into_inner().unwrap(), end.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn runners_spread_their_requests_and_notice_the_end_within_the_interval() {
        let begin = Instant::now();
        let end = begin + INTERVAL * 20;
        let runners = futures_util::future::join_all((0..100).map(|_| poll_until(end))).await;
        for (times, delay) in &runners {
            let all = [&[begin], times.as_slice()].concat();
            let longest = all.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
            assert!(longest <= INTERVAL + TICK, "{longest:?}");
            assert!(*delay <= INTERVAL + RESPONSE_TIME + TICK * 2, "{delay:?}");
        }
        // With an even spread, about 5 of 100 runners send a request in a twentieth of the interval.
        // Without a spread, all or none of them do.
        for round in 0..20 {
            let from = begin + INTERVAL * 5 + INTERVAL / 20 * round;
            let within = |time: &&Instant| (from..from + INTERVAL / 20).contains(*time);
            let together =
                runners.iter().flat_map(|(times, _)| times.iter().filter(within)).count();
            assert!(
                together <= 30,
                "{together} of 100 requests in the same twentieth of the interval"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn retry_after_of_a_failing_registry_is_honoured_up_to_a_minute() {
        let times = std::sync::Mutex::new(Vec::new());
        let request_status = || {
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
        until_over(INTERVAL, request_status).await;
        let times = times.into_inner().unwrap();
        let waits: Vec<_> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(waits[0] <= INTERVAL + TICK, "{waits:?}");
        assert_eq!(waits[1..], [Duration::from_secs(45), LONGEST_REST]);
    }
}
