//! `breaker`: what stops automatic applies of a server.

use clap::{Args, Subcommand};
use serde_json::Value;

use super::ClientFlags;
use super::client::{Client, EXIT_CODES, Failure, with_client};
use super::show;
use crate::cli::flags::Flags;
use crate::cli::output::print;
use crate::settings::{Arguments, Environment};

#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(in crate::cli) struct BreakerCommand {
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
    /// Show whether automatic applies are stopped, since when, and the failures of which layers have stopped them
    Show,
    /// Allow automatic applies again
    Reset,
}

impl BreakerCommand {
    pub(in crate::cli) fn run(self, log: Arguments, environment: &Environment) -> u8 {
        let (command, json) = (self.command, self.json);
        with_client(self.flags, log, environment, async |client| command.run(client, json).await)
    }
}

impl Command {
    async fn run(&self, client: &Client, json: bool) -> Result<u8, Failure> {
        let (answer, show): (Value, fn(&Value) -> String) = match self {
            Self::Show => (client.get("/breaker").await?, show::breaker),
            Self::Reset => (client.post("/breaker/reset").await?, show::breaker_reset),
        };
        let text = if json { format!("{answer:#}") } else { show(&answer) };
        Ok(print(format!("{text}\n").as_bytes()))
    }
}
