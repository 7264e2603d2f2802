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
use crate::cluster::{ClusterError, Progress, Run};
use crate::error::{Advice, chain};
use crate::run::Exit;
use crate::screen::Screen;
use crate::secret::Redactor;
use crate::settings::{Arguments, Environment, HandedOn, Logging, SettingsError};

/// A run that is handed on to a cluster, and the log of doing so.
struct Handing {
    run: Run,
    redactor: Arc<Redactor>,
    _log: WorkerGuard,
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
        Ok(Self { run, redactor, _log: log })
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

/// Says why the cluster was of no use, without secrets.
fn report(error: &ClusterError, redactor: &Redactor) {
    let message = chain(error);
    let shown = redactor.redact_lines(message.as_bytes());
    complain(&shown, error.advice().as_deref());
}
