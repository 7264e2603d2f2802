//! Starts attempts as processes of this machine, which outlive the server.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use butler_base::blocking::blocking;
use butler_base::error::{FailureClass, chain};
use butler_base::platform::fs::{AccessFlags, access};
use butler_base::platform::remove_special_modes;
use butler_base::process::{Environment, start_detached};
use butler_source::git::has_files;
use secrecy::ExposeSecret;
use tokio::sync::{mpsc, watch};

use super::configuration::isolation_variables;
use super::directory::AttemptDirectory;
use super::log_writer::{LogWriter, most_log};
use super::outcome::{self, DriftRules};
use super::plan_file::PlanFiles;
use super::states;
use crate::config::local_backend_problem;
use crate::controller::{Executor, ExecutorError, Probe};
use crate::data::{DataDirectory, write_private};
use crate::event::Event;
use crate::layers::Catalog;
use crate::model::{AttemptToken, Commit, Ending, LayerName, Liveness};
use crate::store::AttemptId;

/// The first argument that makes this executable the process of an attempt. The second one is the
/// attempt's directory.
pub const ATTEMPT_COMMAND: &str = "internal-attempt";

/// The time between two looks for processes that a killed attempt has left.
const LAST_PROCESS: Duration = Duration::from_millis(500);

/// How often an attempt sends its log.
const LOG_INTERVAL: &str = "50ms";

/// How often an attempt asks for its status, which is its heartbeat.
const STATUS_INTERVAL: &str = "10s";

/// How long an attempt tries to report: until the server is there again.
const REGISTRY_TIMEOUT: &str = "24h";

/// What attempts get from the server.
#[derive(Clone, Debug)]
pub struct AttemptSettings {
    /// Where they run: what other servers call this one.
    pub place: String,
    /// This executable.
    pub executable: PathBuf,
    /// The data directory.
    pub data: DataDirectory,
    /// The layers, which can add to what attempts get.
    pub catalog: watch::Receiver<Arc<Catalog>>,
    /// The address of the listener for attempts, `http://127.0.0.1:PORT`.
    pub endpoint: String,
    /// What attempts inherit: PATH, locale, proxies, certificates, and settings of the runner.
    pub environment: Environment,
}

/// The process of an attempt cannot be started.
#[derive(Debug, thiserror::Error)]
enum StartError {
    /// What the layer says cannot be used any more.
    #[error(transparent)]
    Configuration(std::io::Error),
    /// The machine failed.
    #[error(transparent)]
    Platform(#[from] std::io::Error),
}

impl StartError {
    const fn class(&self) -> FailureClass {
        match self {
            Self::Configuration(_) => FailureClass::Configuration,
            Self::Platform(_) => FailureClass::Platform,
        }
    }
}

/// Starts processes.
#[derive(Debug)]
pub struct ProcessExecutor {
    settings: AttemptSettings,
    /// Gets the end of each process.
    events: mpsc::UnboundedSender<Event>,
    /// How many processes of this server have not ended, or were not tidied up.
    running: watch::Sender<usize>,
}

impl ProcessExecutor {
    /// An executor that tells `events` which processes have ended.
    #[must_use]
    pub fn new(settings: AttemptSettings, events: mpsc::UnboundedSender<Event>) -> Self {
        Self { settings, events, running: watch::Sender::new(0) }
    }

    fn directory(&self, attempt: &AttemptId) -> AttemptDirectory {
        AttemptDirectory::of(&self.settings.data.attempts(), attempt)
    }

