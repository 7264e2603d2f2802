//! Console events, with the names of Unix signals.

use tokio::signal::windows::{
    CtrlBreak, CtrlC, CtrlClose, CtrlLogoff, CtrlShutdown, ctrl_break, ctrl_c, ctrl_close,
    ctrl_logoff, ctrl_shutdown,
};

use super::console::ensure_console;

/// The events that ask a process to end, by the equivalent signal on Unix. The exit codes contain
/// these numbers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(i32)]
pub enum Signal {
    /// The console was closed.
    SIGHUP = 1,
    /// Ctrl-C.
    SIGINT = 2,
    /// SIGKILL, which a process cannot handle.
    SIGKILL = 9,
    /// Ctrl-Break, a logoff, or a shutdown.
    SIGTERM = 15,
}

impl Signal {
    /// The name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::SIGHUP => "SIGHUP",
            Self::SIGINT => "SIGINT",
            Self::SIGKILL => "SIGKILL",
            Self::SIGTERM => "SIGTERM",
        }
    }
}

impl std::fmt::Display for Signal {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// The events that ask this process to end.
#[derive(Debug)]
pub struct StopSignals {
    interrupt: CtrlC,
    terminate: CtrlBreak,
    close: CtrlClose,
    logoff: CtrlLogoff,
    shutdown: CtrlShutdown,
}

impl StopSignals {
    /// Watches them. Windows ends a process a few seconds after its console was closed.
    ///
    /// # Errors
    /// If the operating system does not allow it, or the process does not have a console.
    pub fn watch() -> std::io::Result<Self> {
        ensure_console()?;
        Ok(Self {
            interrupt: ctrl_c()?,
            terminate: ctrl_break()?,
            close: ctrl_close()?,
            logoff: ctrl_logoff()?,
            shutdown: ctrl_shutdown()?,
        })
    }

    /// The next one; none if none can arrive any more.
    pub async fn next(&mut self) -> Option<Signal> {
        tokio::select! {
            Some(()) = self.interrupt.recv() => Some(Signal::SIGINT),
            Some(()) = self.terminate.recv() => Some(Signal::SIGTERM),
            Some(()) = self.close.recv() => Some(Signal::SIGHUP),
            Some(()) = self.logoff.recv() => Some(Signal::SIGTERM),
            Some(()) = self.shutdown.recv() => Some(Signal::SIGTERM),
            else => None,
        }
    }
}

/// The signals that Unix sends when children end; none on Windows.
#[derive(Debug)]
pub struct Chores(());

impl Chores {
    /// Does not watch anything.
    ///
    /// # Errors
    /// Never.
    pub fn watch() -> std::io::Result<Self> {
        Ok(Self(()))
    }

    /// Never completes: processes are not adopted.
    pub async fn child_ended(&mut self) -> Option<()> {
        std::future::pending().await
    }
}

/// Ctrl-C or Ctrl-Break, which end this process.
#[derive(Debug)]
pub struct Ending(StopSignals);

/// The exit code of a process that Ctrl-C has ended (`STATUS_CONTROL_C_EXIT`).
const CONTROL_C_EXIT: i32 = 0xC000_013Au32.cast_signed();

impl Ending {
    /// Watches for them.
    #[must_use]
    pub fn watch() -> Vec<Self> {
        StopSignals::watch().map(Self).into_iter().collect()
    }

    /// Waits for an event; none if none can arrive any more.
    pub async fn received(&mut self) -> Option<()> {
        self.0.next().await.map(|_| ())
    }

    /// Ends this process as the default handler does.
    #[expect(clippy::disallowed_methods, reason = "this is what the event means")]
    pub fn end(&self) {
        std::process::exit(CONTROL_C_EXIT);
    }
}
