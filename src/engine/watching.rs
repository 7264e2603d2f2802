//! Sinks that pass the lines of a command on and record what the engine needs to know about the command.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use serde::Deserialize;

use super::diagnostics::Diagnostic;
use super::failures::printed::PrintedErrors;
use super::locks::lock_output::{LockMessage, lock_id_in_address, shows_end, shows_work};
use super::plan::reported::ReportedResources;
use super::remote_run::RemoteRuns;
use super::test_results::cleanup::{FailedCleanup, LeftResources};
use super::test_results::counts::counts_of_json_line;
use super::test_results::junit::{JunitCases, TestFields};
use butler_base::event::Stream;
use butler_base::process::Sink;
use butler_result::TestCounts;

/// The line that Terraform and `OpenTofu` print on standard output at the first signal. At a second signal
/// they exit immediately, without storing their state.
const INTERRUPTED: &[u8] = b"Interrupt received.";

/// The summary of an error, if `line` is its first line.
fn summary(line: &[u8]) -> Option<&[u8]> {
    line.trim_ascii().strip_prefix(b"Error: ")
}

/// The facts that a command has printed.
#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is an independent fact")]
pub(super) struct ObservedOutput {
    /// The errors on standard error.
    pub(super) errors: PrintedErrors,
    /// The error about the lock of another command.
    pub(super) lock: LockMessage,
    /// When it first printed that it works, which it does only under its own lock.
    pub(super) working: Option<SystemTime>,
    /// Whether it has released its lock.
    pub(super) ended: bool,
    /// Whether it could not release its lock.
    pub(super) unreleased: bool,
    /// Whether the current lines belong to the error that the state cannot be stored.
    unsaved: bool,
    /// The id of its own lock in this error.
    pub(super) named: Option<String>,
    /// Whether it has acknowledged a signal.
    interrupted: bool,
    /// The resources that it has printed.
    pub(super) reported: ReportedResources,
    /// The resources that the clean-up of tests has left.
    pub(super) left_resources: LeftResources,
}

/// Passes lines on and records their facts.
pub(super) struct OutputWatch<'sink, S> {
    sink: &'sink S,
    remote_runs: &'sink RemoteRuns,
    seen: Mutex<ObservedOutput>,
}

impl<'sink, S> OutputWatch<'sink, S> {
    pub(super) fn new(sink: &'sink S, remote_runs: &'sink RemoteRuns) -> Self {
        Self { sink, remote_runs, seen: Mutex::default() }
    }

    /// Whether the command works and holds its lock.
    pub(super) fn is_working(&self) -> bool {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.working.is_some() && !seen.ended
    }

    pub(super) fn into_observed(self) -> ObservedOutput {
        self.seen.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Sink> Sink for OutputWatch<'_, S> {
    fn line(&self, stream: Stream, line: &[u8]) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        match stream {
            Stream::Stdout => {
                if seen.working.is_none() && shows_work(line) {
                    seen.working = Some(SystemTime::now());
                }
                seen.ended |= !seen.unreleased && shows_end(line);
                seen.interrupted |= line.trim_ascii() == INTERRUPTED;
                seen.reported.read_progress(line);
                self.remote_runs.read(line);
            }
            Stream::Stderr => {
                seen.errors.read(line);
                if let Some(text) = summary(line) {
                    seen.unsaved = text == b"Failed to save state";
                    if text == b"Error releasing the state lock" {
                        (seen.unreleased, seen.ended) = (true, false);
                    }
                }
                if seen.unsaved && seen.named.is_none() {
                    seen.named = lock_id_in_address(line);
                }
                seen.lock.read(line);
                seen.reported.read_error(line);
                seen.left_resources.read(line);
            }
        }
        drop(seen);
        self.sink.line(stream, line);
    }

    fn partial(&self, stream: Stream, pending: &[u8]) -> usize {
        self.sink.partial(stream, pending)
    }

    fn stream_ended(&self, stream: Stream) {
        self.sink.stream_ended(stream);
    }

    fn acknowledged_stop(&self) -> Option<bool> {
        Some(self.seen.lock().unwrap_or_else(PoisonError::into_inner).interrupted)
    }
}

/// Passes lines on, but not the acknowledgement of a signal. For commands that get their signal only from the
/// runner, long after the signal of the CI system.
pub(super) struct WithoutAcknowledgement<'sink, S>(pub(super) &'sink S);

impl<S: Sink> Sink for WithoutAcknowledgement<'_, S> {
    fn line(&self, stream: Stream, line: &[u8]) {
        self.0.line(stream, line);
    }

    fn partial(&self, stream: Stream, pending: &[u8]) -> usize {
        self.0.partial(stream, pending)
    }

    fn stream_ended(&self, stream: Stream) {
        self.0.stream_ended(stream);
    }
}

/// The result of a query of the lock.
#[derive(Default)]
pub(super) struct LockQueryResult {
    /// The error about the lock, if the state is locked.
    pub(super) lock: LockMessage,
    /// Whether the state does not exist yet. The command reads it after it has taken the lock.
    pub(super) without_state: bool,
    /// The errors.
    pub(super) errors: PrintedErrors,
}

