//! `config`: what the configuration of a server says, without a server.

use std::path::{Path, PathBuf};

use butler_server::config::{
    Config, ConfigError, RemoteLimits, git_host, load, load_included, missing_programs,
};
use butler_server::import::{atlantis, burrito};
use clap::{Args, Subcommand};
use serde_json::json;

use super::WebhookFlags;
use super::webhook::webhook;
use crate::cli::flags::{Flags, merge_arguments};
use crate::cli::output::{complain, print, remark};
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
    /// repositories and layers it has. Programs of `after-plan` must exist on this machine. Includes are not read
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
    /// Turn the configuration of another tool into one of this server, on standard output. Comments and
    /// standard error say what has no counterpart
    Import {
        #[command(subcommand)]
        from: ImportFrom,
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
                    None => load(&path, None).and_then(|config| {
                        let missing = missing_programs(&config);
                        if missing.is_empty() { Ok(config) } else { Err(missing) }
                    }),
                };
                check(&path, loaded, json)
            }
            Command::Import { from } => import(from),
            Command::Webhook { repository, flags } => {
                webhook(&repository, &merge_arguments(log, flags.into_arguments()), environment)
            }
        }
    }
}

/// The tools whose configuration can be imported.
#[derive(Subcommand)]
enum ImportFrom {
    /// Burrito: resources of the kinds `TerraformRepository` and `TerraformLayer`
    Burrito {
        /// The files, for example the output of `kubectl get --output yaml`
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
    /// Atlantis: the `atlantis.yaml` of a repository
    Atlantis {
        /// The file
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// The address of the repository
        #[arg(long, value_name = "URL")]
        url: String,
        /// The configuration of the Atlantis server, with the workflows that projects name
        #[arg(long, value_name = "FILE")]
        server_config: Option<PathBuf>,
    },
}

/// Prints the configuration that is made of another tool's.
fn import(from: ImportFrom) -> u8 {
    let read = |path: PathBuf| {
        let text = fs_err::read_to_string(&path).map_err(|error| error.to_string())?;
        Ok((path, text))
    };
    let imported = match from {
        ImportFrom::Burrito { files } => {
            let files: Result<Vec<_>, String> = files.into_iter().map(read).collect();
            files.and_then(|files| burrito(&files).map_err(|error| error.to_string()))
        }
        ImportFrom::Atlantis { file, url, server_config } => {
            let server = server_config.map(read).transpose();
            read(file).and_then(|(path, text)| {
                let server = server?;
                let server = server.as_ref().map(|(path, text)| (path.as_path(), text.as_str()));
                atlantis(&path, &text, &url, server).map_err(|error| error.to_string())
            })
        }
    };
    let imported = match imported {
        Ok(imported) => imported,
        Err(error) => {
            complain(&error, None);
            return Exit::Failed.code();
        }
    };
    let code = print(imported.yaml.as_bytes());
    let parts = [
        number(imported.repositories, "repository", "repositories"),
        number(imported.layers, "layer", "layers"),
        number(imported.notes.len(), "note", "notes"),
    ];
    let lines: Vec<_> = imported.notes.into_iter().chain([parts.join(", ")]).collect();
    remark(&lines.join("\n"));
    code
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
