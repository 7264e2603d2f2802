//! `follower`: the followers of a server.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use butler_base::cancel::Stop;
use butler_follower::Phase;
use butler_follower::status::{EventStatus, FollowerStatus, events_table};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::ClientFlags;
use super::client::{EXIT_CODES, Failure, part, with_arguments};
use super::follower_client::{FollowerClient, note, parsed};
use super::follower_install::{Change, Install};
use super::follower_job::InstalledServerFlags;

use super::show::text;
use crate::cli::flags::{Flags, merge_arguments};
use crate::cli::generate::values::timeout;
use crate::cli::kubernetes::apply::code_of;
use crate::cli::output::print;
use crate::exit::Exit;
use crate::run::signals;
use crate::settings::setting::{DATA, SERVER, SERVER_TOKEN_FILE};
use crate::settings::{Arguments, Environment, Logging, ServerAccess};

#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(in crate::cli) struct FollowerCommand {
    #[command(subcommand)]
    command: Command,
    /// Print JSON
    #[arg(long, visible_alias = "raw", global = true)]
    json: bool,
    #[command(flatten)]
    flags: Flags<ClientFlags>,
}

#[derive(Subcommand)]
enum Command {
    /// Show how the server and its registry of followers in a Kubernetes cluster would change
    Plan {
        #[command(flatten)]
        install: Box<Install>,
    },
    /// Install or update the server and its registry of followers in a Kubernetes cluster
    Apply {
        #[command(flatten)]
        install: Box<Install>,
        /// Change the cluster; otherwise the changes are only shown
        #[arg(long)]
        confirm: bool,
        /// Wait until the server is ready
        #[arg(long, requires = "confirm")]
        wait: bool,
    },
    #[command(flatten)]
    Ask(Ask),
}

/// What is asked of a server.
#[derive(Subcommand)]
enum Ask {
    /// Show the followers, as the server has stored them
    Status {
        /// Only this follower
        #[arg(long, value_name = "ID")]
        follower: Option<String>,
        /// Read the branches and all objects first; triggers nothing
        #[arg(long)]
        live: bool,
        #[command(flatten)]
        server: InstalledServerFlags,
    },
    /// Look at followers now, and trigger what is due
    RunOnce {
        #[command(flatten)]
        which: Which,
        #[command(flatten)]
        how: How,
        /// Wait until the commit is delivered; exit code 1 if a stage failed
        #[arg(long, requires = "confirm")]
        wait: bool,
        /// The longest wait
        #[arg(long, value_name = "DURATION", value_parser = timeout, default_value = "1h", requires = "wait")]
        timeout: Duration,
        #[command(flatten)]
        server: InstalledServerFlags,
    },
    /// Show the ends of the logs of a stage
    Logs {
        /// The follower
        #[arg(long, value_name = "ID")]
        follower: String,
        /// The stage; by default the one that is in flight, else the one that failed, else the last one
        #[arg(long, value_name = "NAME")]
        stage: Option<String>,
        #[command(flatten)]
        server: InstalledServerFlags,
    },
    /// Show the last decisions about a follower
    Events {
        /// The follower
        #[arg(long, value_name = "ID")]
        follower: String,
        #[command(flatten)]
        server: InstalledServerFlags,
    },
}

#[derive(Args)]
#[group(required = true, multiple = false)]
struct Which {
    /// All followers
    #[arg(long)]
    all: bool,
    /// Only this follower
    #[arg(long, value_name = "ID")]
    follower: Option<String>,
}

#[derive(Args)]
#[group(multiple = false)]
struct How {
    /// Show what is due, and trigger nothing
    #[arg(long)]
    dry_run: bool,
    /// Trigger what is due; a failed stage is retried without a wait
    #[arg(long)]
    confirm: bool,
}

impl FollowerCommand {
    pub(in crate::cli) fn run(self, log: Arguments, environment: &Environment) -> u8 {
        let json = self.json;
        match self.command {
            Command::Plan { install } => install.run(Change::Shown, environment),
            Command::Apply { install, confirm, wait } => {
                let change = if confirm { Change::Made { wait } } else { Change::Shown };
                let code = install.run(change, environment);
                if !confirm && code == Exit::Success.code() {
                    note("nothing is changed; `--confirm` applies it");
                }
                code
            }
            Command::Ask(ask) => {
                let arguments = merge_arguments(log, self.flags.into_arguments());
                ask.run(json, &arguments, environment)
            }
        }
    }
}

impl Ask {
    /// Asks the server that is named or on this machine, and otherwise the one in the cluster.
    fn run(self, json: bool, arguments: &Arguments, environment: &Environment) -> u8 {
        let named = [&SERVER, &SERVER_TOKEN_FILE, &DATA];
        let named = named.into_iter().find(|setting| arguments.value(setting).is_some());
        if let Some(setting) = named.filter(|_| self.server().is_given()) {
            let flag = setting.flags[0];
            let message = format!(
                "{flag} names a server, and --kubeconfig, --context and --namespace name that of a cluster"
            );
            return Failure::usage(message, "leave out one of them").report();
        }
        if self.server().is_given() || !ServerAccess::is_known(arguments, environment) {
            let quiet = json || is_quiet(arguments, environment);
            let (words, wait) = (self.words(json, quiet), self.wait());
            return self.into_server().ask(&words, (json, wait), arguments, environment);
        }
        // In the pod of a Job, this process is the first one, which signals do not end by themselves.
        let stop = Stop::new();
        with_arguments(arguments, environment, async |client| {
            let _signals = signals(&stop);
            let followers = FollowerClient { client, quiet: is_quiet(arguments, environment) };
            tokio::select! {
                code = self.ask(&followers, json) => code,
                _ = stop.requested() => Ok(code_of(&stop)),
            }
        })
    }

