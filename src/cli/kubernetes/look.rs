//! `ci-status kubernetes`: reads back how a run's Job stands.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use tokio::time::Instant;

use super::ending::{Ending, say};
use super::job::ClusterFlags;
use super::values::place;
use crate::cli::generate::values::timeout;
use crate::cli::logging;
use crate::cli::output::refuse;
use crate::cli::runtime::block_on;
use crate::exit::Exit;
use crate::screen::Screen;
use crate::settings::{Arguments, Environment, Logging};
use butler_base::secret::Redactor;
use butler_start::cluster::{Cluster, JobName, status};

/// The default of `--timeout`.
const USUAL_WAIT: Duration = Duration::from_hours(24);
/// Longer than that is for ever; clocks cannot count all that can be typed in.
const LONGEST_WAIT: Duration = Duration::from_hours(24 * 366);

/// Says how a run's Job stands: `ci-status kubernetes`.
#[derive(Args)]
pub(crate) struct Look {
    /// NAMESPACE/JOB: `externalRunId` of trigger
    #[arg(long, value_name = "ID", value_parser = place)]
    external_run_id: (String, String),
    /// Wait until the run has ended
    #[arg(long)]
    wait: bool,
    /// How long to wait [default: 24h]
    #[arg(long, value_name = "DURATION", value_parser = timeout)]
    timeout: Option<Duration>,
    #[command(flatten)]
    cluster: ClusterFlags,
    /// The URL of a page about the run; {namespace} and {job} are replaced
    #[arg(long, value_name = "URL")]
    page: Option<String>,
}

impl Look {
    /// `not_over` is the exit code for a run that is under way.
    pub(crate) fn run(self, log: &Arguments, environment: &Environment, not_over: u8) -> u8 {
        let logging = match Logging::resolve(log, environment) {
            Ok(logging) => logging,
            Err(error) => return refuse(&error),
        };
        let redactor = Arc::new(Redactor::new());
        let log = logging::start(&logging, environment, &redactor, &Screen::default());
        let access = self.cluster.access(environment);
        let (namespace, job) = self.external_run_id;
        let looked = block_on(async {
            let cluster = Cluster::connect(&access, Some(&namespace)).await?;
            let limit = self.timeout.unwrap_or(USUAL_WAIT).min(LONGEST_WAIT);
            let deadline = self.wait.then(|| Instant::now() + limit);
            status(&cluster, &JobName::given(job), self.page.as_deref(), deadline).await
        });
        match looked {
            Some(Ok(progress)) => {
                let code = match progress.status {
                    Some("succeeded") => Exit::Success.code(),
                    Some("cancelled") => Exit::Cancelled.code(),
                    _ if progress.is_over() => Exit::Failed.code(),
                    _ => not_over,
                };
                say(&progress, code)
            }
            Some(Err(error)) => Ending::because(&error, Exit::Registry.code()).say(&redactor, log),
            None => Exit::Failed.code(),
        }
    }
}
