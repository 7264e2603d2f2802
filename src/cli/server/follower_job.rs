//! Commands about followers from outside of the cluster: a Job with a limited time asks the server inside of it.

use std::sync::Arc;
use std::time::Duration;

use butler_base::cancel::Stop;
use butler_base::error::chain;
use butler_base::secret::Redactor;
use butler_cluster::{
    Cluster, ClusterAccess, ClusterError, InstalledServer, InstalledServerError, object_name,
};
use clap::Args;

use super::client::UNREACHABLE;
use crate::cli::kubernetes::apply::{code_of, follow_created};
use crate::cli::kubernetes::command_end::CommandEnd;
use crate::cli::kubernetes::job::ClusterFlags;
use crate::cli::logging;
use crate::cli::output::refuse;
use crate::cli::runtime::block_on;
use crate::exit::Exit;
use crate::screen::Screen;
use crate::settings::{Arguments, Environment, Logging};

/// The default of `--namespace`, as in `generate server`.
const NAMESPACE: &str = "butler-system";

/// How long a Job may take, beside the time that a person allows it to wait: its image is pulled, and the repository of
/// each follower is read.
const LIMIT: Duration = Duration::from_mins(10);

/// The installation that is asked.
#[derive(Args)]
pub(super) struct InstallationPlace {
    #[command(flatten)]
    cluster: ClusterFlags,
    /// The namespace of the server in the cluster [default: butler-system]
    #[arg(long, value_name = "NAME", value_parser = object_name)]
    namespace: Option<String>,
}

impl InstallationPlace {
    /// Whether it is named on the command line.
    pub(super) const fn is_given(&self) -> bool {
        self.namespace.is_some() || self.cluster.is_given()
    }

    /// Asks the server with these words of a command line, and follows the Job to its end. It may wait for `wait`.
    /// Returns the exit code.
    pub(super) fn ask(
        self,
        words: &[String],
        wait: Duration,
        log: &Arguments,
        environment: &Environment,
    ) -> u8 {
        let logging = match Logging::resolve(log, environment) {
            Ok(logging) => logging,
            Err(error) => return refuse(&error),
        };
        let redactor = Arc::new(Redactor::new());
        let log = logging::start(&logging, environment, &redactor, &Screen::default());
        let is_cluster_named = self.is_given();
        let namespace = self.namespace.unwrap_or_else(|| NAMESPACE.to_owned());
        let access = self.cluster.access(environment);
        let stop = Stop::new();
        let limit = wait.saturating_add(LIMIT);
        let asked = block_on(ask(&access, &namespace, words, limit, &stop));
        let end = match asked {
            Some(Ok(end)) => end,
            Some(Err(error)) => error.into_end(is_cluster_named, code_of(&stop)),
            None => CommandEnd { code: Exit::Failed.code(), complaint: None },
        };
        end.report(&redactor, log)
    }
}

/// Why a server was not asked.
enum AskError {
    Cluster(ClusterError),
    Installation(InstalledServerError),
}

impl From<ClusterError> for AskError {
    fn from(error: ClusterError) -> Self {
        Self::Cluster(error)
    }
}

impl From<InstalledServerError> for AskError {
    fn from(error: InstalledServerError) -> Self {
        Self::Installation(error)
    }
}

impl AskError {
    /// What a person is told. The cluster may not be what was meant, if none is named.
    fn into_end(self, is_cluster_named: bool, code: u8) -> CommandEnd {
        let elsewhere = "name the server (--server, BUTLER_SERVER), or its cluster (--kubeconfig, --context, --namespace)";
        match self {
            Self::Cluster(ClusterError::NoCluster { .. }) if !is_cluster_named => {
                let message = "no server is known: none has used a data directory of this machine, and no cluster is configured";
                CommandEnd::with(UNREACHABLE, message.to_owned(), Some(elsewhere.to_owned()))
            }
            Self::Cluster(error) => CommandEnd::from_error(&error, code),
            Self::Installation(error) => {
                let hint = match &error {
                    InstalledServerError::Missing { .. } => Some(elsewhere),
                    InstalledServerError::NoToken { .. } => {
                        Some("install it again with `butler-runner follower apply --confirm`")
                    }
                    InstalledServerError::Unknown { .. } => None,
                };
                CommandEnd::with(UNREACHABLE, chain(&error), hint.map(str::to_owned))
            }
        }
    }
}

async fn ask(
    access: &ClusterAccess,
    namespace: &str,
    words: &[String],
    limit: Duration,
    stop: &Stop,
) -> Result<CommandEnd, AskError> {
    let cluster = Cluster::connect(access, Some(namespace)).await?;
    let job = InstalledServer::find(&cluster).await?.command(words, limit);
    let name = job.name().clone();
    let create = job.create(&cluster, stop);
    Ok(Box::pin(follow_created(&cluster, &name, create, false, stop)).await?)
}
