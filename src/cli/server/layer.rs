//! `layer`: the layers of a server.

use std::io::Write;

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

#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(in crate::cli) struct Layer {
    #[command(subcommand)]
    command: LayerCommand,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
    #[command(flatten)]
    flags: Flags<ClientFlags>,
}

#[derive(Subcommand)]
enum LayerCommand {
    /// List layers with their phases, and why nothing is started
    List {
        /// Only layers in this phase; can be repeated
        #[arg(long, value_name = "PHASE")]
        phase: Vec<String>,
        /// Only layers of this repository
        #[arg(long, value_name = "NAME")]
        repository: Option<String>,
        /// Only layers with this text in their name
        #[arg(long, value_name = "TEXT")]
        query: Option<String>,
    },
    /// Show a layer
    Show {
        /// The layer
        name: String,
    },
    /// Plan a layer
    Plan {
        /// The layer
        name: String,
    },
    /// Read the layer's repository now, and plan what a commit changed
    Sync {
        /// The layer
        name: String,
    },
    /// List the runs of a layer, the newest first
    History {
        /// The layer
        name: String,
    },
    /// Start nothing more for a layer
    Pause {
        /// The layer
        name: String,
    },
    /// End the pause of a layer
    Resume {
        /// The layer
        name: String,
    },
}

impl Layer {
    pub(in crate::cli) fn run(self, log: Arguments, environment: &Environment) -> u8 {
        let arguments = merge_arguments(log, self.flags.into_arguments());
        let access = match ServerAccess::resolve(&arguments, environment) {
            Ok(access) => access,
            Err(error) => return refuse(&error),
        };
        let answer = block_on(async { self.command.ask(&Client::new(access)?).await });
        match answer {
            Some(Ok((answer, show))) => {
                for problem in answer["problems"].as_array().into_iter().flatten() {
                    warn(&text(problem));
                }
                let text = if self.json { format!("{answer:#}") } else { show(&answer) };
                print(format!("{text}\n").as_bytes())
            }
            Some(Err(failure)) => failure.report(),
            None => Exit::Failed.code(),
        }
    }
}

/// An answer, and how it is shown to people.
type Answer = (Value, fn(&Value) -> String);

impl LayerCommand {
    async fn ask(&self, client: &Client) -> Result<Answer, Failure> {
        let change = async |name: &str, what: &str| {
            client.post(&format!("/layers/{}/{what}", part(name))).await
        };
        Ok(match self {
            Self::List { phase, repository, query } => {
                let mut pairs: Vec<String> =
                    phase.iter().map(|phase| format!("phase={}", part(phase))).collect();
                pairs.extend(repository.iter().map(|it| format!("repository={}", part(it))));
                pairs.extend(query.iter().map(|it| format!("q={}", part(it))));
                (client.list(&format!("/layers?{}", pairs.join("&"))).await?, show::layers)
            }
            Self::Show { name } => {
                (client.get(&format!("/layers/{}", part(name))).await?, show::layer)
            }
            Self::Plan { name } => (change(name, "plan").await?, show::created),
            Self::Sync { name } => (change(name, "sync").await?, show::synced),
            Self::History { name } => {
                (client.list(&format!("/runs?layer={}", part(name))).await?, show::runs)
            }
            Self::Pause { name } => (change(name, "pause").await?, show::paused),
            Self::Resume { name } => (change(name, "resume").await?, show::paused),
        })
    }
}

/// Tells what is wrong with the configuration of the server.
fn warn(problem: &str) {
    // If standard error is closed, the message is lost.
    let _ = writeln!(std::io::stderr(), "warning: {problem}");
}
