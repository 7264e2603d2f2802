//! The end of a command for a cluster: its last message and its exit code.

use std::io::Write;

use tracing_appender::non_blocking::WorkerGuard;

use crate::cli::output::complain;
use crate::exit::Exit;
use butler_base::error::{Advice, chain};
use butler_base::secret::Redactor;
use butler_cluster::{ClusterError, Progress};

/// Prints the state of a Job as JSON. Returns `code` if it was printed.
pub(super) fn print_progress(progress: &Progress, code: u8) -> u8 {
    let text = serde_json::to_string(progress).unwrap_or_default();
    match writeln!(std::io::stdout(), "{text}") {
        Ok(()) => code,
        Err(_) => Exit::Failed.code(),
    }
}

/// The end of a command: its exit code and its last message.
pub(in crate::cli) struct CommandEnd {
    pub(in crate::cli) code: u8,
    pub(in crate::cli) complaint: Option<(String, Option<String>)>,
}

impl CommandEnd {
    pub(in crate::cli) const fn success() -> Self {
        Self { code: 0, complaint: None }
    }

    pub(in crate::cli) const fn with(code: u8, message: String, hint: Option<String>) -> Self {
        Self { code, complaint: Some((message, hint)) }
    }

    pub(in crate::cli) fn from_error(error: &ClusterError, code: u8) -> Self {
        Self::with(code, chain(error), error.advice())
    }

    /// Prints the message without secrets. Returns the exit code. Ends the log's thread first, so that the message
    /// comes after all lines of the log.
    pub(in crate::cli) fn report(self, redactor: &Redactor, log: WorkerGuard) -> u8 {
        drop(log);
        if let Some((message, hint)) = self.complaint {
            let shown = redactor.redact(message.as_bytes());
            complain(&shown, hint.as_deref());
        }
        self.code
    }
}
