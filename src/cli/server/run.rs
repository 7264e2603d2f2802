//! `run`: the runs of a server.

use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::Value;

use super::ClientFlags;
use super::client::{Client, EXIT_CODES, Failure, part, with_client};
use super::follow::{Log, follow, note_left_out};
use super::show::{self, text};
use crate::cli::flags::Flags;
use crate::cli::output::print;
use crate::exit::Exit;
use crate::settings::{Arguments, Environment};

/// The time between two requests about a run that is cancelled.
const LOOK: Duration = Duration::from_millis(500);

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
    /// List the runs of a layer, or the newest runs of all layers; the newest first
    List {
        /// The layer; all layers if not given
        layer: Option<String>,
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
        /// Go on until the run is over, also through further attempts; exit code 1 if it failed
        #[arg(long)]
        follow: bool,
    },
    /// Let a run start although a window forbids it
    OverrideWindow {
        /// The run
        id: String,
        /// The reason, which is kept with the run
        #[arg(long, value_name = "TEXT")]
        reason: String,
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
        let (command, json) = (self.command, self.json);
        with_client(self.flags, log, environment, async |client| command.run(client, json).await)
    }
}

impl Command {
    async fn run(&self, client: &Client, json: bool) -> Result<u8, Failure> {
        let (answer, show): (Value, fn(&Value) -> String) = match self {
            Self::List { layer: None } => (client.get("/runs").await?, show::runs_of_all_layers),
            Self::List { layer: Some(layer) } => {
                (client.list(&format!("/runs?layer={}", part(layer))).await?, show::runs)
            }
            Self::Show { id, plan: true } => {
                let plan = client.text(&format!("/runs/{}/plan", part(id))).await?;
                return Ok(print(format!("{}\n", plan.trim_end()).as_bytes()));
            }
            Self::Show { id, plan: false } => return show_run(client, id, json).await,
            Self::Logs { id, attempt, follow: false } => return logs(client, id, *attempt).await,
            Self::Logs { id, attempt, follow: true } => {
                return Ok(follow(client, id, *attempt, Log::Printed).await?.code);
            }
            Self::OverrideWindow { id, reason } => {
                let path = format!("/runs/{}/override-window", part(id));
                let body = serde_json::json!({"reason": reason});
                (client.post_json(&path, &body).await?, show::run)
            }
            Self::Cancel { id, wait } => (cancel(client, id, *wait).await?, show::cancelled),
        };
        let text = if json { format!("{answer:#}") } else { show(&answer) };
        Ok(print(format!("{text}\n").as_bytes()))
    }
}

/// Prints a run, and if a program has refused its plan, the end of its output.
async fn show_run(client: &Client, id: &str, json: bool) -> Result<u8, Failure> {
    let run = client.get(&format!("/runs/{}", part(id))).await?;
    if json {
        return Ok(print(format!("{run:#}\n").as_bytes()));
    }
    let checked = client.get(&format!("/runs/{}/policy", part(id))).await?;
    let text = format!("{}\n{}", show::run(&run), show::refusals(&checked));
    Ok(print(text.as_bytes()))
}

/// Prints the log that an attempt has so far.
async fn logs(client: &Client, id: &str, attempt: Option<u32>) -> Result<u8, Failure> {
    let (mut attempt, mut after) = (attempt.map(u64::from), 0);
    loop {
        let asked = attempt.map(|number| format!("&attempt={number}")).unwrap_or_default();
        let lines = client.get(&format!("/runs/{}/logs?after={after}{asked}", part(id))).await?;
        for line in lines["items"].as_array().into_iter().flatten() {
            let code = print(format!("{}\n", text(&line["content"])).as_bytes());
            if code != Exit::Success.code() {
                return Ok(code);
            }
        }
        let Some(next) = lines["next"].as_u64() else {
            note_left_out(&lines["leftOut"]);
            return Ok(Exit::Success.code());
        };
        // A later attempt can have begun.
        (after, attempt) = (next, lines["attempt"].as_u64());
    }
}

/// Cancels a run, and with `wait` waits for its end. Returns the run.
async fn cancel(client: &Client, id: &str, wait: bool) -> Result<Value, Failure> {
    let mut run = client.post(&format!("/runs/{}/cancel", part(id))).await?;
    while wait && run["over"] == false {
        tokio::time::sleep(LOOK).await;
        run = client.get(&format!("/runs/{}", part(id))).await?;
    }
    if wait && run["ended"] != "cancelled" {
        let how = run["ended"].as_str().unwrap_or("succeeded");
        return Err(Failure::refused(format!("the run {id} ended before it was cancelled: {how}")));
    }
    Ok(run)
}
