//! Commands about followers from outside of the cluster: a Job with a limited time asks the server inside of it.

use std::io::{ErrorKind, Write as _};
use std::sync::Arc;
use std::time::Duration;

use butler_base::cancel::Stop;
use butler_base::error::{Advice as _, chain};
use butler_base::secret::Redactor;
use butler_cluster::{
    Cluster, ClusterAccess, ClusterError, FOLLOWER_JOB_NAME, Follower, InstalledServer,
    InstalledServerError, Outcome, OutcomeSource, object_name,
};
use clap::Args;
use serde::de::IgnoredAny;

use super::client::UNREACHABLE;
use crate::cli::generate::server::NAMESPACE;
use crate::cli::kubernetes::apply::{Followed, code_of, follow_created};
use crate::cli::kubernetes::command_end::CommandEnd;
use crate::cli::kubernetes::job::ClusterFlags;
use crate::cli::logging;
use crate::cli::output::{print, refuse};
use crate::cli::runtime::block_on;
use crate::exit::Exit;
use crate::screen::Screen;
use crate::settings::{Arguments, Environment, Logging};

/// What a person can name instead.
const ELSEWHERE: &str = "name the server (--server, BUTLER_SERVER), or its cluster (--kubeconfig, --context, --namespace)";

/// The error if neither a server nor a cluster is known.
const NOWHERE: &str = "no server is known: none has used the data directory of this user, and no cluster is configured";

/// The hint for an installation without the token.
const INSTALL: &str = "run `butler-runner follower apply --confirm` with --followers and the options of the installation; \
                       `butler-runner follower plan` shows first what would change";

/// How long a Job may take, beside the time that a person allows it to wait: its image is pulled, and the repository of
/// each follower is read.
const LIMIT: Duration = Duration::from_mins(10);

/// The installation that is asked.
#[derive(Args)]
pub(super) struct InstalledServerFlags {
    #[command(flatten)]
    cluster: ClusterFlags,
    /// The namespace of the server in the cluster [default: butler-system]
    #[arg(long, value_name = "NAME", value_parser = object_name)]
    namespace: Option<String>,
}

impl InstalledServerFlags {
    /// Whether one of them is given.
    pub(super) const fn is_given(&self) -> bool {
        self.namespace.is_some() || self.cluster.is_given()
    }

    /// Asks the server with these words of a command line, and follows the Job to its end. It may wait for `wait`.
    /// Returns the exit code.
    pub(super) fn ask(
        self,
        words: &[String],
        (json, wait): (bool, Duration),
        log: &Arguments,
        environment: &Environment,
    ) -> u8 {
        let logging = match Logging::resolve(log, environment) {
            Ok(logging) => logging,
            Err(error) => return refuse(&error),
        };
        let redactor = Arc::new(Redactor::new());
        let log = logging::start(&logging, environment, &redactor, &Screen::default());
        let is_given = self.is_given();
        let namespace = self.namespace.unwrap_or_else(|| NAMESPACE.to_owned());
        let access = self.cluster.access(environment);
        let stop = Stop::new();
        let limit = wait.saturating_add(LIMIT);
        let mut answer = JobAnswer { json, lines: Vec::new(), is_empty: true, missing: None };
        let asked = block_on(ask(&access, &namespace, words, limit, &stop, &mut answer));
        let end = match asked {
            Some(Ok(Followed::Left(end))) => end,
            // Its code is that of the signal.
            Some(Ok(Followed::Lost(end))) if stop.reason().is_some() => end,
            Some(Ok(Followed::Lost(end))) => CommandEnd { code: UNREACHABLE, ..end },
            Some(Ok(Followed::Over(outcome))) if stop.reason().is_some() => {
                let left = (outcome.source == OutcomeSource::Open).then_some(outcome);
                let complaint = left.map(|outcome| (outcome.summary, outcome.hint));
                CommandEnd { code: code_of(&stop), complaint }
            }
            Some(Ok(Followed::Over(outcome))) => answer.end(&outcome, &namespace),
            Some(Err(error)) => error.into_end(is_given),
            None => CommandEnd { code: Exit::Failed.code(), complaint: None },
        };
        end.report(&redactor, log)
    }
}

