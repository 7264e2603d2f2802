//! Runs as Jobs in a Kubernetes cluster: `generate kubernetes`, which prints one or carries it out
//! (`--apply`), `trigger kubernetes`, which only starts it, and `ci-status kubernetes`, which reads it back.

mod apply;
mod job;
mod look;
mod start;
mod values;

use std::io::Write;
use std::sync::Arc;

use tracing_appender::non_blocking::WorkerGuard;

pub(super) use apply::Kubernetes;
pub(super) use look::Look;
pub(super) use start::Start;

use super::{complain, logging};
use crate::run::Exit;
use crate::screen::Screen;
use crate::settings::{Arguments, Environment, HandedOn, Logging, SettingsError};
use butler_base::error::{Advice, chain};
use butler_base::secret::Redactor;
use butler_start::cluster::{ClusterError, Progress, Run};

/// A run that is handed on to a cluster, and the log of doing so.
struct Handing {
    run: Run,
    redactor: Arc<Redactor>,
    log: WorkerGuard,
}

impl Handing {
    fn of(arguments: &Arguments, environment: &Environment) -> Result<Self, SettingsError> {
        let logging = Logging::resolve(arguments, environment)?;
        let HandedOn { endpoint, run_id, token, warnings, .. } =
            HandedOn::resolve(arguments, environment)?;
        let redactor = Arc::new(Redactor::new());
        redactor.register([&token]);
        let log = logging::start(&logging, environment, &redactor, &Screen::default());
        for warning in warnings {
            tracing::warn!("{warning}");
        }
        let run = Run { endpoint: endpoint.to_string(), id: run_id.to_string(), token };
        Ok(Self { run, redactor, log })
    }
}

/// Prints an answer for programs; `code` where it could be.
fn say(progress: &Progress, code: u8) -> u8 {
    let text = serde_json::to_string(progress).unwrap_or_default();
    match writeln!(std::io::stdout(), "{text}") {
        Ok(()) => code,
        Err(_) => Exit::Failed.code(),
    }
}

/// What a command ends with: its exit code, and what is said last.
struct Ending {
    code: u8,
    complaint: Option<(String, Option<String>)>,
}

impl Ending {
    const fn well() -> Self {
        Self { code: 0, complaint: None }
    }

    const fn with(code: u8, message: String, hint: Option<String>) -> Self {
        Self { code, complaint: Some((message, hint)) }
    }

    fn because(error: &ClusterError, code: u8) -> Self {
        Self::with(code, chain(error), error.advice())
    }

    /// Says it, without secrets, and behind everything that was logged before: the log is written by a
    /// thread of its own, which ends here.
    fn say(self, redactor: &Redactor, log: WorkerGuard) -> u8 {
        drop(log);
        if let Some((message, hint)) = self.complaint {
            let shown = redactor.redact(message.as_bytes());
            complain(&shown, hint.as_deref());
        }
        self.code
    }
}
