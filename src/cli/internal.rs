//! Internal commands that the runner itself starts. They are not for users and not stable.
//!
//! They run without the asynchronous runtime and without threads, because libgit2 changes the environment of its
//! process when it starts.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;

use crate::exit::Exit;
use butler_source::git;

#[derive(Subcommand)]
pub(super) enum Internal {
    /// Fetch a module's source according to the task on standard input.
    #[command(name = git::FETCH_COMMAND, hide = true)]
    Fetch,
    /// Print credentials for git from a file of the run.
    #[command(name = git::CREDENTIAL_COMMAND, hide = true)]
    GitCredential {
        /// The file with the credentials.
        file: PathBuf,
        /// The operation of git: `get`, `store` or `erase`.
        operation: String,
    },
}

impl Internal {
    pub(super) fn run(self) -> u8 {
        let done = match self {
            Self::Fetch => git::run_child(std::io::stdin(), std::io::stdout(), std::io::stderr()),
            Self::GitCredential { file, operation } => {
                let arguments = [file.into_os_string(), operation.into()];
                git::answer_git(arguments.into_iter(), std::io::stdin(), std::io::stdout())
            }
        };
        if done == ExitCode::SUCCESS { Exit::Success.code() } else { Exit::Failed.code() }
    }
}
