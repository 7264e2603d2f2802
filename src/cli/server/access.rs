//! `access`: what an administrator writes into the access file of a server.

use butler_registry::TokenHash;
use butler_server::api::{Role, new_token};
use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use secrecy::ExposeSecret;
use serde_json::json;

use crate::cli::output::{complain, print};
use crate::exit::Exit;

#[derive(Args)]
pub(in crate::cli) struct AccessCommand {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Print a new token, and the entry with its hash for the file of --access-file; writes nothing
    Token {
        /// The name of the user
        #[arg(value_parser = name)]
        name: String,
        /// What the user may do
        #[arg(long, value_parser = PossibleValuesParser::new(Role::ALL.map(Role::name)))]
        role: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

fn name(text: &str) -> Result<String, String> {
    if text.trim().is_empty() {
        return Err("the name is empty".to_owned());
    }
    Ok(text.to_owned())
}

impl AccessCommand {
    pub(in crate::cli) fn run(self) -> u8 {
        let Command::Token { name, role, json } = self.command;
        let token = match new_token() {
            Ok(token) => token,
            Err(error) => {
                complain(&format!("cannot make a token: {error}"), None);
                return Exit::Failed.code();
            }
        };
        let token = token.expose_secret();
        let entry = json!({"name": name, "role": role, "token-sha256": TokenHash::of(token)});
        let text = if json {
            format!("{:#}\n", json!({"token": token, "entry": entry}))
        } else {
            // JSON strings are YAML strings.
            let (name, hash) = (&entry["name"], &entry["token-sha256"]);
            format!(
                "{token}\n\nThe token is not shown again. Add this entry to `users` of the access \
                 file:\n\n  - name: {name}\n    role: {role}\n    token-sha256: {hash}\n"
            )
        };
        print(text.as_bytes())
    }
}
