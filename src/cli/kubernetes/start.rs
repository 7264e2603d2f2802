//! `trigger kubernetes`: starts a run as a Job, and does not wait for it.

use clap::Args;

use super::ending::{Ending, say};
use super::handover::Handover;
use super::job::{JobFlags, PlaceFlags, RunFlags};
use crate::cli::flags::{Flags, together};
use crate::cli::output::refuse;
use crate::cli::runtime::block_on;
use crate::exit::Exit;
use crate::settings::{Arguments, Environment};
use butler_start::cluster::{Cluster, Manifests, create};

/// Starts a run as a Job, and does not wait for it: `trigger kubernetes`.
#[derive(Args)]
pub(crate) struct Start {
    #[command(flatten)]
    job: JobFlags,
    #[command(flatten)]
    place: PlaceFlags,
    /// The URL of a page about the run; {namespace} and {job} are replaced
    #[arg(long, value_name = "URL")]
    page: Option<String>,
    #[command(flatten)]
    run: Flags<RunFlags>,
}

impl Start {
    pub(crate) fn run(self, log: Arguments, environment: &Environment) -> u8 {
        let arguments = together(log, self.run.into_arguments());
        let handover = match Handover::of(&arguments, environment) {
            Ok(handover) => handover,
            Err(error) => return refuse(&error),
        };
        let Handover { run, redactor, log } = handover;
        let options = self.job.into_options(self.place.namespace.clone());
        let access = self.place.cluster.access(environment);
        let started = block_on(async {
            let cluster = Cluster::connect(&access, options.namespace.as_deref()).await?;
            let manifests = Manifests::new(&options, run);
            Box::pin(create(&cluster, manifests, self.page.as_deref())).await
        });
        match started {
            Some(Ok(progress)) => say(&progress, Exit::Success.code()),
            Some(Err(error)) => {
                let is_undecided = error.is_undecided();
                let exit = if is_undecided { Exit::Failed } else { Exit::Registry };
                Ending::because(&error, exit.code()).say(&redactor, log)
            }
            None => Exit::Failed.code(),
        }
    }
}
