//! The command line: reads it, starts what it asks for, and turns the end into an exit code.
//!
//! The only place that knows clap, prints to standard output, and picks the runtime. One file a
//! subcommand; nothing below sees a parsed command line, only [`Arguments`].

mod assignments;
mod ci_status;
mod ci_target;
mod clean;
mod commands;
mod complete;
mod deferred;
mod demo;
mod doctor;
mod execute;
mod flags;
mod generate;
mod internal;
mod kubernetes;
mod logging;
mod manual;
mod place;
mod schema;
mod screen;
mod self_update;
mod single_dash;
mod tool;
mod trigger;
mod usage;
mod version;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::ci::System;
use crate::run::{Exit, Terminal};
use crate::screen::Screen;
use crate::settings::setting::TOKEN;
use crate::settings::{Arguments, Environment, SettingsError, variable};
use butler_base::error::{Advice, chain};
use butler_base::event::Stream;
use butler_base::platform::{self, is_the_platforms};
use deferred::Deferred;

/// How long the end of the process waits for work in blocking threads. Everything that matters is
/// joined by then; what is left is a name look-up whose resolver does not answer, which can take
/// minutes and cannot be interrupted.
const SHUTDOWN: Duration = Duration::from_secs(1);

/// What `--help` says of the exit codes.
const EXIT_CODES: &str = "Exit codes: 0 success, 1 the run failed, 2 usage, 3 cancelled by the registry, \
4 registry unreachable or refusing, 128+n stopped by signal n";

/// What `-h` says of what it leaves out.
const MORE_FLAGS: &str = "`--help` shows all flags, with their variables and defaults";

#[derive(Parser)]
#[command(name = "butler-runner", version, long_version = version::long())]
#[command(about, after_help = MORE_FLAGS, after_long_help = EXIT_CODES)]
#[command(disable_help_subcommand = true, subcommand_required = true)]
struct CommandLine {
    #[command(flatten)]
    log: flags::Flags<logging::LogFlags>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Carry out a run: from a registry, from a file, or on a directory of your own
    #[command(visible_alias = "exec")]
    Execute(Deferred<execute::Execute>),
    /// Show what would change in a directory, or save that as a plan
    Plan(Deferred<commands::Plan>),
    /// Plan in a directory, ask, and apply exactly that plan
    Apply(Deferred<commands::Apply>),
    /// Plan the destruction of everything in a directory, ask, and apply exactly that plan
    Destroy(Deferred<commands::Destroy>),
    /// Say whether anything was changed outside of Terraform
    Drift(Deferred<commands::Drift>),
    /// Check the configuration in a directory
    Validate(Deferred<commands::Validate>),
    /// Run the tests of the module in a directory
    Test(Deferred<commands::Test>),
    /// Show plan, apply and destroy of a small module, with a registry on this machine
    Demo(Deferred<demo::Demo>),
    /// Wipe what killed runners left on this machine; each run does the same when it begins
    Clean(Deferred<clean::Clean>),
    /// Say whether this machine can carry out runs: registry, network, tools, room
    Doctor(Deferred<doctor::Doctor>),
    /// Have a CI system start a run
    Trigger(Deferred<trigger::Trigger>),
    /// Print what became of a run that a CI system has started
    CiStatus(Deferred<ci_status::CiStatus>),
    /// Install, run and remove versions of Terraform, OpenTofu and Terragrunt
    Tool(Deferred<tool::Tool>),
    /// Write the file that a CI system needs to start the runner
    Generate(Deferred<Box<generate::Generate>>),
    /// Update this executable
    #[command(name = "self")]
    Oneself(Deferred<self_update::SelfCommand>),
    Schema(schema::Schema),
    Completions(complete::Completions),
    #[command(name = "man")]
    Manual(manual::Manual),
    Version(version::Version),
    /// Print the help of a command
    Help {
        /// The command, such as `tool install`
        #[arg(add = complete::commands())]
        command: Vec<String>,
    },
    #[command(flatten)]
    Internal(internal::Internal),
}

/// Runs the command line of this process.
#[must_use]
pub fn main() -> ExitCode {
    platform::shield_process();
    platform::pin_name_lookups();
    let environment = Environment::capture();
    platform::erase_variables(TOKEN.variables);
    platform::erase_variables(&[variable::CI_TOKEN.name, variable::CI_API_TOKEN.name]);
    ExitCode::from(run(std::env::args_os(), &environment))
}

