//! Watches for what ends a run early: signals, and the registry's word.

use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::cancel::{Stop, StopReason, is_ignored};
use crate::process::reap_orphans;
use crate::registry::{Client, Patience, RegistryError, RunStatus};
use crate::report::jittered;

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

/// Asks the run to stop at SIGINT, SIGTERM, SIGHUP or SIGQUIT, and to hurry at the second of them. A
/// SIGHUP that was ignored at the start stays so: whoever starts the runner with `nohup` means it.
///
/// # Errors
/// When the operating system does not let it watch.
pub fn signals(stop: &Stop) -> std::io::Result<Watch> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut quit = signal(SignalKind::quit())?;
    let mut hangup =
        if is_ignored(Signal::SIGHUP) { None } else { Some(signal(SignalKind::hangup())?) };
    let stop = stop.clone();
    let mut echoes = Echoes::default();
    Ok(Watch(tokio::spawn(async move {
        loop {
            let signal = tokio::select! {
                Some(()) = interrupt.recv() => Signal::SIGINT,
                Some(()) = terminate.recv() => Signal::SIGTERM,
                Some(()) = received(hangup.as_mut()) => Signal::SIGHUP,
                Some(()) = quit.recv() => Signal::SIGQUIT,
                else => return,
            };
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

/// Takes the signals that are nobody's wish: SIGCHLD, to reap what this process has adopted, and
/// SIGXFSZ, which would end it where a file gets too large; the write fails, and that is enough.
pub(super) fn chores() -> std::io::Result<Watch> {
    let mut child = signal(SignalKind::child())?;
    let mut too_large = signal(SignalKind::from_raw(Signal::SIGXFSZ as i32))?;
    Ok(Watch(tokio::spawn(async move {
        loop {
            tokio::select! {
                Some(()) = child.recv() => reap_orphans(),
                Some(()) = too_large.recv() => {}
                else => return,
            }
        }
    })))
}

/// The next of the signals that are watched; never where none are.
async fn received(signals: Option<&mut tokio::signal::unix::Signal>) -> Option<()> {
    match signals {
        Some(signals) => signals.recv().await,
        None => std::future::pending().await,
    }
}

/// Asks the registry every `interval`, give or take a tenth, whether the run still goes on: runners
/// that were started together must not ask together.
pub(super) fn cancellation(client: Arc<Client>, stop: &Stop, interval: Duration) -> Watch {
    let stop = stop.clone();
    Watch(tokio::spawn(async move {
        let mut rest = Duration::ZERO;
        loop {
            tokio::time::sleep(jittered(interval).max(rest)).await;
            rest = Duration::ZERO;
            match client.status(Patience::Once).await {
                Ok(RunStatus::Over(status)) => {
                    stop.request(StopReason::RunOver { status });
                    return;
                }
                Err(RegistryError::RunOver) => {
                    stop.request(StopReason::RunOver { status: "409".to_owned() });
                    return;
                }
                Ok(_) => {}
                // It is asked again soon; a registry that stays away shows when something is sent.
                Err(error) => {
                    rest = error.retry_after().unwrap_or_default().min(LONGEST_REST);
                    tracing::debug!(error = %crate::error::chain(&error), "status not known");
                }
            }
        }
    }))
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
}
