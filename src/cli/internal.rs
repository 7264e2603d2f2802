//! Internal commands that the runner itself starts. They are not for users and not stable.
//!
//! They run without the asynchronous runtime and without threads, because libgit2 changes the environment of its
//! process when it starts.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Subcommand;

use super::execute::{Shown, execute_run};
use super::output::{complain, complain_as_tool, refuse};
use crate::engine::{END_USER_COMMAND, ISOLATED_COMMAND, Restriction, become_isolated};
use crate::exit::Exit;
use crate::settings::{Arguments, Environment, Settings};
use butler_base::error::chain;
use butler_base::platform::{AllowedPaths, kill_as_user};
use butler_source::git;

#[derive(Subcommand)]
pub(super) enum Internal {
    /// Fetch a module's source according to the task on standard input.
    #[command(name = git::FETCH_COMMAND, hide = true)]
    Fetch,
    /// Execute an attempt of the server.
    #[command(name = butler_server::attempts::ATTEMPT_COMMAND, hide = true)]
    Attempt {
        /// The directory of the attempt.
        directory: PathBuf,
    },
    /// Print credentials for git from a file of the run.
    #[command(name = git::CREDENTIAL_COMMAND, hide = true)]
    GitCredential {
        /// The file with the credentials.
        file: PathBuf,
        /// The operation of git: `get`, `store` or `erase`.
        operation: String,
    },
    /// Become this user, and kill all other processes of the user.
    #[command(name = END_USER_COMMAND, hide = true)]
    EndUser {
        /// The user.
        user: u32,
    },
    /// Restrict this process, and become the tool of a run.
    #[command(name = ISOLATED_COMMAND, hide = true)]
    Isolated {
        /// The user that the tool runs as.
        #[arg(long, conflicts_with = "read")]
        user: Option<u32>,
        /// A path that the tool can read and execute.
        #[arg(long)]
        read: Vec<PathBuf>,
        /// A path that the tool can also write.
        #[arg(long)]
        write: Vec<PathBuf>,
        /// The executable of the tool.
        #[arg(last = true, required = true, num_args = 1..)]
        tool: Vec<OsString>,
    },
}

impl Internal {
    pub(super) fn run(self, environment: &Environment) -> u8 {
        let done = match self {
            Self::Isolated { user, read, write, tool } => {
                let restriction = match user {
                    Some(id) => Restriction::User { id, write },
                    None => Restriction::Paths(AllowedPaths { read, write }),
                };
                return isolate(&restriction, tool, environment);
            }
            Self::EndUser { user } => return end_user(user),
            Self::Fetch => git::run_child(std::io::stdin(), std::io::stdout(), std::io::stderr()),
            Self::Attempt { directory } => return attempt(&directory, environment),
            Self::GitCredential { file, operation } => {
                let arguments = [file.into_os_string(), operation.into()];
                git::answer_git(arguments.into_iter(), std::io::stdin(), std::io::stdout())
            }
        };
        if done == ExitCode::SUCCESS { Exit::Success.code() } else { Exit::Failed.code() }
    }
}

/// Records which process this is, and executes the run of the settings in the environment.
fn attempt(directory: &Path, environment: &Environment) -> u8 {
    if let Err(error) = butler_server::attempts::begin_attempt(directory) {
        complain(&format!("cannot begin the attempt in `{}`: {error}", directory.display()), None);
        return Exit::Failed.code();
    }
    match Settings::resolve(&Arguments::default(), environment) {
        Ok(mut settings) => {
            settings.isolation.states = butler_server::attempts::states_beside(directory);
            execute_run(settings, environment, Shown::Messages).code()
        }
        Err(error) => refuse(&error),
    }
}

/// Kills all processes of a user. Afterwards this process belongs to the user.
fn end_user(user: u32) -> u8 {
    match kill_as_user(user) {
        Ok(()) => Exit::Success.code(),
        Err(error) => {
            complain(&format!("cannot kill the processes of the user {user}: {error}"), None);
            Exit::Failed.code()
        }
    }
}

/// Returns only if the tool cannot be started.
fn isolate(restriction: &Restriction, tool: Vec<OsString>, environment: &Environment) -> u8 {
    let mut words = tool.into_iter();
    let program = PathBuf::from(words.next().unwrap_or_default());
    let arguments: Vec<_> = words.collect();
    // As it was when this process started: reading it has erased tokens, which the tool may need.
    let variables = environment.variables().clone().into_iter().collect();
    let Err(error) = become_isolated(restriction, &program, &arguments, &variables);
    complain_as_tool(&chain(&error));
    Exit::Failed.code()
}
