//! Reads a state: from a plan, from a file, or from the backend, in its stored form or as JSON with the marks of the
//! schemas.
//!
//! Reads before an operation end when the run is stopped. They do not log their errors, because the command that follows
//! has the same ones. Reads after an apply log their errors and ignore the stop.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use super::arguments;
use super::error::EngineError;
use super::invocation::Engine;
use super::json_output::open_json;
use butler_base::process::{Command, Discard, Output, Sink};
use butler_protocol::backend::StateVersion;

/// The state in a plan file, which is a ZIP archive. Its header is that of the state from which the plan was made.
const STATE: &str = "tfstate";

/// The most bytes of a state whose version is read.
const MOST: u64 = 1 << 30;

/// The largest state that is read into memory, in bytes.
const MOST_CONTENT: u64 = 256 << 20;

impl<S: Sink> Engine<'_, S> {
    /// The version of the state that the backend has now; `None` if there is none. Ignores the stop: drop the future
    /// instead.
    ///
    /// # Errors
    /// If the state cannot be read.
    pub async fn pull_state_version(&self) -> Result<Option<StateVersion>, EngineError> {
        let path = self.private.join("pulled-state.json");
        let mut command = self.command(arguments::pull_state(), Output::File(path.clone()));
        self.reduce_garbage_collection(&mut command);
        self.run_ignoring_stop("state pull", &command).await?;
        Ok(open_json(&path).ok().and_then(of_state))
    }

    /// The state that the backend has before an operation, in its stored form; empty if there is none. Does not log its
    /// errors.
    ///
    /// # Errors
    /// If it cannot be read, or the run is stopped.
    pub async fn pull_state(&self) -> Result<Vec<u8>, EngineError> {
        let path = self.private.join("known-state.json");
        let mut command = self.command(arguments::pull_state(), Output::File(path.clone()));
        self.reduce_garbage_collection(&mut command);
        self.run_silently("state pull", &command, path).await
    }

    /// The JSON of the state that the backend has before an operation. The tool starts the providers to add the marks
    /// of their schemas. Does not log its errors.
    ///
    /// # Errors
    /// If it cannot be read, or the run is stopped.
    pub async fn show_known_state(&self) -> Result<Vec<u8>, EngineError> {
        let path = self.private.join("shown-state.json");
        let command = self.command(arguments::show(None), Output::File(path.clone()));
        self.run_silently("show", &command, path).await
    }

    /// The JSON of the state in `file`, or of the state that the backend has after an apply. Logs its errors. Ignores
    /// the stop: drop the future instead.
    ///
    /// # Errors
    /// If it cannot be read.
    pub async fn show_state(&self, file: Option<&Path>) -> Result<BufReader<File>, EngineError> {
        let name = if file.is_some() { "unsaved-state.json" } else { "state.json" };
        let json = self.private.join(name);
        let command = self.command(arguments::show(file), Output::File(json.clone()));
        self.run_ignoring_stop("show", &command).await?;
        match open_json(&json) {
            Ok(opened) => Ok(BufReader::new(opened)),
            Err(source) => Err(EngineError::Read { path: json, source }),
        }
    }

    /// Runs a command that prints into the file `path`, and drops its other lines. Returns the JSON in the file.
    async fn run_silently(
        &self,
        name: &'static str,
        command: &Command,
        path: PathBuf,
    ) -> Result<Vec<u8>, EngineError> {
        let (exit, end) = Box::pin(self.run(name, command, &Discard)).await?;
        self.check_exit(name, &exit, end)?;
        let read = butler_base::blocking::blocking(move |_| {
            let read = open_json(&path).and_then(read_most);
            read.map_err(|source| EngineError::Read { path, source })
        });
        read.await
    }
}

/// The state in a plan file, in its stored form; `None` if it cannot be read, for example because the tool has encrypted
/// the plan.
#[must_use]
pub fn planned_state(plan: &Path) -> Option<Vec<u8>> {
    let mut archive = zip::ZipArchive::new(File::open(plan).ok()?).ok()?;
    read_most(archive.by_name(STATE).ok()?).ok()
}

/// The content of `state`, if it is not too large.
///
/// # Errors
/// If it cannot be read or is too large.
pub fn read_most(state: impl Read) -> std::io::Result<Vec<u8>> {
    let mut content = Vec::new();
    state.take(MOST_CONTENT + 1).read_to_end(&mut content)?;
    if content.len() as u64 > MOST_CONTENT {
        let text = format!("the state is larger than {} MiB", MOST_CONTENT >> 20);
        return Err(std::io::Error::new(std::io::ErrorKind::FileTooLarge, text));
    }
    Ok(content)
}

/// The version of the state from which a plan was made; `None` if it cannot be read, for example because the tool has
/// encrypted the plan, or if there was no state.
#[must_use]
pub fn planned_version(plan: &Path) -> Option<StateVersion> {
    let mut archive = zip::ZipArchive::new(File::open(plan).ok()?).ok()?;
    of_state(archive.by_name(STATE).ok()?)
}

fn of_state(state: impl Read) -> Option<StateVersion> {
    let version: StateVersion = serde_json::from_reader(BufReader::new(state.take(MOST))).ok()?;
    (!version.lineage.is_empty()).then_some(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_without_a_lineage_has_no_version() {
        let version = |state: &str| of_state(state.as_bytes());
        let known = StateVersion { lineage: "a-b".to_owned(), serial: 7 };
        let state =
            r#"{"version": 4, "serial": 7, "lineage": "a-b", "outputs": {"x": {"value": 1}}}"#;
        assert_eq!(version(state), Some(known));
        for state in
            ["", "{}", r#"{"serial": 0, "lineage": ""}"#, r#"{"serial": -1, "lineage": "a"}"#]
        {
            assert_eq!(version(state), None, "{state}");
        }
    }
}