    fn start(&self, attempt: &AttemptId, token: &AttemptToken) -> Result<(), StartError> {
        let directory = self.directory(attempt);
        let access = self.settings.data.access();
        directory.create(access)?;
        directory.set_work(&self.settings.data.work(&attempt.layer), access)?;
        // The server's own, until it is replaced by that of the attempt.
        let parent = self.settings.environment.value("TMPDIR").map(PathBuf::from);
        directory.create_temporary(&parent.unwrap_or_else(|| "/tmp".into()), access)?;
        write_private(&directory.token(), token.secret().expose_secret().as_bytes())?;
        let path = directory.path();
        let argument = path.to_str().ok_or_else(|| {
            std::io::Error::other(format!("the path `{}` is not UTF-8", path.display()))
        })?;
        let output = directory.open_output()?;
        let environment =
            self.environment(attempt, &directory).map_err(StartError::Configuration)?;
        let arguments = [ATTEMPT_COMMAND, argument];
        let mut child =
            start_detached(&self.settings.executable, &arguments, &environment, path, &output)?;
        let (events, attempt) = (self.events.clone(), attempt.clone());
        let executable = self.settings.executable.clone();
        let running = self.running.clone();
        let states = self.settings.data.states().join(attempt.layer.as_str());
        running.send_modify(|running| *running += 1);
        tokio::spawn(async move {
            if let Err(error) = child.wait().await {
                tracing::warn!(%error, "cannot wait for the process of an attempt");
            }
            until_ended(&directory).await;
            // Copies of the data directory can get to places that others reach.
            let modes = blocking(move |_| remove_special_modes(&states)).await;
            if let Err(error) = modes {
                tracing::warn!(%error, "cannot look for files that a module has left beside its state");
            }
            if let Err(error) = tidy(&executable, &environment, &directory, &output).await {
                tracing::warn!(%error, "cannot remove the temporary files of an attempt");
            }
            // The receiver is gone when the server stops.
            let _ = events.send(Event::Exited(attempt));
            running.send_modify(|running| *running -= 1);
        });
        Ok(())
    }

    /// Waits until all processes that were started have ended, and nothing temporary is left of them.
    pub async fn all_ended(&self) {
        // The sender is a field of this executor.
        let _ = self.running.subscribe().wait_for(|running| *running == 0).await;
    }

    /// The attempts of earlier servers that have temporary files. Call it before an attempt is
    /// started.
    ///
    /// # Errors
    /// If the directories cannot be read.
    pub fn leftovers(&self) -> std::io::Result<Vec<AttemptDirectory>> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(self.settings.data.attempts())? {
            let directory = AttemptDirectory::at(&entry?.path());
            if directory.is_tidy() {
                continue;
            }
            match directory.is_alive() {
                Ok(_) => found.push(directory),
                // It is not known to have ended, so its files are left alone.
                Err(error) => tracing::warn!(
                    %error, "cannot tell whether the attempt in `{}` runs", directory.path().display()
                ),
            }
        }
        Ok(found)
    }

    /// Removes the temporary files of these attempts when their processes have ended.
    ///
    /// # Errors
    /// If something cannot be removed.
    pub async fn tidy(&self, leftovers: Vec<AttemptDirectory>) -> std::io::Result<()> {
        // All states are walked once for those that have ended, and once more for each that goes on.
        let is_alive = |directory: &AttemptDirectory| !matches!(directory.is_alive(), Ok(false));
        let leftovers: Vec<_> = leftovers.into_iter().map(|it| (is_alive(&it), it)).collect();
        if !leftovers.is_empty() {
            self.remove_special_modes().await?;
        }
        let all = leftovers.into_iter().map(|(was_alive, directory)| async move {
            // One that has outlived its server is tidied up when it ends.
            until_ended(&directory).await;
            if was_alive {
                self.remove_special_modes().await?;
            }
            let mut environment = self.settings.environment.clone();
            set_directories(&mut environment, &directory);
            // A killed server can have created the token and not this file.
            let output = directory.open_output()?;
            tidy(&self.settings.executable, &environment, &directory, &output).await
        });
        futures_util::future::join_all(all).await.into_iter().collect()
    }

    async fn remove_special_modes(&self) -> std::io::Result<()> {
        let states = self.settings.data.states();
        blocking(move |_| remove_special_modes(&states)).await
    }

