//! `init`, also in a workspace that does not exist yet.
//!
//! Terraform creates the workspace that `TF_WORKSPACE` names when a command reads its state. But if the backend has
//! several workspaces already, `init` fails unless the workspace is one of them. Such an `init` runs again in the default
//! workspace, which leaves the backend initialised.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use super::arguments;
use super::error::EngineError;
use super::invocation::Engine;
use butler_base::event::Stream;
use butler_base::process::{Command, Output, Sink};
use butler_base::trust::open_regular;

/// The variable that selects a workspace.
pub const WORKSPACE_VARIABLE: &str = "TF_WORKSPACE";

/// The workspace that always exists.
pub const DEFAULT_WORKSPACE: &str = "default";

/// The most bytes of standard error that are held back.
const MAX_HELD: usize = 1024 * 1024;

/// What an `init` gets.
#[derive(Clone, Copy, Debug)]
pub struct InitRequest<'run> {
    /// The file with the backend's settings.
    pub backend: Option<&'run Path>,
    /// Whether no backend is initialised.
    pub without_backend: bool,
    /// The directory of a plugin cache, which overrides the one of the environment.
    pub plugin_cache: Option<&'run Path>,
    /// Whether `init` must not read the state in the module's directory. Without a backend, `OpenTofu` reads this state
    /// and does not decrypt it.
    pub hides_state: bool,
}

/// The workspace of an `init` that must not read the state in the module's directory.
const EMPTY_WORKSPACE: &str = "butler-runner-without-state";

/// The directory of local states of other workspaces than the default one.
pub const DEFAULT_WORKSPACE_DIRECTORY: &str = "terraform.tfstate.d";

/// Whether the workspace of the environment existed before `init`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FoundWorkspace {
    /// It existed, or none is named.
    Existing,
    /// It is created.
    New,
}

impl<S: Sink> Engine<'_, S> {
    /// `init`.
    ///
    /// # Errors
    /// If it fails or is stopped.
    pub async fn init(&self, request: &InitRequest<'_>) -> Result<FoundWorkspace, EngineError> {
        let InitRequest { backend, without_backend, plugin_cache, hides_state } = *request;
        let mut command = self
            .command(arguments::init(backend, without_backend, self.lock_timeout), Output::Lines);
        if let Some(directory) = plugin_cache {
            command.environment.set("TF_PLUGIN_CACHE_DIR", directory);
        }
        self.reduce_garbage_collection(&mut command);
        if hides_state {
            return self.init_without_state(command).await;
        }
        let workspace = self.environment.value(WORKSPACE_VARIABLE).unwrap_or_default();
        if without_backend || workspace.is_empty() || workspace == DEFAULT_WORKSPACE {
            self.run_successfully("init", &command).await?;
            return Ok(FoundWorkspace::Existing);
        }
        self.init_in_workspace(command).await
    }

    /// Runs `init` in a workspace without a state, for which the tool creates a directory.
    async fn init_without_state(
        &self,
        mut command: Command,
    ) -> Result<FoundWorkspace, EngineError> {
        command.environment.set(WORKSPACE_VARIABLE, EMPTY_WORKSPACE);
        let done = self.run_successfully("init", &command).await;
        let parent = self.directory.join(DEFAULT_WORKSPACE_DIRECTORY);
        // Only empty directories are removed.
        for directory in [parent.join(EMPTY_WORKSPACE), parent] {
            if let Err(error) = std::fs::remove_dir(&directory) {
                tracing::debug!(path = %directory.display(), %error, "a directory of `init` stays");
            }
        }
        done.map(|_| FoundWorkspace::Existing)
    }

    async fn init_in_workspace(&self, mut command: Command) -> Result<FoundWorkspace, EngineError> {
        let selected_before = self.selected_workspace();
        let held = HeldErrors::new(self.log);
        let (exit, end) = self.run("init", &command, &held).await?;
        if !exit.status.success() && is_about_missing_workspace(held.first_error().as_deref()) {
            command.environment.set(WORKSPACE_VARIABLE, DEFAULT_WORKSPACE);
            let again = HeldErrors::new(self.log);
            let (second, end) = self.run("init", &command, &again).await?;
            // A backend without a default workspace: the first error says what is missing.
            let helps = second.status.success()
                || !is_about_missing_workspace(again.first_error().as_deref());
            if helps {
                held.discard();
                drop(again);
                self.check_exit("init", &second, end)?;
                return Ok(FoundWorkspace::New);
            }
            again.discard();
        }
        drop(held);
        self.check_exit("init", &exit, end)?;
        // If the only workspace of a backend is another one, `init` selects that one.
        let selected = self.selected_workspace();
        let is_new = selected != selected_before && selected.as_deref() == Some(DEFAULT_WORKSPACE);
        Ok(if is_new { FoundWorkspace::New } else { FoundWorkspace::Existing })
    }

    /// The workspace that Terraform has selected in the data directory, which `TF_WORKSPACE` overrides.
    #[must_use]
    pub fn selected_workspace(&self) -> Option<String> {
        let file = self.data_directory(self.directory).join("environment");
        let text = open_regular(&file).and_then(std::io::read_to_string).ok()?;
        Some(text.trim().to_owned()).filter(|name| !name.is_empty())
    }

    /// The workspace in which the commands run.
    #[must_use]
    pub fn current_workspace(&self) -> String {
        let given = self.environment.value(WORKSPACE_VARIABLE).map(OsStr::to_string_lossy);
        given
            .filter(|name| !name.is_empty())
            .map(std::borrow::Cow::into_owned)
            .or_else(|| self.selected_workspace())
            .unwrap_or_else(|| DEFAULT_WORKSPACE.to_owned())
    }
}

