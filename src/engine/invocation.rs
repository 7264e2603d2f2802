//! A tool in a working directory, and starting one command of it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::arguments::early_variables;
use super::cli_arguments;
use super::error::{EngineError, FailedCommand};
use super::failures::printed::{PrintedErrors, PrintedFailure};
use super::isolation::Isolation;
use super::locks::killed_lock::KilledLock;
use super::locks::lock_output::LockSeeker;
use super::remote_run::RemoteRuns;
use super::watching::{ObservedOutput, OutputWatch};
use super::wrapper::Wrapper;
use butler_base::cancel::{Stop, StopReason};
use butler_base::platform::{Signal, address_space, signal_of};
use butler_base::process::{
    Channel, Command, Environment, Exit, Grace, Inner, Input, Output, ProcessError, Sink, supervise,
};
use butler_base::secret::Redactor;
use butler_protocol::backend::StateLock;
use butler_protocol::spec::{Assignment, Product, ToolRequest};

/// A tool in a working directory.
#[derive(Debug)]
pub struct Engine<'run, S> {
    /// The tool and its version.
    pub tool: &'run ToolRequest,
    /// Its executable.
    pub program: &'run Path,
    /// The program that starts the tool, if the run uses one.
    pub wrapper: Option<Wrapper>,
    /// The isolation of the commands, if the run has one.
    pub isolation: Option<Isolation>,
    /// The module's directory.
    pub directory: &'run Path,
    /// The directory for the runner's own files, such as the text of a plan: private, and wiped at the end. The
    /// tool does not write there.
    pub private: &'run Path,
    /// The directory for the files that the tool writes for the runner, also private and wiped.
    pub tool_files: &'run Path,
    /// The variables of the run, for other commands than `plan` and `apply` that evaluate them.
    pub variables: Vec<Assignment>,
    /// The whole environment of the commands.
    pub environment: Environment,
    /// Their standard input: Terraform passes it on to its providers and does not read it.
    pub input: Input,
    /// The destination of their lines.
    pub log: &'run S,
    /// Redacts what is quoted of their errors.
    pub redactor: &'run Redactor,
    /// The stop of the run.
    pub stop: &'run Stop,
    /// The time between SIGTERM and SIGKILL.
    pub grace: Grace,
    /// How long commands wait for a state lock.
    pub lock_timeout: Duration,
    /// What to do about the lock of a killed command.
    pub killed_lock: KilledLock,
    /// The runs that a server executes in place of the tool.
    pub remote_runs: RemoteRuns,
}

/// What a command has printed about its failure, if it failed.
#[derive(Debug, Default)]
pub(super) struct CommandEnd {
    pub(super) errors: PrintedErrors,
    /// The lock of another command.
    pub(super) lock: Option<StateLock>,
}

impl CommandEnd {
    pub(super) fn of(seen: ObservedOutput, seeker: &LockSeeker) -> Self {
        Self { errors: seen.errors, lock: seen.lock.lock(seeker) }
    }
}