/// Reads the lines of a lock query, and drops them.
#[derive(Default)]
pub(super) struct LockQuery(Mutex<LockQueryResult>);

impl LockQuery {
    pub(super) fn into_result(self) -> LockQueryResult {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sink for LockQuery {
    fn line(&self, stream: Stream, line: &[u8]) {
        let mut result = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // With an exclamation mark; since OpenTofu 1.12 as an error in a box.
        result.without_state |= memchr::memmem::find(line, b"No state file was found").is_some();
        if stream == Stream::Stderr {
            result.lock.read(line);
            result.errors.read(line);
        }
    }

    fn partial(&self, _: Stream, _: &[u8]) -> usize {
        0
    }
}

/// Converts the messages of `test -json` to text and passes them on.
pub(super) struct TestMessages<'sink, S> {
    pub(super) sink: &'sink S,
    pub(super) counts: Mutex<Option<TestCounts>>,
    /// The results of the single tests.
    pub(super) cases: Mutex<JunitCases>,
    /// The resources that the clean-up has left.
    pub(super) left: Mutex<LeftResources>,
    /// Whether the command has acknowledged a signal.
    pub(super) interrupted: AtomicBool,
}

impl<S: Sink> Sink for TestMessages<'_, S> {
    fn line(&self, stream: Stream, line: &[u8]) {
        #[derive(Deserialize)]
        struct Message {
            #[serde(rename = "@message")]
            text: String,
            diagnostic: Option<Diagnostic>,
            test_cleanup: Option<FailedCleanup>,
            #[serde(flatten)]
            fields: TestFields,
        }
        let Ok(message) = serde_json::from_slice::<Message>(line) else {
            return self.sink.line(stream, line);
        };
        if let Some(counts) = counts_of_json_line(line) {
            *self.counts.lock().unwrap_or_else(PoisonError::into_inner) = Some(counts);
        }
        let diagnostic = message.diagnostic.as_ref();
        self.cases.lock().unwrap_or_else(PoisonError::into_inner).add(message.fields, diagnostic);
        if let Some(cleanup) = message.test_cleanup {
            self.left.lock().unwrap_or_else(PoisonError::into_inner).add_all(cleanup);
        }
        if let Some(diagnostic) = message.diagnostic {
            for line in diagnostic.lines() {
                self.sink.line(Stream::Stderr, line.as_bytes());
            }
            return;
        }
        if message.text.trim_ascii().as_bytes().starts_with(INTERRUPTED) {
            self.interrupted.store(true, Ordering::Relaxed);
        }
        for line in message.text.lines() {
            self.sink.line(stream, line.as_bytes());
        }
    }

    /// A part of a JSON line cannot be converted.
    fn partial(&self, stream: Stream, pending: &[u8]) -> usize {
        if pending.first() == Some(&b'{') { 0 } else { self.sink.partial(stream, pending) }
    }

    fn stream_ended(&self, stream: Stream) {
        self.sink.stream_ended(stream);
        // Standard output also contains what is passed on as standard error.
        if stream == Stream::Stdout {
            self.sink.stream_ended(Stream::Stderr);
        }
    }

    fn acknowledged_stop(&self) -> Option<bool> {
        Some(self.interrupted.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use butler_base::process::Discard;

    #[test]
    fn lock_is_not_released_if_the_release_fails_afterwards() {
        let releasing = (Stream::Stdout, "Releasing state lock. This may take a few moments...");
        let error = (Stream::Stderr, "Error: Error releasing the state lock");
        for lines in [[releasing, error], [error, releasing]] {
            let none = RemoteRuns::default();
            let watch = OutputWatch::new(&Discard, &none);
            watch.line(Stream::Stdout, b"a.b: Creating...");
            for (stream, line) in lines {
                watch.line(stream, line.as_bytes());
            }
            assert!(watch.is_working());
            assert!(watch.into_observed().unreleased);
        }
    }

    #[test]
    fn lock_id_is_read_only_from_the_error_about_the_state() {
        let line = b"http://127.0.0.1/s?ID=a66115e6-2f0d-5775-71cb-1df559258735 giving up";
        for (headline, named) in [("Failed to save state", true), ("another", false)] {
            let none = RemoteRuns::default();
            let watch = OutputWatch::new(&Discard, &none);
            watch.line(Stream::Stderr, format!("Error: {headline}").as_bytes());
            watch.line(Stream::Stdout, line);
            watch.line(Stream::Stderr, line);
            assert_eq!(watch.into_observed().named.is_some(), named, "{headline}");
        }
    }

    #[test]
    fn state_that_does_not_exist_is_recognised_in_the_words_of_each_version() {
        for (line, is_missing) in [
            ("No state file was found!", true),
            ("Error: No state file was found", true),
            ("│ Error: No state file was found", true),
            ("Error: Error acquiring the state lock", false),
        ] {
            let query = LockQuery::default();
            query.line(Stream::Stderr, line.as_bytes());
            assert_eq!(query.into_result().without_state, is_missing, "{line}");
        }
    }
}