/// Why a server was not asked.
#[derive(Debug, thiserror::Error)]
enum AskError {
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    #[error(transparent)]
    Installation(#[from] InstalledServerError),
}

impl AskError {
    /// What a person is told. If no cluster `is_given`, the one that was asked may not be what was meant.
    fn into_end(self, is_given: bool) -> CommandEnd {
        let elsewhere = (!is_given).then(|| ELSEWHERE.to_owned());
        let (message, hint) = match self {
            Self::Cluster(ClusterError::NoCluster { .. }) if !is_given => {
                (NOWHERE.to_owned(), None)
            }
            Self::Cluster(error) => (chain(&error), error.advice()),
            Self::Installation(error) => {
                let hint = match error {
                    InstalledServerError::NoToken { .. } => Some(INSTALL.to_owned()),
                    InstalledServerError::Missing { .. } => Some(ELSEWHERE.to_owned()),
                    InstalledServerError::Unknown { .. } => None,
                };
                (chain(&error), hint)
            }
        };
        CommandEnd::with(UNREACHABLE, message, hint.or(elsewhere))
    }
}

/// Creates the Job, and follows it.
async fn ask(
    access: &ClusterAccess,
    namespace: &str,
    words: &[String],
    limit: Duration,
    stop: &Stop,
    answer: &mut JobAnswer,
) -> Result<Followed, AskError> {
    let cluster = Cluster::connect(access, Some(namespace)).await?;
    tracing::info!(
        "asking the server in namespace {namespace} of the cluster at {}",
        cluster.server()
    );
    let job = InstalledServer::find(&cluster).await?.command(words, limit);
    let name = job.name().clone();
    let create = job.create(&cluster, stop);
    Ok(Box::pin(follow_created(&cluster, &name, create, false, stop, answer)).await?)
}

/// The log of the Job, which is the answer.
struct JobAnswer {
    json: bool,
    /// The lines of an answer in JSON. An error message has others instead.
    lines: Vec<String>,
    /// Whether no line has come.
    is_empty: bool,
    /// Why the rest cannot be read.
    missing: Option<String>,
}

impl Follower for JobAnswer {
    fn line(&mut self, line: &str) -> std::io::Result<()> {
        self.is_empty = false;
        if self.json {
            self.lines.push(line.to_owned());
            return Ok(());
        }
        let mut out = std::io::stdout().lock();
        match writeln!(out, "{line}").and_then(|()| out.flush()) {
            // The reader has seen enough, as of other commands.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
            written => written,
        }
    }

    fn notice(&mut self, notice: &str) {
        tracing::info!("{notice}");
    }

    fn missing(&mut self, why: &str) {
        self.missing = Some(why.to_owned());
    }
}

impl JobAnswer {
    /// Prints an answer in JSON. Returns the end of the command, as the Job in this namespace ended.
    fn end(self, outcome: &Outcome, namespace: &str) -> CommandEnd {
        let text = self.lines.join("\n");
        let is_json = serde_json::from_str::<IgnoredAny>(&text).is_ok();
        if is_json {
            let printed = print(format!("{text}\n").as_bytes());
            if printed != Exit::Success.code() {
                return CommandEnd { code: printed, complaint: None };
            }
        } else if !text.is_empty() {
            // If standard error is closed, the message is lost.
            let _ = writeln!(std::io::stderr(), "{text}");
        }
        let code = outcome.code;
        // A code of a signal is that of a runner that was ended.
        if outcome.source != OutcomeSource::Runner || code > 128 {
            let message = format!("the Job has not answered: {}", outcome.summary);
            let hint = format!(
                "`kubectl -n {namespace} describe job,pod -l app.kubernetes.io/name={FOLLOWER_JOB_NAME}` shows more"
            );
            return CommandEnd::with(UNREACHABLE, message, Some(hint));
        }
        // A delivery that has failed is an answer.
        if is_json {
            return CommandEnd { code, complaint: None };
        }
        if let Some(why) = self.missing {
            let message = format!(
                "the answer is not complete, because the log of the Job cannot be read: {why}"
            );
            return CommandEnd::with(UNREACHABLE, message, None);
        }
        if code == 0 && (self.is_empty || self.json) {
            let message = "the Job has ended without an answer".to_owned();
            return CommandEnd::with(UNREACHABLE, message, None);
        }
        if code == 0 {
            return CommandEnd::success();
        }
        CommandEnd::with(code, format!("the command in the Job ended with exit code {code}"), None)
    }
}