impl<S: Sink> Engine<'_, S> {
    /// The name of the program that users run for the same commands.
    #[must_use]
    pub fn program_name(&self) -> &'static str {
        let product = if self.wrapper.is_some() { Product::Terragrunt } else { self.tool.product };
        product.executable()
    }

    /// The directory in which the wrapper keeps copies of the module, if the runner has chosen it.
    #[must_use]
    pub fn downloads(&self) -> Option<&Path> {
        self.wrapper.as_ref()?.downloads.as_deref()
    }

    /// Terraform's data directory if it runs in `module`.
    #[must_use]
    pub fn data_directory(&self, module: &Path) -> PathBuf {
        let given = self.environment.value("TF_DATA_DIR").filter(|path| !path.is_empty());
        module.join(given.unwrap_or(".terraform".as_ref()))
    }

    /// Speeds up a command that does not start providers. A wrapper may start any program, so its commands are
    /// not changed.
    pub(super) fn reduce_garbage_collection(&self, command: &mut Command) {
        if self.wrapper.is_none() {
            command.environment.collect_less_garbage();
        }
    }

    /// A command in the module's directory, which the wrapper starts if the run uses one.
    pub(super) fn command(&self, arguments: Vec<OsString>, output: Output) -> Command {
        let environment = self.environment.clone();
        let Some(wrapper) = &self.wrapper else {
            return self.command_in(self.directory, environment, arguments, output);
        };
        let inner = Inner { program: self.program.to_owned(), arguments: arguments.clone() };
        let mut command = self.command_of_tool(environment, &arguments, output);
        let (program, arguments) =
            self.isolated(wrapper.program.clone(), wrapper.arguments(arguments));
        command.directory = Some(self.directory.to_owned());
        Command { program, arguments, inner: Some(inner), ..command }
    }

    /// A command of the tool in `directory`, without the wrapper.
    pub(super) fn command_in(
        &self,
        directory: &Path,
        environment: Environment,
        arguments: Vec<OsString>,
        output: Output,
    ) -> Command {
        let command = self.command_of_tool(environment, &arguments, output);
        let arguments = early_variables(arguments, self.tool, &self.variables);
        let (program, arguments) = self.isolated(self.program.to_owned(), arguments);
        Command { program, arguments, directory: Some(directory.to_owned()), ..command }
    }

    /// A command with the settings for these `arguments` of the tool, without program, arguments and directory.
    fn command_of_tool(
        &self,
        mut environment: Environment,
        arguments: &[OsString],
        output: Output,
    ) -> Command {
        cli_arguments::fit(&mut environment, arguments);
        // A command that works on the state prints lines, and must come to its end without the runner, or it
        // would lose what it has done, or leave a lock. The others are read by the runner only.
        let channel = match output {
            Output::Lines | Output::LinesAndFile(_) => Channel::File,
            Output::File(_) | Output::Memory(_) => Channel::Pipe,
        };
        Command {
            environment,
            input: self.input.clone(),
            output,
            channel,
            session: self.isolation.as_ref().map(Isolation::session).unwrap_or_default(),
            ..Command::default()
        }
    }

    /// The program and its arguments in the isolation, if the run has one.
    fn isolated(&self, program: PathBuf, arguments: Vec<OsString>) -> (PathBuf, Vec<OsString>) {
        match &self.isolation {
            Some(isolation) => isolation.wrap(program, arguments),
            None => (program, arguments),
        }
    }

    /// Runs a command. Any exit code but 0 is an error.
    pub(super) async fn run_successfully(
        &self,
        name: &'static str,
        command: &Command,
    ) -> Result<Exit, EngineError> {
        let (exit, end) = self.run(name, command, self.log).await?;
        self.check_exit(name, &exit, end)?;
        Ok(exit)
    }

    /// Runs a command even if the run was stopped. Any exit code but 0 is an error.
    pub(super) async fn run_ignoring_stop(
        &self,
        name: &'static str,
        command: &Command,
    ) -> Result<Exit, EngineError> {
        let (watch, seeker) = (OutputWatch::new(self.log, &self.remote_runs), LockSeeker::now());
        let exit = supervise(command, &watch, &Stop::new(), self.grace)
            .await
            .map_err(|source| EngineError::Process { command: name, source })?;
        self.check_exit(name, &exit, CommandEnd::of(watch.into_observed(), &seeker))?;
        Ok(exit)
    }

    /// Runs a command whose lines go to `sink`. Also returns what it printed about its failure.
    pub(super) async fn run(
        &self,
        name: &'static str,
        command: &Command,
        sink: &impl Sink,
    ) -> Result<(Exit, CommandEnd), EngineError> {
        let (watch, seeker) = (OutputWatch::new(sink, &self.remote_runs), LockSeeker::now());
        let exit = self.supervise(name, command, &watch).await?;
        Ok((exit, CommandEnd::of(watch.into_observed(), &seeker)))
    }

    pub(super) async fn supervise(
        &self,
        name: &'static str,
        command: &Command,
        sink: &impl Sink,
    ) -> Result<Exit, EngineError> {
        let exit = self.supervise_to_exit(name, command, sink).await?;
        self.check_not_stopped(name, exit)
    }

    /// Runs a command. A stop is an error only if the command was not started; otherwise it is in the exit.
    pub(super) async fn supervise_to_exit(
        &self,
        name: &'static str,
        command: &Command,
        sink: &impl Sink,
    ) -> Result<Exit, EngineError> {
        supervise(command, sink, self.stop, self.grace).await.map_err(|source| match source {
            ProcessError::Stopped(reason) => self.stopped_error(name, reason, false),
            source => EngineError::Process { command: name, source },
        })
    }

    /// The exit, or an error if the stop has caused it.
    pub(super) fn check_not_stopped(
        &self,
        name: &'static str,
        exit: Exit,
    ) -> Result<Exit, EngineError> {
        match exit.stopped.clone() {
            Some(reason) if !exit.status.success() => {
                Err(self.stopped_error(name, reason, exit.killed))
            }
            // The command was complete before the signal had an effect.
            _ => Ok(exit),
        }
    }

    pub(super) fn stopped_error(
        &self,
        command: &'static str,
        reason: StopReason,
        killed: bool,
    ) -> EngineError {
        let product = self.program_name();
        EngineError::Stopped { command, reason, product, killed, left: None }
    }

    /// Whether a signal that is not a request to stop has ended the tool. A wrapper then ends with an exit code:
    /// a shell with 128 plus the signal's number, and a Go program such as Terragrunt with 255.
    pub(super) fn was_killed(&self, exit: &Exit) -> bool {
        // A tool that dies of such a signal had not installed its handler yet, and does not hold a lock.
        let requests = [Signal::SIGTERM as i32, Signal::SIGINT as i32];
        let code = exit.status.code().filter(|code| self.wrapper.is_some() && *code > 128);
        let signal = signal_of(exit.status).or(code.map(|code| code - 128));
        signal.is_some_and(|signal| !requests.contains(&signal))
    }

    /// Any exit code but 0 is an error, with what the command printed about its failure.
    pub(super) fn check_exit(
        &self,
        command: &'static str,
        exit: &Exit,
        end: CommandEnd,
    ) -> Result<(), EngineError> {
        if exit.status.success() {
            return Ok(());
        }
        let CommandEnd { errors, lock } = end;
        let PrintedFailure { headline, detail, cause } =
            errors.into_failure(exit.status.code(), self.redactor);
        let below = || {
            let tool = self.tool.product.executable();
            format!("something may have killed the {tool} that it started")
        };
        let is_below = exit.status.code().is_some() && self.was_killed(exit);
        let headline = headline.or_else(|| is_below.then(below));
        let headline = headline.or_else(|| limited_address_space(address_space()?));
        let failed = Box::new(FailedCommand {
            code: exit.status.code(),
            signal: signal_of(exit.status),
            out_of_memory: exit.out_of_memory,
            headline,
            detail,
            cause,
            lock,
            left: None,
        });
        Err(EngineError::Failed { product: self.program_name(), command, failed })
    }
}

/// The address space that a tool written in Go and its providers need at least, in bytes.
const LEAST_ADDRESS_SPACE: u64 = 2 << 30;

/// Why a tool ends without an error of its own if its address space is limited to so many bytes: Go reserves some, and
/// prints an internal message if it cannot.
fn limited_address_space(limit: u64) -> Option<String> {
    (limit < LEAST_ADDRESS_SPACE).then(|| {
        format!(
            "the address space of a process is limited to {} MiB (`ulimit -v`, RLIMIT_AS), and the tool and its \
             providers need at least {} MiB",
            limit >> 20,
            LEAST_ADDRESS_SPACE >> 20
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_address_space_is_named() {
        for (limit, named) in [(100 << 20, true), (2 << 30, false), (u64::MAX, false)] {
            let text = limited_address_space(limit);
            assert_eq!(text.is_some(), named, "{limit}: {text:?}");
        }
        let text = limited_address_space(100 << 20).unwrap();
        assert!(text.contains("limited to 100 MiB (`ulimit -v`"), "{text}");
    }
}
