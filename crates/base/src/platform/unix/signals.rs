//! Signals that reach this process.

use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, raise, sigaction};
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

/// The signals that ask this process to end.
#[derive(Debug)]
pub struct StopSignals {
    interrupt: Stream,
    terminate: Stream,
    quit: Stream,
    hangup: Option<Stream>,
}

impl StopSignals {
    /// Watches SIGINT, SIGTERM, SIGQUIT and SIGHUP. A SIGHUP that was ignored at the start remains
    /// ignored, because the user started the runner with `nohup`.
    ///
    /// # Errors
    /// If the operating system does not allow it.
    pub fn watch() -> std::io::Result<Self> {
        let hangup = !is_ignored(Signal::SIGHUP);
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            quit: signal(SignalKind::quit())?,
            hangup: hangup.then(|| signal(SignalKind::hangup())).transpose()?,
        })
    }

    /// The next one; none if none can arrive any more.
    pub async fn next(&mut self) -> Option<Signal> {
        tokio::select! {
            Some(()) = self.interrupt.recv() => Some(Signal::SIGINT),
            Some(()) = self.terminate.recv() => Some(Signal::SIGTERM),
            Some(()) = received(self.hangup.as_mut()) => Some(Signal::SIGHUP),
            Some(()) = self.quit.recv() => Some(Signal::SIGQUIT),
            else => None,
        }
    }
}

/// The next of the watched signals; never completes if none are watched.
async fn received(signals: Option<&mut Stream>) -> Option<()> {
    match signals {
        Some(signals) => signals.recv().await,
        None => std::future::pending().await,
    }
}

/// Signals that do not ask the process to end: SIGCHLD, to reap adopted processes, and SIGXFSZ,
/// which would end this process if a file gets too large; the failed write is sufficient.
#[derive(Debug)]
pub struct Chores {
    child: Stream,
    too_large: Stream,
}

impl Chores {
    /// Watches them.
    ///
    /// # Errors
    /// If the operating system does not allow it.
    pub fn watch() -> std::io::Result<Self> {
        Ok(Self {
            child: signal(SignalKind::child())?,
            too_large: signal(SignalKind::from_raw(Signal::SIGXFSZ as i32))?,
        })
    }

    /// Waits until a child may have ended; none if no signal can arrive any more.
    pub async fn child_ended(&mut self) -> Option<()> {
        loop {
            tokio::select! {
                Some(()) = self.child.recv() => return Some(()),
                Some(()) = self.too_large.recv() => {}
                else => return None,
            }
        }
    }
}

/// A signal that ends this process, unless it is ignored.
#[derive(Debug)]
pub struct Ending {
    signal: Signal,
    received: Stream,
}

impl Ending {
    /// Watches SIGINT, SIGTERM and SIGHUP, except for those that are ignored or cannot be watched.
    #[must_use]
    pub fn watch() -> Vec<Self> {
        let signals = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP].into_iter();
        let heeded = signals.filter(|signal| !is_ignored(*signal));
        let watched = heeded.filter_map(|ends| {
            let received = signal(SignalKind::from_raw(ends as i32)).ok()?;
            Some(Self { signal: ends, received })
        });
        watched.collect()
    }

    /// Waits for a signal; none if none can arrive any more.
    pub async fn received(&mut self) -> Option<()> {
        self.received.recv().await
    }

    /// Ends this process with the signal's default action.
    pub fn end(&self) {
        act_by_default(self.signal);
    }
}

/// Runs the default action of a signal.
#[expect(unsafe_code, reason = "std cannot set a disposition")]
pub(super) fn act_by_default(signal: Signal) {
    let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
    // SAFETY: neither disposition runs code that was not there before; both are set in this thread,
    // one after the other.
    unsafe {
        if let Ok(watched) = sigaction(signal, &default) {
            let _ = raise(signal);
            // Reached after SIGCONT.
            let _ = sigaction(signal, &watched);
        }
    }
}

/// Whether this process ignores `signal` now.
#[expect(unsafe_code, reason = "std cannot read a disposition")]
pub(super) fn is_ignored(signal: Signal) -> bool {
    let mut current = std::mem::MaybeUninit::<nix::libc::sigaction>::uninit();
    // SAFETY: without a new action the call changes nothing; it fills `current` if it returns 0.
    unsafe {
        nix::libc::sigaction(signal as i32, std::ptr::null(), current.as_mut_ptr()) == 0
            && current.assume_init().sa_sigaction == nix::libc::SIG_IGN
    }
}
