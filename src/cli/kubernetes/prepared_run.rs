//! The preparation of a run that a cluster executes.

use std::sync::Arc;

use tracing_appender::non_blocking::WorkerGuard;

use crate::cli::logging;
use crate::screen::Screen;
use crate::settings::{Arguments, Environment, Logging, SettingsError, TriggeredRun};
use butler_base::secret::Redactor;
use butler_cluster::Run;

/// A run for a cluster. Its token is registered with the redactor, and the log of this process is started.
pub(super) struct PreparedRun {
    pub(super) run: Run,
    pub(super) redactor: Arc<Redactor>,
    pub(super) log: WorkerGuard,
}

impl PreparedRun {
    pub(super) fn resolve(
        arguments: &Arguments,
        environment: &Environment,
    ) -> Result<Self, SettingsError> {
        let logging = Logging::resolve(arguments, environment)?;
        let TriggeredRun { endpoint, run_id, token, warnings, .. } =
            TriggeredRun::resolve(arguments, environment)?;
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