/// Whether the error is that the selected workspace does not exist. Versions before 1.1 ask for another one instead.
fn is_about_missing_workspace(headline: Option<&str>) -> bool {
    headline.is_some_and(|text| {
        text.starts_with("Currently selected workspace ") && text.ends_with(" does not exist")
            || text.starts_with("Failed to select workspace: ")
    })
}

/// Passes standard output on, and holds standard error back until it is dropped.
pub(super) struct HeldErrors<'sink, S: Sink> {
    sink: &'sink S,
    held: Mutex<Vec<Vec<u8>>>,
}

impl<'sink, S: Sink> HeldErrors<'sink, S> {
    pub(super) fn new(sink: &'sink S) -> Self {
        Self { sink, held: Mutex::default() }
    }

    /// Drops the lines without passing them on.
    pub(super) fn discard(self) {
        self.take();
    }

    fn take(&self) -> Vec<Vec<u8>> {
        std::mem::take(&mut *self.held.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether a line contains this text.
    pub(super) fn contains(&self, text: &str) -> bool {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.iter().any(|line| memchr::memmem::find(line, text.as_bytes()).is_some())
    }

    /// The first error among the lines.
    fn first_error(&self) -> Option<String> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.iter().find_map(|line| {
            let line = String::from_utf8_lossy(line);
            line.trim().strip_prefix("Error: ").map(str::to_owned)
        })
    }

    fn pass_on(&self) {
        for line in self.take() {
            self.sink.line(Stream::Stderr, &line);
        }
    }
}

impl<S: Sink> Drop for HeldErrors<'_, S> {
    fn drop(&mut self) {
        self.pass_on();
    }
}

impl<S: Sink> Sink for HeldErrors<'_, S> {
    fn line(&self, stream: Stream, line: &[u8]) {
        if stream == Stream::Stdout {
            return self.sink.line(stream, line);
        }
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.push(line.to_vec());
        let is_full = held.iter().map(Vec::len).sum::<usize>() > MAX_HELD;
        drop(held);
        if is_full {
            self.pass_on();
        }
    }

    fn partial(&self, stream: Stream, pending: &[u8]) -> usize {
        match stream {
            Stream::Stdout => self.sink.partial(stream, pending),
            // The lines before it are still held.
            Stream::Stderr => 0,
        }
    }

    fn acknowledged_stop(&self) -> Option<bool> {
        self.sink.acknowledged_stop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Lines(Mutex<Vec<String>>);

    impl Sink for Lines {
        fn line(&self, stream: Stream, line: &[u8]) {
            let line = format!("{stream:?} {}", String::from_utf8_lossy(line));
            self.0.lock().unwrap().push(line);
        }

        fn partial(&self, _: Stream, _: &[u8]) -> usize {
            0
        }
    }

    #[test]
    fn errors_are_held_back_until_they_are_passed_on_or_discarded() {
        let lines = Lines::default();
        let shown = || lines.0.lock().unwrap().clone();
        let held = HeldErrors::new(&lines);
        held.line(Stream::Stderr, b"");
        assert_eq!(held.first_error(), None);
        held.line(Stream::Stderr, b"Error: one");
        held.line(Stream::Stderr, b"Error: two");
        assert_eq!(held.first_error().as_deref(), Some("one"));
        held.line(Stream::Stdout, b"output");
        assert_eq!(shown(), ["Stdout output"]);
        drop(held);
        let errors = ["Stdout output", "Stderr ", "Stderr Error: one", "Stderr Error: two"];
        assert_eq!(shown(), errors);
        let held = HeldErrors::new(&lines);
        held.line(Stream::Stderr, b"missing");
        held.discard();
        assert_eq!(shown().len(), 4);
        let held = HeldErrors::new(&lines);
        held.line(Stream::Stderr, &vec![b'x'; MAX_HELD + 1]);
        assert_eq!(shown().len(), 5, "more than the limit is passed on at once");
        held.discard();
    }

    #[test]
    fn error_about_a_missing_workspace_is_recognised() {
        for (text, expected) in [
            ("Currently selected workspace \"b\" does not exist", true),
            ("Failed to select workspace: input not a valid number", true),
            ("Failed to get existing workspaces: S3 bucket \"b\" does not exist.", false),
            ("No existing workspaces.", false),
        ] {
            assert_eq!(is_about_missing_workspace(Some(text)), expected, "{text}");
        }
        assert!(!is_about_missing_workspace(None));
    }
}
