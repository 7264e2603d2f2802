//! `follower`: the followers of a server.

use std::fmt::Write as _;
use std::io::Write as _;
use std::time::{Duration, Instant};

use butler_follower::Phase;
use butler_follower::status::{EventStatus, FollowerStatus, events_table, status_table};
use clap::{Args, Subcommand};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::ClientFlags;
use super::client::{Client, EXIT_CODES, Failure, part, with_client};
use super::follow::RESTART;
use super::follower_install::{Change, Install};
use super::show::text;
use crate::cli::flags::Flags;
use crate::cli::generate::values::timeout;
use crate::cli::output::print;
use crate::exit::Exit;
use crate::settings::{Arguments, Environment};

/// The time between two requests about a follower that is waited for.
const LOOK: Duration = Duration::from_secs(1);

/// The most followers whose timings are printed at once.
const MOST_TIMINGS: usize = 10;

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
    },
    /// Show the ends of the logs of a stage
    Logs {
        /// The follower
        #[arg(long, value_name = "ID")]
        follower: String,
        /// The stage; by default the one that is in flight, else the one that failed, else the last one
        #[arg(long, value_name = "NAME")]
        stage: Option<String>,
    },
    /// Show the last decisions about a follower
    Events {
        /// The follower
        #[arg(long, value_name = "ID")]
        follower: String,
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
            Command::Ask(ask) => with_client(self.flags, log, environment, async |client| {
                ask.ask(client, json).await
            }),
        }
    }
}

impl Ask {
    async fn ask(&self, client: &Client, json: bool) -> Result<u8, Failure> {
        match self {
            Self::Status { follower, live } => {
                let followers = if *live {
                    run_each(client, follower.as_deref(), &json!({"dryRun": true})).await?
                } else {
                    statuses(client, follower.as_deref()).await?
                };
                show(&followers, json)
            }
            Self::RunOnce { which, how, wait, timeout } => {
                let body = json!({"dryRun": how.dry_run, "confirm": how.confirm});
                let mut followers = run_each(client, which.follower.as_deref(), &body).await?;
                if *wait {
                    let end = Instant::now() + *timeout;
                    for follower in &mut followers {
                        *follower = wait_for(client, follower.clone(), end).await?;
                    }
                }
                let printed = show(&followers, json)?;
                let has_failed = *wait && !followers.iter().all(is_delivered);
                Ok(if has_failed { Exit::Failed.code() } else { printed })
            }
            Self::Logs { follower, stage } => {
                let query = stage.as_deref().map(|stage| format!("?stage={}", part(stage)));
                let query = query.unwrap_or_default();
                let answer =
                    client.get(&format!("/followers/{}/logs{query}", part(follower))).await?;
                let text = if json { format!("{answer:#}\n") } else { logs(&answer) };
                Ok(print(text.as_bytes()))
            }
            Self::Events { follower } => {
                let answer = client.get(&format!("/followers/{}/events", part(follower))).await?;
                if json {
                    return Ok(print(format!("{answer:#}\n").as_bytes()));
                }
                let events: Vec<EventStatus> = parsed(answer["items"].clone())?;
                Ok(print(events_table(&events).as_bytes()))
            }
        }
    }
}

/// Makes the server look at one follower, or at each one.
async fn run_each(
    client: &Client,
    follower: Option<&str>,
    body: &Value,
) -> Result<Vec<FollowerStatus>, Failure> {
    let ids = match follower {
        Some(id) => vec![id.to_owned()],
        None => statuses(client, None).await?.into_iter().map(|follower| follower.id).collect(),
    };
    let mut followers = Vec::new();
    for id in ids {
        followers.push(run_once(client, &id, body).await?);
    }
    Ok(followers)
}

async fn statuses(client: &Client, follower: Option<&str>) -> Result<Vec<FollowerStatus>, Failure> {
    if let Some(id) = follower {
        return Ok(vec![status(client, id).await?]);
    }
    let answer = client.get("/followers").await?;
    for problem in answer["problems"].as_array().into_iter().flatten() {
        note(problem.as_str().unwrap_or_default());
    }
    parsed(answer["items"].clone())
}

async fn status(client: &Client, id: &str) -> Result<FollowerStatus, Failure> {
    parsed(client.get(&format!("/followers/{}", part(id))).await?)
}

/// Makes the server look at a follower.
async fn run_once(client: &Client, id: &str, body: &Value) -> Result<FollowerStatus, Failure> {
    let mut answer = client.post_json(&format!("/followers/{}/run", part(id)), body).await?;
    if let Some(object) = answer["submitted"].as_str() {
        note(&format!("{id}: {object} is submitted"));
    }
    parsed(answer["follower"].take())
}

/// Waits until the commit of a follower is delivered or a stage has failed, at most until `end`. What is blocked can go on.
/// Tells each change on standard error.
async fn wait_for(
    client: &Client,
    mut follower: FollowerStatus,
    end: Instant,
) -> Result<FollowerStatus, Failure> {
    let (mut told, mut reached) = (None, Instant::now());
    loop {
        let now = (follower.phase, follower.message.clone());
        if told.as_ref() != Some(&now) {
            note(&format!("{}: {}: {}", follower.id, now.0.as_str(), now.1));
            told = Some(now);
        }
        match follower.phase {
            Phase::Noop | Phase::Succeeded | Phase::Failed | Phase::Skipped => return Ok(follower),
            Phase::Observed
            | Phase::Blocked
            | Phase::PendingTrigger
            | Phase::Triggering
            | Phase::ClosingOut
            | Phase::Superseded => {}
        }
        if Instant::now() >= end {
            note(&format!("{}: it is not waited for any longer", follower.id));
            return Ok(follower);
        }
        tokio::time::sleep(LOOK).await;
        match status(client, &follower.id).await {
            Ok(found) => (follower, reached) = (found, Instant::now()),
            Err(error) if error.is_unanswered() && reached.elapsed() < RESTART => {}
            Err(error) => return Err(error),
        }
    }
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

fn show(followers: &[FollowerStatus], json: bool) -> Result<u8, Failure> {
    if json {
        let text = serde_json::to_string_pretty(&json!({"followers": followers}))
            .map_err(|error| Failure::refused(error.to_string()))?;
        return Ok(print(format!("{text}\n").as_bytes()));
    }
    let mut text = status_table(followers);
    for follower in followers.iter().take(MOST_TIMINGS) {
        let FollowerStatus { id, message, timings, .. } = follower;
        let _ = write!(text, "\n{id}: {message}\n{}", timings.table());
    }
    if followers.len() > MOST_TIMINGS {
        text.push_str("\n`--follower ID` shows the timings of the others\n");
    }
    Ok(print(text.as_bytes()))
}

fn parsed<T: DeserializeOwned>(value: Value) -> Result<T, Failure> {
    serde_json::from_value(value).map_err(|error| {
        Failure::refused(format!(
            "the server's answer has another form, as of another version: {error}"
        ))
    })
}

/// Tells something beside the answer.
fn note(text: &str) {
    // If standard error is closed, the message is lost.
    let _ = writeln!(std::io::stderr(), "{text}");
}
