//! `config`: what the configuration of a server says, without a server.

use std::path::{Path, PathBuf};

use butler_server::config::{Config, ConfigError, RemoteLimits, git_host, load, load_included};
use clap::{Args, Subcommand};
use serde_json::json;

use super::WebhookFlags;
use super::webhook::webhook;
use crate::cli::flags::{Flags, merge_arguments};
use crate::cli::output::print;
use crate::exit::Exit;
use crate::settings::{Arguments, Environment};

#[derive(Args)]
pub(in crate::cli) struct ConfigCommand {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Check a configuration: print all errors with file, line and column, and exit with 1, or print how many
    /// repositories and layers it has. Includes are not read
    Check {
        /// A YAML file, or a directory of them
        #[arg(value_name = "FILE|DIR")]
        path: PathBuf,
        /// Check it by the rules of configuration that a server includes from its repository with this name,
        /// instead of those of its own files
        #[arg(long, value_name = "REPOSITORY")]
        included_from: Option<String>,
        /// A host that the repositories of included configuration can be on, as for serve; can be repeated
        #[arg(long, value_name = "GLOB", value_parser = git_host, requires = "included_from")]
        allowed_git_host: Vec<String>,
        /// The directory of the server with the secrets that included configuration can name; it need not
        /// exist on this machine
        #[arg(long, value_name = "DIR", requires = "included_from")]
        secrets_dir: Option<PathBuf>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print the settings of a repository's webhook at its git host. The repository needs `webhook` in the
    /// configuration
    Webhook {
        /// The repository
        repository: String,
        #[command(flatten)]
        flags: Flags<WebhookFlags>,
    },
}

impl ConfigCommand {
    pub(in crate::cli) fn run(self, log: Arguments, environment: &Environment) -> u8 {
        match self.command {
            Command::Check { path, included_from, allowed_git_host, secrets_dir, json } => {
                let git_hosts = allowed_git_host;
                let limits = RemoteLimits { secrets: secrets_dir, data: None, git_hosts };
                let loaded = match included_from {
                    Some(repository) => load_included(&path, &limits, &repository),
                    None => load(&path, None),
                };
                check(&path, loaded, json)
            }
            Command::Webhook { repository, flags } => {
                webhook(&repository, &merge_arguments(log, flags.into_arguments()), environment)
            }
        }
    }
}

/// Prints what is in a configuration, or what is wrong with it.
fn check(path: &Path, loaded: Result<Config, Vec<ConfigError>>, json: bool) -> u8 {
    let (config, errors) = match loaded {
        Ok(config) => (config, Vec::new()),
        Err(errors) => (Config::default(), errors),
    };
    let sets = config.layers.values().filter(|layer| layer.entry.path.is_none()).count();
    let (repositories, layers) = (config.repositories.len(), config.layers.len() - sets);
    let printed = if json {
        let errors = errors.iter().map(|error| {
            let (line, column) = error.at.unzip();
            json!({"file": error.file, "line": line, "column": column, "message": error.message})
        });
        let errors: Vec<_> = errors.collect();
        let numbers = if errors.is_empty() {
            json!({
                "repositories": repositories,
                "layers": layers,
                "layerSets": sets,
                "unreadIncludes": config.include.len(),
                "errors": [],
            })
        } else {
            json!({"errors": errors})
        };
        print(format!("{numbers:#}\n").as_bytes())
    } else if errors.is_empty() {
        let numbers = [
            number(repositories, "repository", "repositories"),
            number(layers, "layer", "layers"),
            number(sets, "layer set", "layer sets"),
        ];
        let unread = match config.include.len() {
            0 => String::new(),
            1 => "; the include is not read".to_owned(),
            count => format!("; the {count} includes are not read"),
        };
        print(format!("{}: {}{unread}\n", path.display(), numbers.join(", ")).as_bytes())
    } else {
        let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
        print(format!("{}\n", lines.join("\n")).as_bytes())
    };
    if errors.is_empty() { printed } else { Exit::Failed.code() }
}

fn number(number: usize, one: &str, several: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { several })
}
