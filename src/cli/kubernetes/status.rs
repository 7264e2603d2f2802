//! `ci-status kubernetes`: prints the status of a run's Job.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use tokio::time::Instant;

use super::command_end::{CommandEnd, print_progress};
use super::job::ClusterFlags;
use super::values::job_reference;
use crate::cli::generate::values::timeout;
use crate::cli::logging;
use crate::cli::output::refuse;
use crate::cli::runtime::block_on;
use crate::exit::Exit;
use crate::screen::Screen;
use crate::settings::{Arguments, Environment, Logging};
use butler_base::secret::Redactor;
use butler_cluster::{Cluster, JobName, status};

/// The default of `--timeout`.
const DEFAULT_WAIT: Duration = Duration::from_hours(24);
/// The limit of `--timeout`, because clocks overflow with very long times.
const LONGEST_WAIT: Duration = Duration::from_hours(24 * 366);

/// The arguments of `ci-status kubernetes`.
#[derive(Args)]
pub(crate) struct KubernetesStatus {
    /// NAMESPACE/JOB: `externalRunId` of trigger
    #[arg(long, value_name = "ID", value_parser = job_reference)]
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

impl KubernetesStatus {
    /// `not_ended` is the exit code for a run that has not ended.
    pub(crate) fn run(self, log: &Arguments, environment: &Environment, not_ended: u8) -> u8 {
        let logging = match Logging::resolve(log, environment) {
            Ok(logging) => logging,
            Err(error) => return refuse(&error),
        };
        let redactor = Arc::new(Redactor::new());
        let log = logging::start(&logging, environment, &redactor, &Screen::default());
        let access = self.cluster.access(environment);
        let (namespace, job) = self.external_run_id;
        let result = block_on(async {
            let cluster = Cluster::connect(&access, Some(&namespace)).await?;
            let limit = self.timeout.unwrap_or(DEFAULT_WAIT).min(LONGEST_WAIT);
            let deadline = self.wait.then(|| Instant::now() + limit);
            status(&cluster, &JobName::from_existing(job), self.page.as_deref(), deadline).await
        });
        match result {
            Some(Ok(progress)) => {
                let code = match progress.status {
                    Some("succeeded") => Exit::Success.code(),
                    Some("cancelled") => Exit::Cancelled.code(),
                    _ if progress.is_over() => Exit::Failed.code(),
                    _ => not_ended,
                };
                print_progress(&progress, code)
            }
            Some(Err(error)) => {
                CommandEnd::from_error(&error, Exit::Registry.code()).report(&redactor, log)
            }
            None => Exit::Failed.code(),
        }
    }
}