    /// The environment of `execute`.
    fn environment(
        &self,
        attempt: &AttemptId,
        directory: &AttemptDirectory,
    ) -> std::io::Result<Environment> {
        let mut environment = self.settings.environment.clone();
        let source = self.settings.catalog.borrow().layers.get(&attempt.layer).cloned();
        if let Some(source) = source {
            let data = self.settings.data.root();
            if let Some(backend) = &source.entry.backend {
                // A link can have been made since the configuration was loaded.
                let states = self.settings.data.states().join(attempt.layer.as_str());
                let problem = local_backend_problem(backend, Some(&states), data);
                problem.map_or(Ok(()), |problem| Err(std::io::Error::other(problem)))?;
            }
            let variables = isolation_variables(&source.entry, &environment, data);
            for (name, value) in variables.map_err(std::io::Error::other)? {
                environment.set(name, value);
            }
            if let Some(command) = &source.entry.after_plan {
                environment.set("BUTLER_AFTER_PLAN", check_program(&command.value)?);
            }
        }
        set_directories(&mut environment, directory);
        for (name, value) in [
            ("BUTLER_ENDPOINT", self.settings.endpoint.clone().into()),
            ("BUTLER_RUN_ID", attempt.to_string().into()),
            ("BUTLER_TOKEN_FILE", directory.token().into_os_string()),
            ("BUTLER_REPORT_DIR", directory.reports().into_os_string()),
            // The store has the outputs: nothing reads a file with them.
            ("BUTLER_NO_OUTPUTS_FILE", "true".into()),
            ("BUTLER_LOG_INTERVAL", OsString::from(LOG_INTERVAL)),
            ("BUTLER_CANCEL_INTERVAL", STATUS_INTERVAL.into()),
            ("BUTLER_REGISTRY_TIMEOUT", REGISTRY_TIMEOUT.into()),
        ] {
            environment.set(name, value);
        }
        Ok(environment)
    }
}

/// Returns the command that checks plans, if its program can be executed. Otherwise each attempt would end
/// without a report.
fn check_program(command: &str) -> std::io::Result<&str> {
    let program = Path::new(command.split_whitespace().next().unwrap_or_default());
    if program.is_file() && access(program, AccessFlags::X_OK).is_ok() {
        return Ok(command);
    }
    let shown = program.display();
    Err(std::io::Error::other(format!("`{shown}` of `after-plan` is not an executable file")))
}

/// Waits until no process of an attempt exists. If its runner was killed, its Terraform can go on for a while.
async fn until_ended(directory: &AttemptDirectory) {
    while directory.is_alive().unwrap_or(false) {
        if let Err(error) = directory.end_orphaned_providers() {
            tracing::warn!(%error, "cannot end the providers of an attempt that was killed");
        }
        tokio::time::sleep(LAST_PROCESS).await;
    }
}

/// Sets the directories of an attempt, which `execute` and `clean` use.
fn set_directories(environment: &mut Environment, directory: &AttemptDirectory) {
    environment.set("HOME", directory.home());
    if let Some(temporary) = directory.temporary() {
        environment.set("TMPDIR", temporary);
    }
    environment.set("BUTLER_WORK_DIR", directory.work());
    environment.set("BUTLER_RECOVERY_DIR", directory.recovery());
}

/// Removes what the process of an attempt left. If it was killed, `clean` wipes the directory of its
/// run, and keeps a state that could not be stored.
async fn tidy(
    executable: &Path,
    environment: &Environment,
    directory: &AttemptDirectory,
    output: &std::fs::File,
) -> std::io::Result<()> {
    if directory.has_leftovers()? {
        start_detached(executable, &["clean"], environment, directory.path(), output)?
            .wait()
            .await?;
    }
    directory.tidy()
}

/// Finds out whether the process of an attempt exists, or what it left. `attempts` has the directories
/// of all attempts. Writes nothing.
///
/// `rules` say what counts as drift of the layer.
pub(crate) fn probe(attempts: &Path, attempt: &AttemptId, rules: &DriftRules) -> Probe {
    let directory = AttemptDirectory::of(attempts, attempt);
    if directory.is_job() {
        // Only its cluster can tell.
        return Probe::Liveness(Liveness::Unknown);
    }
    match directory.is_alive() {
        Ok(true) => Probe::Liveness(Liveness::Alive),
        Ok(false) => outcome::left_by(&directory, rules)
            .map_or(Probe::Liveness(Liveness::Gone), |result| Probe::Ended(Box::new(result))),
        Err(error) => {
            tracing::warn!(%error, run = %attempt.run, "cannot tell whether an attempt runs");
            Probe::Liveness(Liveness::Unknown)
        }
    }
}

