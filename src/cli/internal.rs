//! What the runner starts of itself; not for people, and not stable.
//!
//! These run before the runtime does and without threads, because libgit2 changes the environment
//! of its process when it starts.

use std::path::PathBuf;

use clap::Subcommand;

use super::complain;
use crate::run::Exit;

#[derive(Subcommand)]
pub(super) enum Internal {
    /// Fetch a module's source as the task on standard input says.
    #[command(name = "internal-fetch", hide = true)]
    Fetch,
    /// Answer git's question for credentials out of a file of the run's.
    #[command(name = "internal-git-credential", hide = true)]
    GitCredential {
        /// The file with the credentials.
        file: PathBuf,
        /// What git wants: `get`, `store` or `erase`.
        operation: String,
    },
}

impl Internal {
    pub(super) fn run(self) -> u8 {
        match self {
            Self::Fetch => {
                complain("fetching is not there yet", None);
                Exit::Failed.code()
            }
            Self::GitCredential { file, operation } => {
                complain(
                    &format!("no answer to `{operation}` from `{}` yet", file.display()),
                    None,
                );
                Exit::Failed.code()
            }
        }
    }
}
