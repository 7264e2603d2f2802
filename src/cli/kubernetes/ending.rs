//! The end of a command for a cluster: its last message and its exit code.

use std::io::Write;

use tracing_appender::non_blocking::WorkerGuard;

use crate::cli::output::complain;
use crate::exit::Exit;
use butler_base::error::{Advice, chain};
use butler_base::secret::Redactor;
use butler_start::cluster::{ClusterError, Progress};

/// Prints an answer for programs; `code` where it could be.
pub(super) fn say(progress: &Progress, code: u8) -> u8 {
    let text = serde_json::to_string(progress).unwrap_or_default();
    match writeln!(std::io::stdout(), "{text}") {
        Ok(()) => code,
        Err(_) => Exit::Failed.code(),
    }
}

/// What a command ends with: its exit code, and what is said last.
pub(super) struct Ending {
    pub(super) code: u8,
    pub(super) complaint: Option<(String, Option<String>)>,
}

impl Ending {
    pub(super) const fn well() -> Self {
        Self { code: 0, complaint: None }
    }

    pub(super) const fn with(code: u8, message: String, hint: Option<String>) -> Self {
        Self { code, complaint: Some((message, hint)) }
    }

    pub(super) fn because(error: &ClusterError, code: u8) -> Self {
        Self::with(code, chain(error), error.advice())
    }

    /// Says it, without secrets, and behind everything that was logged before: the log is written by a
    /// thread of its own, which ends here.
    pub(super) fn say(self, redactor: &Redactor, log: WorkerGuard) -> u8 {
        drop(log);
        if let Some((message, hint)) = self.complaint {
            let shown = redactor.redact(message.as_bytes());
            complain(&shown, hint.as_deref());
        }
        self.code
    }
}