    const fn server(&self) -> &InstalledServerFlags {
        match self {
            Self::Status { server, .. }
            | Self::RunOnce { server, .. }
            | Self::Logs { server, .. }
            | Self::Events { server, .. } => server,
        }
    }

    fn into_server(self) -> InstalledServerFlags {
        match self {
            Self::Status { server, .. }
            | Self::RunOnce { server, .. }
            | Self::Logs { server, .. }
            | Self::Events { server, .. } => server,
        }
    }

    /// How long it waits for a delivery.
    const fn wait(&self) -> Duration {
        match self {
            Self::RunOnce { wait: true, timeout, .. } => *timeout,
            _ => Duration::ZERO,
        }
    }

    /// The words of a command line that asks the same.
    fn words(&self, json: bool, quiet: bool) -> Vec<String> {
        let flag = |name: &str, is_given: bool| is_given.then(|| format!("--{name}"));
        let value =
            |name: &str, given: Option<&String>| given.map(|given| format!("--{name}={given}"));
        let (command, rest) = match self {
            Self::Status { follower, live, server: _ } => {
                ("status", vec![value("follower", follower.as_ref()), flag("live", *live)])
            }
            Self::RunOnce { which, how, wait, timeout, server: _ } => (
                "run-once",
                vec![
                    flag("all", which.all),
                    value("follower", which.follower.as_ref()),
                    flag("dry-run", how.dry_run),
                    flag("confirm", how.confirm),
                    flag("wait", *wait),
                    value(
                        "timeout",
                        wait.then(|| humantime::format_duration(*timeout).to_string()).as_ref(),
                    ),
                ],
            ),
            Self::Logs { follower, stage, server: _ } => {
                ("logs", vec![value("follower", Some(follower)), value("stage", stage.as_ref())])
            }
            Self::Events { follower, server: _ } => {
                ("events", vec![value("follower", Some(follower))])
            }
        };
        // The log of the Job has what is told beside an answer too.
        let short = quiet.then(|| "-q".to_owned());
        let rest = rest.into_iter().chain([flag("json", json), short]).flatten();
        ["follower", command].map(str::to_owned).into_iter().chain(rest).collect()
    }

    async fn ask(&self, followers: &FollowerClient<'_>, json: bool) -> Result<u8, Failure> {
        match self {
            Self::Status { follower, live, .. } => {
                let answer = if *live {
                    followers.run_each(follower.as_deref(), &json!({"dryRun": true})).await?
                } else {
                    followers.statuses(follower.as_deref()).await?
                };
                answer.show(json)
            }
            Self::RunOnce { which, how, wait, timeout, .. } => {
                let body = json!({"dryRun": how.dry_run, "confirm": how.confirm});
                let mut answer = followers.run_each(which.follower.as_deref(), &body).await?;
                if *wait {
                    let end = Instant::now() + *timeout;
                    for follower in &mut answer.followers {
                        *follower = followers.wait_for(follower.clone(), end).await?;
                    }
                }
                let printed = answer.show(json)?;
                let has_failed = *wait && !answer.followers.iter().all(is_delivered);
                Ok(if has_failed { Exit::Failed.code() } else { printed })
            }
            Self::Logs { follower, stage, .. } => {
                let query = stage.as_deref().map(|stage| format!("?stage={}", part(stage)));
                let query = query.unwrap_or_default();
                let answer = followers
                    .client
                    .get(&format!("/followers/{}/logs{query}", part(follower)))
                    .await?;
                let text = if json { format!("{answer:#}\n") } else { logs(&answer) };
                Ok(print(text.as_bytes()))
            }
            Self::Events { follower, .. } => {
                let answer =
                    followers.client.get(&format!("/followers/{}/events", part(follower))).await?;
                if json {
                    return Ok(print(format!("{answer:#}\n").as_bytes()));
                }
                let events: Vec<EventStatus> = parsed(answer["items"].clone())?;
                Ok(print(events_table(&events).as_bytes()))
            }
        }
    }
}

/// Whether only answers are printed (`-q`).
fn is_quiet(arguments: &Arguments, environment: &Environment) -> bool {
    let logging = Logging::resolve(arguments, environment);
    logging.is_ok_and(|logging| ["warn", "error", "off"].contains(&logging.filter.as_str()))
}

/// The logs of a stage.
fn logs(answer: &Value) -> String {
    let mut shown = String::new();
    let (stage, object) = (text(&answer["stage"]), text(&answer["object"]));
    let _ = writeln!(shown, "{stage}: {object}");
    for line in [&answer["message"], &answer["hint"]].map(text) {
        if !line.is_empty() {
            let _ = writeln!(shown, "{line}");
        }
    }
    let items = answer["items"].as_array().into_iter().flatten();
    for item in items {
        let (pod, container) = (text(&item["pod"]), text(&item["container"]));
        let _ = writeln!(shown, "\n==> {pod} {container} <==");
        match item["error"].as_str() {
            Some(error) => {
                let _ = writeln!(shown, "cannot read the log: {error}");
            }
            None => shown.push_str(&text(&item["text"])),
        }
    }
    shown
}

fn is_delivered(follower: &FollowerStatus) -> bool {
    matches!(follower.phase, Phase::Noop | Phase::Succeeded)
}
