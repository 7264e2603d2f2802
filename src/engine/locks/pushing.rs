//! `state push` of a state that an apply could not store, also of an encrypted one.
//!
//! `state push` reads its file as plain text. `OpenTofu` encrypts the state that it could not store, so it is first
//! decrypted by `state pull` in a directory with the encryption of the module and the local backend.

use std::path::Path;

use super::killed_lock::KilledLock;
use super::lock::LeftLock;
use super::lock_output::LockSeeker;
use super::locking::UnfinishedCommand;
use crate::engine::arguments;
use crate::engine::error::{EngineError, FailedCommand};
use crate::engine::initialising::WORKSPACE_VARIABLE;
use crate::engine::invocation::{CommandEnd, Engine};
use crate::engine::json_output::json_offset;
use crate::engine::watching::OutputWatch;
use butler_base::cancel::Step;
use butler_base::process::{Output, Sink};

/// The largest state that is decrypted, in bytes.
const MAX_STATE: usize = 512 * 1024 * 1024;

impl<S: Sink> Engine<'_, S> {
    /// Decrypts the state in `directory` with `state pull`. The directory contains the module's encryption, and the
    /// encrypted state as the state of the local backend. Ignores the run's stop and has time until `late`.
    ///
    /// # Errors
    /// If the state cannot be decrypted, or is larger than 512 MiB.
    pub async fn decrypt_state(
        &self,
        directory: &Path,
        late: impl Future<Output = ()>,
    ) -> Result<Vec<u8>, EngineError> {
        const NAME: &str = "state pull";
        let mut environment = self.environment.clone();
        environment.remove(WORKSPACE_VARIABLE);
        environment.set("TF_DATA_DIR", directory.join(".terraform"));
        let output = Output::Memory(MAX_STATE);
        let command = self.command_in(directory, environment, arguments::pull_state(), output);
        let (watch, seeker) = (OutputWatch::new(self.log, &self.remote_runs), LockSeeker::now());
        match self.run_until(NAME, &command, &watch, (Step::State, late)).await? {
            Some(mut exit) => {
                self.check_exit(NAME, &exit, CommandEnd::of(watch.into_observed(), &seeker))?;
                // OpenTofu can print a warning in front of the state.
                let offset = json_offset(&exit.output);
                exit.output.drain(..offset);
                Ok(exit.output)
            }
            None => Err(self.took_too_long(NAME)),
        }
    }

    /// `state push` of a file. The backend rejects it if the state is newer than the file.
    ///
    /// If `unfinished` has certainly left its lock, the push does not take another one: the left lock excludes
    /// all other commands, and its own command has ended. Ignores the run's stop and has time until `late`.
    /// Returns the lock of the push itself if it did not release it.
    ///
    /// # Errors
    /// If the push fails. The error then contains such a lock.
    pub async fn push_state(
        &self,
        file: &Path,
        unfinished: &UnfinishedCommand,
        late: impl Future<Output = ()>,
    ) -> Result<Option<LeftLock>, EngineError> {
        const NAME: &str = "state push";
        let locked = matches!(unfinished.error.left(), Some(LeftLock::Own { .. }));
        let arguments = arguments::push_state(file, locked, self.lock_timeout);
        let command = self.command(arguments, Output::Lines);
        let (watch, trace) =
            (OutputWatch::new(self.log, &self.remote_runs), self.trace("state-push"));
        let seeker = LockSeeker::now();
        let exit = self.run_until(NAME, &command, &watch, (Step::State, late)).await?;
        let seen = watch.into_observed();
        let may_be_left = (exit.is_none() || seen.unreleased)
            && !locked
            && self.killed_lock != KilledLock::EndsWithTool;
        let left = if may_be_left { Some(self.find_left_lock(&trace).await) } else { None };
        let checked = match exit {
            Some(exit) => self.check_exit(NAME, &exit, CommandEnd::of(seen, &seeker)),
            None => Err(self.took_too_long(NAME)),
        };
        match (checked, left) {
            (Ok(()), left) => Ok(left),
            (Err(mut error), left) => {
                if let Some(left) = left {
                    error.set_left(left);
                }
                Err(error)
            }
        }
    }

    fn took_too_long(&self, command: &'static str) -> EngineError {
        EngineError::Failed {
            product: self.program_name(),
            command,
            failed: Box::new(FailedCommand {
                headline: Some("it took too long and was killed".to_owned()),
                ..FailedCommand::default()
            }),
        }
    }
}