/// Whether a process of an attempt exists, or it is not known that none does. `attempts` has the
/// directories of all attempts.
///
/// # Errors
/// If the directories cannot be read.
pub(crate) fn is_any_alive(attempts: &Path) -> std::io::Result<bool> {
    for entry in std::fs::read_dir(attempts)? {
        let directory = AttemptDirectory::at(&entry?.path());
        if !directory.is_tidy() && directory.is_alive().unwrap_or(true) {
            return Ok(true);
        }
    }
    Ok(false)
}

impl Executor for ProcessExecutor {
    async fn launch(
        &self,
        attempt: &AttemptId,
        token: &AttemptToken,
        _: Duration,
    ) -> Result<(), ExecutorError> {
        let Err(error) = self.start(attempt, token) else { return Ok(()) };
        // The attempt ends as one whose process has left this.
        let directory = self.directory(attempt);
        let why = format!("cannot start the attempt: {}", chain(&error));
        let text = format!("Error: {why}");
        LogWriter::default()
            .append_own(&directory.log(), text.clone())
            .and_then(|()| directory.record_failed_start(Ending::Failed(error.class()), &why))
            .and_then(|()| directory.tidy())
            .map_err(|_| ExecutorError(text))?;
        // The receiver is gone when the server stops.
        let _ = self.events.send(Event::Exited(attempt.clone()));
        Ok(())
    }

    async fn stop(&self, attempt: &AttemptId) -> Result<(), ExecutorError> {
        let failed = |error: std::io::Error| ExecutorError(error.to_string());
        match self.directory(attempt).process().map_err(failed)? {
            Some(process) => process.ask_to_end().map_err(failed),
            // It is about to record itself. The request is repeated.
            None => Err(ExecutorError("it has not begun yet".to_owned())),
        }
    }

    fn remove_plan(&self, attempt: &AttemptId) {
        if let Err(error) = PlanFiles::remove(&self.directory(attempt)) {
            tracing::warn!(run = %attempt.run, %error, "cannot remove a plan file");
        }
    }

    fn move_files(&self, from: &[LayerName], to: &LayerName) -> Result<(), ExecutorError> {
        let states = self.settings.data.states();
        let moved = from.iter().try_for_each(|from| states::rename(&states, from, to));
        moved.map_err(|error| ExecutorError(error.to_string()))
    }

    async fn probe(&self, attempt: &AttemptId) -> Probe {
        let rules = DriftRules::of(&self.settings.catalog.borrow(), &attempt.layer);
        let found = probe(&self.settings.data.attempts(), attempt, &rules);
        if matches!(found, Probe::Ended(_) | Probe::Liveness(Liveness::Gone)) {
            let limit = most_log(&self.settings.catalog.borrow(), &attempt.layer);
            if let Err(error) = LogWriter::default().take_up(&self.directory(attempt), limit) {
                tracing::warn!(run = %attempt.run, %error, "cannot take up undelivered log lines");
            }
        }
        found
    }

    fn place(&self) -> &str {
        &self.settings.place
    }

    fn has_commit(&self, repository: &str, commit: &Commit) -> bool {
        has_commit(&self.settings.data, repository, commit)
    }
}

/// Whether the mirror of a repository has this commit with its files.
pub(super) fn has_commit(data: &DataDirectory, repository: &str, commit: &Commit) -> bool {
    let mirror = git2::Repository::open_bare(data.mirror(repository));
    mirror.is_ok_and(|mirror| {
        git2::Oid::from_str(commit.as_str()).is_ok_and(|commit| has_files(&mirror, commit))
    })
}

/// Makes this process that of the attempt in `directory`: a session of its own, and a record of
/// which process it is. The caller executes the run afterwards, without its log on the terminal: it would
/// fill the file for the output, which has no limit.
///
/// # Errors
/// If the record cannot be written.
pub fn begin_attempt(directory: &Path) -> std::io::Result<()> {
    // Fails only if this process leads a group already, as when a person starts it in a shell.
    let _ = butler_base::platform::new_session();
    let directory = AttemptDirectory::at(directory);
    directory.record_process(&butler_base::process::ProcessIdentity::own()?)
}

#[cfg(test)]
#[path = "executor_tests.rs"]
mod tests;
