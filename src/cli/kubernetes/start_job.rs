//! `trigger kubernetes`: creates the Job of a run, and does not wait for it.

use clap::Args;

use super::command_end::{CommandEnd, print_progress};
use super::job::{JobFlags, NamespaceFlags, RunFlags};
use super::prepared_run::PreparedRun;
use crate::cli::flags::{Flags, merge_arguments};
use crate::cli::output::refuse;
use crate::cli::runtime::block_on;
use crate::exit::Exit;
use crate::settings::{Arguments, Environment};
use butler_cluster::{Cluster, Manifests, create};

/// The arguments of `trigger kubernetes`.
#[derive(Args)]
pub(crate) struct StartJob {
    #[command(flatten)]
    job: JobFlags,
    #[command(flatten)]
    cluster: NamespaceFlags,
    /// The URL of a page about the run; {namespace} and {job} are replaced
    #[arg(long, value_name = "URL")]
    page: Option<String>,
    #[command(flatten)]
    run: Flags<RunFlags>,
}

impl StartJob {
    pub(crate) fn run(self, log: Arguments, environment: &Environment) -> u8 {
        let arguments = merge_arguments(log, self.run.into_arguments());
        let prepared = match PreparedRun::resolve(&arguments, environment) {
            Ok(prepared) => prepared,
            Err(error) => return refuse(&error),
        };
        let PreparedRun { run, redactor, log } = prepared;
        let options = self.job.into_options(self.cluster.namespace.clone());
        let access = self.cluster.cluster.access(environment);
        let started = block_on(async {
            let cluster = Cluster::connect(&access, options.namespace.as_deref()).await?;
            let manifests = Manifests::new(&options, run);
            Box::pin(create(&cluster, manifests, self.page.as_deref())).await
        });
        match started {
            Some(Ok(progress)) => print_progress(&progress, Exit::Success.code()),
            Some(Err(error)) => {
                let exit = if error.is_outcome_unknown() { Exit::Failed } else { Exit::Registry };
                CommandEnd::from_error(&error, exit.code()).report(&redactor, log)
            }
            None => Exit::Failed.code(),
        }
    }
}
