//! `store`: backups of a server's store, and its move to PostgreSQL.

use std::path::{Path, PathBuf};

use butler_base::error::chain;
use butler_server::data::DataDirectory;
use butler_server::store::{Migrated, PostgresAddress, backup, migrate, restore};
use clap::{Args, Subcommand};

use super::{DataFlags, DatabaseFlags};
use crate::cli::flags::{Flags, merge_arguments};
use crate::cli::output::{complain, print, refuse};
use crate::cli::runtime::block_on;
use crate::exit::Exit;
use crate::settings::{Arguments, Environment, data_directory, database};

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
    /// Move the facts from SQLite into an empty PostgreSQL database; the server must be stopped. The
    /// SQLite file is kept as `store.sqlite.migrated-TIME`
    Migrate {
        #[command(flatten)]
        database: Flags<DatabaseFlags>,
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
                let copied = backup(&store, &file).map_err(|error| chain(&error));
                copied.map(|()| format!("backup: {}\n", file.display()))
            }
            Command::Restore { file } => restore_into(&path, &file),
            Command::Migrate { database: flags } => {
                let arguments = merge_arguments(arguments, flags.into_arguments());
                let (address, ca_bundle) = match database(&arguments, environment) {
                    Ok(database) => database,
                    Err(error) => return refuse(&error),
                };
                match block_on(migrate_from(&path, address, ca_bundle.as_deref())) {
                    Some(done) => done,
                    None => return Exit::Failed.code(),
                }
            }
        };
        match done {
            Ok(text) => print(text.as_bytes()),
            Err(text) => {
                complain(&text, None);
                Exit::Failed.code()
            }
        }
    }
}

/// Puts a backup in the place of the store of a data directory, which is created.
fn restore_into(path: &Path, file: &Path) -> Result<String, String> {
    let data = DataDirectory::create(path)
        .map_err(|error| format!("cannot create `{}`: {error}", path.display()))?;
    let replaced = restore(file, &data.store()).map_err(|error| chain(&error))?;
    let store = format!("store: {}\n", data.store().display());
    Ok(replaced
        .map_or(store.clone(), |kept| format!("{store}replaced store: {}\n", kept.display())))
}

/// Moves the store of a data directory into a database.
async fn migrate_from(
    path: &Path,
    address: PostgresAddress,
    ca_bundle: Option<&Path>,
) -> Result<String, String> {
    let data = DataDirectory::at(path);
    let store = format!("store: {address}\n");
    let migrated = migrate(&data, address, ca_bundle).await;
    let Migrated { layers, runs, events, kept } = migrated.map_err(|error| chain(&error))?;
    let kept = kept.display();
    let moved = [(layers, "layer"), (runs, "run"), (events, "event")];
    let moved =
        moved.map(|(count, what)| format!("{count} {what}{}", if count == 1 { "" } else { "s" }));
    Ok(format!("{store}moved: {}\nformer store: {kept}\n", moved.join(", ")))
}
