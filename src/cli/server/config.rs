//! `config`: checks the configuration of a server without one.

use std::path::PathBuf;

use butler_server::config::{Config, load};
use clap::{Args, Subcommand};
use serde_json::json;

use crate::cli::output::print;
use crate::exit::Exit;

#[derive(Args)]
pub(in crate::cli) struct ConfigCommand {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Check a configuration: print all errors with file, line and column, and exit with 1, or print how many
    /// repositories and layers it has
    Check {
        /// A YAML file, or a directory of them
        #[arg(value_name = "FILE|DIR")]
        path: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

impl ConfigCommand {
    pub(in crate::cli) fn run(self) -> u8 {
        let Command::Check { path, json } = self.command;
        let (config, errors) = match load(&path, None) {
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
                json!({"repositories": repositories, "layers": layers, "layerSets": sets, "errors": []})
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
            print(format!("{}: {}\n", path.display(), numbers.join(", ")).as_bytes())
        } else {
            let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
            print(format!("{}\n", lines.join("\n")).as_bytes())
        };
        if errors.is_empty() { printed } else { Exit::Failed.code() }
    }
}

fn number(number: usize, one: &str, several: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { several })
}
