//! `generate kubernetes`: prints the objects of a run, or creates them and follows the run.

use std::io::Write;

use clap::{Args, ValueEnum};

use super::command_end::CommandEnd;
use super::job::{JobFlags, NamespaceFlags, RunFlags};
use super::prepared_run::PreparedRun;
use crate::cli::flags::{Flags, merge_arguments};
use crate::cli::generate::destination::{Destination, Readers};
use crate::cli::output::{complain, refuse};
use crate::cli::runtime::block_on;
use crate::exit::Exit;
use crate::run::signals;
use crate::settings::{Arguments, Environment, cluster_template};
use butler_base::cancel::{Stop, StopReason};
use butler_base::error::{Advice, chain};
use butler_cluster::{
    Cluster, ClusterError, CreatedJob, Follower, JobName, JobOptions, Manifests, Outcome, apply,
    check, follow,
};

/// The exit codes, for `--help`.
const EXIT_CODES: &str = "Exit codes: 0 printed, created, or the run succeeded; with --apply the \
exit code of the runner in the pod, or 1 if it is unknown; 2 usage, 128+n stopped by signal n";

/// A Job for a Kubernetes cluster; with --apply, create it and follow the run to its end
#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Kubernetes {
    #[command(flatten)]
    job: JobFlags,
    /// Create the Job in the cluster of the kubeconfig or of the pod's service account, and follow the run
    #[arg(long, conflicts_with_all = ["output", "force"])]
    apply: bool,
    /// Do not follow the run
    #[arg(long, requires = "apply")]
    detach: bool,
    /// Validate the objects and a pod of the Job in the cluster without creating them
    #[arg(long, requires = "apply", value_name = "WHERE")]
    dry_run: Option<DryRun>,
    #[command(flatten)]
    cluster: NamespaceFlags,
    #[command(flatten)]
    run: Flags<RunFlags>,
    #[command(flatten)]
    output: Destination,
    /// The flag for secrets of other targets. It exists only for an error message with the alternative.
    #[arg(long = "secret", value_name = "NAME", hide = true, value_parser = refuse_secret)]
    _secret: Option<String>,
}

fn refuse_secret(_: &str) -> Result<String, &'static str> {
    Err("name a Secret of the cluster with `--env-from` or `--mount-secret` instead")
}

#[derive(Clone, Copy, ValueEnum)]
enum DryRun {
    /// In the cluster, with its policies and quotas
    Server,
}

impl Kubernetes {
    pub(crate) fn run(self, log: Arguments, environment: &Environment) -> u8 {
        let arguments = merge_arguments(log, self.run.into_arguments());
        let options = self.job.into_options(self.cluster.namespace.clone());
        if !self.apply {
            return print(&options, &arguments, &self.output);
        }
        // Only `--apply` needs a token, so printing works without one.
        let prepared = match PreparedRun::resolve(&arguments, environment) {
            Ok(prepared) => prepared,
            Err(error) => return refuse(&error),
        };
        let PreparedRun { run, redactor, log } = prepared;
        let access = self.cluster.cluster.access(environment);
        // Outside of the block, because the exit code after an error depends on the signal.
        let stop = Stop::new();
        let result = block_on(async {
            let cluster = Cluster::connect(&access, options.namespace.as_deref()).await?;
            let manifests = Manifests::new(&options, run);
            if let Some(DryRun::Server) = self.dry_run {
                return dry_run(&cluster, &manifests).await;
            }
            Box::pin(create_and_follow(&cluster, manifests, self.detach, &stop)).await
        });
        let end = match result {
            Some(Ok(end)) => end,
            Some(Err(error)) => CommandEnd::from_error(&error, code_of(&stop)),
            None => CommandEnd { code: Exit::Failed.code(), complaint: None },
        };
        end.report(&redactor, log)
    }
}

/// Validates the objects in the cluster, and logs the skipped checks.
async fn dry_run(cluster: &Cluster, manifests: &Manifests) -> Result<CommandEnd, ClusterError> {
    let unchecked = check(cluster, manifests).await?;
    let (namespace, name) = (cluster.namespace(), manifests.name());
    tracing::info!("the cluster would accept the Job {name} in namespace {namespace}");
    for what in unchecked {
        tracing::info!("not checked: {what}");
    }
    Ok(CommandEnd::success())
}

