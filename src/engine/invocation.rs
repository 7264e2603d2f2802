//! A tool in a working directory, and starting one command of it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::error::{EngineError, Failed};
use super::locks::killed_lock::KilledLock;
use super::locks::lock::StateLock;
use super::watching::Watch;
use super::wrapper::Wrapper;
use butler_base::cancel::{Stop, StopReason};
use butler_base::platform::{Signal, signal_of};
use butler_base::process::{
    Command, Environment, Exit, Grace, Inner, Input, Output, ProcessError, Sink, supervise,
};
use butler_protocol::spec::{Product, ToolRequest};

/// A tool in a working directory.
#[derive(Debug)]
pub struct Engine<'run, S> {
    /// The tool and its version.
    pub tool: &'run ToolRequest,
    /// Its executable.
    pub program: &'run Path,
    /// What is started in its place to start it, if anything.
    pub wrapper: Option<Wrapper>,
    /// The module's directory.
    pub directory: &'run Path,
    /// Where plan files and their like are written: private and wiped at the end.
    pub private: &'run Path,
    /// The whole environment of the commands.
    pub environment: Environment,
    /// Their standard input: Terraform hands it on to its providers and asks nothing of it.
    pub input: Input,
    /// Where their lines go.
    pub log: &'run S,
    /// How the run is stopped.
    pub stop: &'run Stop,
    /// How much time a command gets to stop.
    pub grace: Grace,
    /// How long commands wait for a state lock.
    pub lock_timeout: Duration,
    /// What becomes of the lock of a command that is killed.
    pub killed_lock: KilledLock,
}

impl<S: Sink> Engine<'_, S> {
    /// The name of the program that people start to do by hand what this does.
    #[must_use]
    pub fn said_program(&self) -> &'static str {
        let product = if self.wrapper.is_some() { Product::Terragrunt } else { self.tool.product };
        product.executable()
    }

    /// Where what wraps the tool keeps copies of the module that are the runner's to decide on.
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

    /// For a command that starts no provider; what wraps the tool may start anything.
    pub(super) fn collect_less(&self, command: &mut Command) {
        if self.wrapper.is_none() {
            command.environment.collect_less_garbage();
        }
    }

    pub(super) fn command(&self, arguments: Vec<std::ffi::OsString>, output: Output) -> Command {
        let (program, arguments, inner) = match &self.wrapper {
            None => (self.program.to_owned(), arguments, None),
            Some(wrapper) => {
                let inner =
                    Inner { program: self.program.to_owned(), arguments: arguments.clone() };
                (wrapper.program.clone(), wrapper.arguments(arguments), Some(inner))
            }
        };
        Command {
            program,
            inner,
            arguments,
            environment: self.environment.clone(),
            directory: Some(self.directory.to_owned()),
            input: self.input.clone(),
            output,
        }
    }

    /// Runs a command that has to end with 0.
    pub(super) async fn succeed(
        &self,
        name: &'static str,
        command: &Command,
    ) -> Result<Exit, EngineError> {
        let (exit, headline) = self.run(name, command).await?;
        self.check(name, &exit, headline, None)?;
        Ok(exit)
    }

    /// Runs a command that has to end with 0, whether or not the run was stopped.
    pub(super) async fn undisturbed(
        &self,
        name: &'static str,
        command: &Command,
    ) -> Result<Exit, EngineError> {
        let watch = Watch::new(self.log);
        let exit = supervise(command, &watch, &Stop::new(), self.grace)
            .await
            .map_err(|source| EngineError::Process { command: name, source })?;
        self.check(name, &exit, watch.into_seen().headline, None)?;
        Ok(exit)
    }

    /// Runs a command; also returns the first error that it printed.
    pub(super) async fn run(
        &self,
        name: &'static str,
        command: &Command,
    ) -> Result<(Exit, Option<String>), EngineError> {
        let watch = Watch::new(self.log);
        let exit = self.supervise(name, command, &watch).await?;
        Ok((exit, watch.into_seen().headline))
    }

    pub(super) async fn supervise(
        &self,
        name: &'static str,
        command: &Command,
        sink: &impl Sink,
    ) -> Result<Exit, EngineError> {
        let exit = self.supervise_any(name, command, sink).await?;
        self.stopped(name, exit)
    }

    /// Runs a command; that it was stopped is in its exit, unless it was not even started.
    pub(super) async fn supervise_any(
        &self,
        name: &'static str,
        command: &Command,
        sink: &impl Sink,
    ) -> Result<Exit, EngineError> {
        supervise(command, sink, self.stop, self.grace).await.map_err(|source| match source {
            ProcessError::Stopped(reason) => self.stopped_by(name, reason, false),
            source => EngineError::Process { command: name, source },
        })
    }

    /// An exit that the stop has brought about is an error.
    pub(super) fn stopped(&self, name: &'static str, exit: Exit) -> Result<Exit, EngineError> {
        match exit.stopped.clone() {
            Some(reason) if !exit.status.success() => {
                Err(self.stopped_by(name, reason, exit.killed))
            }
            // It was done before the signal had an effect: what it did counts.
            _ => Ok(exit),
        }
    }

    fn stopped_by(&self, command: &'static str, reason: StopReason, killed: bool) -> EngineError {
        let product = self.said_program();
        EngineError::Stopped { command, reason, product, killed, left: None }
    }

    /// Whether a signal that nobody asks with has ended the tool. What wraps it ends with an exit code
    /// then: a shell with 128 and the signal's number, a program in Go, as Terragrunt is, with 255.
    pub(super) fn was_killed(&self, exit: &Exit) -> bool {
        // A tool that dies of being asked to stop was not ready yet, and has locked nothing.
        let asked = [Signal::SIGTERM as i32, Signal::SIGINT as i32];
        let code = exit.status.code().filter(|code| self.wrapper.is_some() && *code > 128);
        let signal = signal_of(exit.status).or(code.map(|code| code - 128));
        signal.is_some_and(|signal| !asked.contains(&signal))
    }

    /// A command that failed is an error, with the first error that it printed and the lock that
    /// kept it from its work.
    pub(super) fn check(
        &self,
        command: &'static str,
        exit: &Exit,
        headline: Option<String>,
        lock: Option<StateLock>,
    ) -> Result<(), EngineError> {
        if exit.status.success() {
            return Ok(());
        }
        let below = || {
            let tool = self.tool.product.executable();
            format!("something may have killed the {tool} that it started")
        };
        let is_below = exit.status.code().is_some() && self.was_killed(exit);
        let headline = headline.or_else(|| is_below.then(below));
        let failed = Box::new(Failed {
            code: exit.status.code(),
            signal: signal_of(exit.status),
            out_of_memory: exit.out_of_memory,
            headline,
            lock,
            left: None,
        });
        Err(EngineError::Failed { product: self.said_program(), command, failed })
    }
}
