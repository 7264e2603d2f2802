//! `run`: the runs of a server.

use std::io::Write as _;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::Value;

use super::ClientFlags;
use super::client::{Client, EXIT_CODES, Failure, part};
use super::show::{self, text};
use crate::cli::flags::{Flags, merge_arguments};
use crate::cli::output::{print, refuse};
use crate::cli::runtime::block_on;
use crate::exit::Exit;
use crate::settings::{Arguments, Environment, ServerAccess};

/// The time between two requests about a run that is waited for.
const FOLLOW: Duration = Duration::from_millis(500);

#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(in crate::cli) struct RunCommand {
    #[command(subcommand)]
    command: Command,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
    #[command(flatten)]
    flags: Flags<ClientFlags>,
}

#[derive(Subcommand)]
enum Command {
    /// List the runs of a layer, the newest first
    List {
        /// The layer
        layer: String,
    },
    /// Show a run
    Show {
        /// The run
        id: String,
        /// Print the plan instead
        #[arg(long)]
        plan: bool,
    },
    /// Print the log of a run
    Logs {
        /// The run
        id: String,
        /// The attempt; the newest one if not given
        #[arg(long, value_name = "NUMBER")]
        attempt: Option<u32>,
        /// Go on until the run has ended
        #[arg(long)]
        follow: bool,
    },
    /// Cancel a run: it does not start, or its attempt is stopped
    Cancel {
        /// The run
        id: String,
        /// Wait until the run has ended; exit code 1 if it was not cancelled
        #[arg(long)]
        wait: bool,
    },
}

impl RunCommand {
    pub(in crate::cli) fn run(self, log: Arguments, environment: &Environment) -> u8 {
        let arguments = merge_arguments(log, self.flags.into_arguments());
        let access = match ServerAccess::resolve(&arguments, environment) {
            Ok(access) => access,
            Err(error) => return refuse(&error),
        };
        let json = self.json;
        let done = block_on(async { self.command.run(&Client::new(access)?, json).await });
        match done {
            Some(Ok(code)) => code,
            Some(Err(failure)) => failure.report(),
            None => Exit::Failed.code(),
        }
    }
}

impl Command {
    async fn run(&self, client: &Client, json: bool) -> Result<u8, Failure> {
        let (answer, show): (Value, fn(&Value) -> String) = match self {
            Self::List { layer } => {
                (client.list(&format!("/runs?layer={}", part(layer))).await?, show::runs)
            }
            Self::Show { id, plan: true } => {
                let plan = client.text(&format!("/runs/{}/plan", part(id))).await?;
                return Ok(print(format!("{}\n", plan.trim_end()).as_bytes()));
            }
            Self::Show { id, plan: false } => {
                (client.get(&format!("/runs/{}", part(id))).await?, show::run)
            }
            Self::Logs { id, attempt, follow } => return logs(client, id, *attempt, *follow).await,
            Self::Cancel { id, wait } => (cancel(client, id, *wait).await?, show::cancelled),
        };
        let text = if json { format!("{answer:#}") } else { show(&answer) };
        Ok(print(format!("{text}\n").as_bytes()))
    }
}

/// Prints the log, and with `follow` also what is added to it.
async fn logs(
    client: &Client,
    id: &str,
    attempt: Option<u32>,
    follow: bool,
) -> Result<u8, Failure> {
    let attempt = attempt.map(|number| format!("&attempt={number}")).unwrap_or_default();
    let mut after = 0;
    loop {
        // Asked before the log is read, so that the last lines are not missed.
        let run = client.get(&format!("/runs/{}", part(id))).await?;
        let lines = client.get(&format!("/runs/{}/logs?after={after}{attempt}", part(id))).await?;
        for line in lines["items"].as_array().into_iter().flatten() {
            after = line["sequence"].as_u64().unwrap_or(after).max(after);
            let code = print(format!("{}\n", text(&line["content"])).as_bytes());
            if code != Exit::Success.code() {
                return Ok(code);
            }
        }
        let has_more = !lines["next"].is_null();
        let waits = follow && goes_on(&run);
        if !(has_more || waits) {
            if let Some(count) = lines["leftOut"]["lines"].as_u64() {
                let text = "further lines were not kept: the log has reached `max-log`";
                let _ = writeln!(std::io::stderr(), "{count} {text}");
            }
            let is_success = !follow || run["phase"] == "Succeeded";
            return Ok(if is_success { Exit::Success.code() } else { Exit::Failed.code() });
        }
        if !has_more {
            tokio::time::sleep(FOLLOW).await;
        }
    }
}

/// Whether a run waits for an attempt, or has one that has not ended.
fn goes_on(run: &Value) -> bool {
    matches!(run["phase"].as_str(), Some("PendingTrigger" | "Triggering" | "ClosingOut"))
}

/// Cancels a run, and with `wait` waits for its end. Returns the run.
async fn cancel(client: &Client, id: &str, wait: bool) -> Result<Value, Failure> {
    let mut run = client.post(&format!("/runs/{}/cancel", part(id))).await?;
    while wait && goes_on(&run) {
        tokio::time::sleep(FOLLOW).await;
        run = client.get(&format!("/runs/{}", part(id))).await?;
    }
    if wait && run["ended"] != "cancelled" {
        let how = run["ended"].as_str().unwrap_or("succeeded");
        return Err(Failure::refused(format!("the run {id} ended before it was cancelled: {how}")));
    }
    Ok(run)
}