fn print(options: &JobOptions, arguments: &Arguments, output: &Destination) -> u8 {
    let run = match cluster_template(arguments) {
        Ok(run) => run,
        Err(error) => return refuse(&error),
    };
    match Manifests::new(options, run).to_yaml() {
        // The user replaces a placeholder in the file by a token.
        Ok(text) => output.write(&text, Readers::Owner),
        Err(error) => {
            complain(&format!("an object is broken (a bug): {error}"), None);
            Exit::Failed.code()
        }
    }
}

/// Creates the objects and, unless `detach`ed, follows the run.
async fn create_and_follow(
    cluster: &Cluster,
    manifests: Manifests,
    detach: bool,
    stop: &Stop,
) -> Result<CommandEnd, ClusterError> {
    let name = manifests.name();
    let create = apply(cluster, manifests, stop);
    let mut terminal = TerminalFollower;
    let followed = Box::pin(follow_created(cluster, &name, create, detach, stop, &mut terminal));
    Ok(match followed.await? {
        Followed::Left(end) | Followed::Lost(end) => end,
        Followed::Over(Outcome { code: 0, summary, .. }) => {
            tracing::info!("{summary}");
            CommandEnd::success()
        }
        Followed::Over(Outcome { code, summary, hint, .. }) => {
            CommandEnd::with(code, summary, hint)
        }
    })
}

/// How a Job was followed.
pub(in crate::cli) enum Followed {
    /// Not to its end: that was not wanted, or it was not created.
    Left(CommandEnd),
    /// Not to its end, because the cluster did not answer.
    Lost(CommandEnd),
    /// To its end.
    Over(Outcome),
}

/// Follows the Job that `create` creates, unless `detach`ed.
pub(in crate::cli) async fn follow_created(
    cluster: &Cluster,
    name: &JobName,
    create: impl Future<Output = Result<CreatedJob, ClusterError>>,
    detach: bool,
    stop: &Stop,
    follower: &mut dyn Follower,
) -> Result<Followed, ClusterError> {
    // Signals are handled before the first object is created, so that an interrupted start is reported.
    let _signals = match signals(stop) {
        Ok(watch) => watch,
        Err(error) => {
            let message = format!("cannot watch for signals: {error}");
            return Ok(Followed::Left(CommandEnd::with(Exit::Failed.code(), message, None)));
        }
    };
    let created = tokio::select! {
        created = create => created?,
        () = stop.urgent() => {
            let message = format!("interrupted while creating the Job `{name}`: unclear whether it exists");
            return Ok(Followed::Left(CommandEnd::with(code_of(stop), message, None)));
        }
    };
    let namespace = cluster.namespace();
    tracing::info!("created the Job {name} in namespace {namespace}");
    // If a stop was requested in the meantime, following the run deletes the Job.
    if detach && stop.reason().is_none() {
        return Ok(Followed::Left(CommandEnd::success()));
    }
    Ok(match follow(cluster, &created, stop, follower).await {
        Ok(outcome) => Followed::Over(outcome),
        Err(error) => {
            let why = chain(&error);
            let message = format!(
                "cannot follow the Job `{name}` in namespace `{namespace}`, which continues: {why}"
            );
            Followed::Lost(CommandEnd::with(code_of(stop), message, error.advice()))
        }
    })
}

/// The exit code after a signal.
pub(in crate::cli) fn code_of(stop: &Stop) -> u8 {
    match stop.reason() {
        Some(StopReason::Signal(signal)) => Exit::Signal(signal).code(),
        _ => Exit::Failed.code(),
    }
}

/// Prints the run's log to standard output, and notices about the cluster to the runner's own log.
struct TerminalFollower;

impl Follower for TerminalFollower {
    fn line(&mut self, line: &str) -> std::io::Result<()> {
        let mut out = std::io::stdout().lock();
        writeln!(out, "{line}")?;
        out.flush()
    }

    fn notice(&mut self, notice: &str) {
        tracing::info!("{notice}");
    }
}