fn run(words: impl IntoIterator<Item = OsString>, environment: &Environment) -> u8 {
    let words: Vec<OsString> = words.into_iter().collect();
    if let Some(code) = complete::answer(&words, environment) {
        return code;
    }
    let translated = match single_dash::translate(words) {
        Ok(translated) => translated,
        Err(refused) => {
            let single_dash::NoSuchFlag { flag, instead, command } = refused;
            complain(&format!("`{command}` has no flag `{flag}`"), Some(instead));
            return commands::usage_code(Some(command), &[]);
        }
    };
    let single_dash::Translated { words, directory, command } = translated;
    if let Some(directory) = directory
        && let Err(error) = std::env::set_current_dir(&directory)
    {
        let shown = directory.display();
        complain(&format!("cannot go to the directory `{shown}` (-chdir): {error}"), None);
        return commands::usage_code(command, &words);
    }
    let parsed = parser()
        .try_get_matches_from(&words)
        .and_then(|matches| CommandLine::from_arg_matches(&matches));
    let CommandLine { log, command } = match parsed {
        Ok(parsed) => parsed,
        Err(error) => {
            return match usage::report(&error, &words) {
                code if code == Exit::Usage.code() => commands::usage_code(command, &words),
                code => code,
            };
        }
    };
    let log = log.into_arguments();
    match command {
        Command::Execute(Deferred(execute)) => execute.run(log, environment),
        Command::Plan(Deferred(plan)) => plan.run(log, environment),
        Command::Apply(Deferred(apply)) => apply.run(log, environment),
        Command::Destroy(Deferred(destroy)) => destroy.run(log, environment),
        Command::Drift(Deferred(drift)) => drift.run(log, environment),
        Command::Validate(Deferred(validate)) => validate.run(log, environment),
        Command::Test(Deferred(test)) => test.run(log, environment),
        Command::Demo(Deferred(demo)) => demo.run(log, environment),
        Command::Clean(Deferred(clean)) => clean.run(log, environment),
        Command::Doctor(Deferred(doctor)) => doctor.run(log, environment),
        Command::Trigger(Deferred(trigger)) => trigger.run(log, environment),
        Command::CiStatus(Deferred(status)) => status.run(log, environment),
        Command::Tool(Deferred(tool)) => tool.run(log, environment),
        Command::Generate(Deferred(generate)) => generate.run(log, environment),
        Command::Oneself(Deferred(command)) => command.run(log, environment),
        Command::Schema(schema) => schema.run(),
        Command::Completions(completions) => completions.run(),
        Command::Manual(manual) => manual.run(),
        Command::Version(version) => version.run(),
        Command::Help { command } => {
            let program = words.into_iter().take(1);
            let asked = command.into_iter().map(OsString::from).chain(["--help".into()]);
            run(program.chain(asked), environment)
        }
        Command::Internal(internal) => internal.run(),
    }
}

/// The parser; what its commands take is not made yet.
fn parser() -> clap::Command {
    CommandLine::command()
}

/// The parser with all that it knows, as `--help` shows it.
#[must_use]
pub fn command() -> clap::Command {
    let mut command = parser();
    command.build();
    command
}

/// Runs `future` on this thread: the runner waits for children and sockets, it does not compute.
fn block_on<T>(future: impl Future<Output = T>) -> Option<T> {
    match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => {
            let value = runtime.block_on(future);
            runtime.shutdown_timeout(SHUTDOWN);
            Some(value)
        }
        Err(error) => {
            complain(&format!("cannot start the runtime: {error}"), None);
            None
        }
    }
}

/// Where the output of children is shown: where the runner's own is, or in one place in a job of
/// `system`.
fn terminal(screen: &Screen, system: System) -> Terminal {
    let commands = is_the_platforms(std::io::stdout(), std::io::stderr())
        .then(|| Box::new(std::io::stderr()) as Box<_>);
    // A CI system reads the two pipes in no order, and what stands in a group must stay there.
    let other = if system == System::None { Stream::Stderr } else { Stream::Stdout };
    Terminal {
        stdout: screen.lines(Stream::Stdout),
        stderr: screen.lines(other),
        commands,
        notices: Box::new(screen.writer(other)),
        screen: Some(screen.clone()),
    }
}

/// Says what is wrong with a setting; returns the exit code for it.
fn refuse(error: &SettingsError) -> u8 {
    complain(&chain(error), error.advice().as_deref());
    Exit::Usage.code()
}

/// One line on what is wrong, and at most one on what to do.
fn complain(message: &str, hint: Option<&str>) {
    let hint = hint.map(|hint| format!("hint: {hint}\n")).unwrap_or_default();
    // Where standard error is gone there is nobody to tell.
    let _ = write!(std::io::stderr(), "error: {message}\n{hint}");
}

/// Prints what was asked for; returns the exit code. A reader that has read enough is no error.
fn print(bytes: &[u8]) -> u8 {
    let mut out = std::io::stdout();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            complain(&format!("cannot write to standard output: {error}"), None);
            Exit::Failed.code()
        }
        _ => Exit::Success.code(),
    }
}

/// The flags of a subcommand together with those that all of them have.
fn together(log: Arguments, mut flags: Arguments) -> Arguments {
    flags.merge(log);
    flags
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Arc, mpsc};

    use super::*;

    #[test]
    fn only_a_pipe_of_its_own_can_be_what_the_platform_reads() {
        let (_one, stdout) = std::io::pipe().unwrap();
        let (_other, stderr) = std::io::pipe().unwrap();
        let file = tempfile::tempfile().unwrap();
        assert!(is_the_platforms(&stdout, &stderr));
        assert!(is_the_platforms(&file, &stderr));
        let (socket, _peer) = std::os::unix::net::UnixStream::pair().unwrap();
        assert!(is_the_platforms(&stdout, socket));
        assert!(!is_the_platforms(&stdout, stdout.try_clone().unwrap()));
        assert!(!is_the_platforms(&stdout, &file));
        assert!(!is_the_platforms(&stdout, std::fs::File::open("/dev/null").unwrap()));
    }

    #[test]
    fn a_blocking_task_that_does_not_end_does_not_hold_the_process() {
        let (release, released) = mpsc::channel::<()>();
        let gave_up = Arc::new(AtomicBool::new(false));
        let noted = gave_up.clone();
        let answer = block_on(async move {
            drop(tokio::task::spawn_blocking(move || {
                let waited = released.recv_timeout(Duration::from_secs(20));
                noted.store(waited == Err(mpsc::RecvTimeoutError::Timeout), Ordering::SeqCst);
            }));
            7
        });
        assert_eq!(answer, Some(7));
        assert!(!gave_up.load(Ordering::SeqCst), "it was waited for until it gave up by itself");
        drop(release);
    }
}
