//! `store`: backups of a server's store.

use std::path::PathBuf;

use butler_server::data::DataDirectory;
use butler_server::store::{backup, restore};
use clap::{Args, Subcommand};

use super::DataFlags;
use crate::cli::flags::{Flags, merge_arguments};
use crate::cli::output::{complain, print, refuse};
use crate::exit::Exit;
use crate::settings::{Arguments, Environment, data_directory};

/// The exit codes, for `--help`.
const EXIT_CODES: &str = "Exit codes: 0 done; 1 refused or failed; 2 usage";

#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(in crate::cli) struct StoreCommand {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    flags: Flags<DataFlags>,
}

#[derive(Subcommand)]
enum Command {
    /// Copy the store into a new file, also while a server uses it
    Backup {
        /// The file; it must not exist
        file: PathBuf,
    },
    /// Put a backup in the place of the store, which is kept as `store.sqlite.replaced-TIME`; the
    /// server must be stopped
    Restore {
        /// The backup
        file: PathBuf,
    },
}

impl StoreCommand {
    pub(in crate::cli) fn run(self, log: Arguments, environment: &Environment) -> u8 {
        let arguments = merge_arguments(log, self.flags.into_arguments());
        let path = match data_directory(&arguments, environment) {
            Ok(path) => path,
            Err(error) => return refuse(&error),
        };
        let done = match self.command {
            Command::Backup { file } => {
                let store = DataDirectory::at(&path).store();
                backup(&store, &file).map(|()| format!("backup: {}\n", file.display()))
            }
            Command::Restore { file } => {
                let data = match DataDirectory::create(&path) {
                    Ok(data) => data,
                    Err(error) => {
                        let text = format!("cannot create `{}`: {error}", path.display());
                        complain(&text, None);
                        return Exit::Failed.code();
                    }
                };
                restore(&file, &data.store()).map(|replaced| {
                    let store = format!("store: {}\n", data.store().display());
                    replaced.map_or(store.clone(), |kept| {
                        format!("{store}replaced store: {}\n", kept.display())
                    })
                })
            }
        };
        match done {
            Ok(text) => print(text.as_bytes()),
            Err(error) => {
                complain(&butler_base::error::chain(&error), None);
                Exit::Failed.code()
            }
        }
    }
}
