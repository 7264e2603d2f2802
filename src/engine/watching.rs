//! Sinks that pass a command's lines on and remember what matters of them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use serde::Deserialize;

use super::diagnostics::Diagnostic;
use super::locks::lock::{LockMessage, named_id, shows_end, shows_work};
use super::plan::reported::Reported;
use super::test_results::counts::TestCounts;
use super::test_results::junit::{Cases, Part};
use butler_base::event::Stream;
use butler_base::process::Sink;

/// A longer headline is left out, in bytes. It is not cut, because it is masked later, and half a
/// secret is not found.
const LONGEST_HEADLINE: usize = 2000;

/// What Terraform and `OpenTofu` say on standard output when they are interrupted for the first time,
/// whatever the signal. A second interrupt makes them end at once, without their state.
const INTERRUPTED: &[u8] = b"Interrupt received.";

/// What `init` says before it says what is wrong with the configuration, in half a sentence.
const PREAMBLE: &str = " encountered problems during initiali";

/// What a command's lines say about it.
#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a thing that it has said or not")]
pub(super) struct Seen {
    /// The first `Error: ...` of standard error.
    pub(super) headline: Option<String>,
    /// Who holds the lock that it wanted.
    pub(super) lock: LockMessage,
    /// When it was first at work under its own lock.
    pub(super) working: Option<SystemTime>,
    /// Whether it has given its lock back.
    pub(super) ended: bool,
    /// Whether it has said that it could not.
    pub(super) unreleased: bool,
    /// Whether the lines are those of the error that the state cannot be stored.
    unsaved: bool,
    /// The id of its own lock that this error gives.
    pub(super) named: Option<String>,
    /// Whether it has said that it was interrupted.
    interrupted: bool,
    /// What it has said about resources.
    pub(super) reported: Reported,
}

/// Passes lines on and keeps what they say.
pub(super) struct Watch<'sink, S> {
    sink: &'sink S,
    seen: Mutex<Seen>,
}

impl<'sink, S> Watch<'sink, S> {
    pub(super) fn new(sink: &'sink S) -> Self {
        Self { sink, seen: Mutex::default() }
    }

    /// Whether the command works under its lock.
    pub(super) fn is_at_work(&self) -> bool {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.working.is_some() && !seen.ended
    }

    pub(super) fn into_seen(self) -> Seen {
        self.seen.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Sink> Sink for Watch<'_, S> {
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
            }
            Stream::Stderr => {
                if let Some(text) = line.trim_ascii().strip_prefix(b"Error: ")
                    && text.len() <= LONGEST_HEADLINE
                {
                    if seen.headline.as_ref().is_none_or(|it| it.contains(PREAMBLE)) {
                        seen.headline = Some(String::from_utf8_lossy(text).into_owned());
                    }
                    seen.unsaved = text == b"Failed to save state";
                    if text == b"Error releasing the state lock" {
                        (seen.unreleased, seen.ended) = (true, false);
                    }
                }
                if seen.unsaved && seen.named.is_none() {
                    seen.named = named_id(line);
                }
                seen.lock.read(line);
                seen.reported.read_error(line);
            }
        }
        drop(seen);
        self.sink.line(stream, line);
    }

    fn partial(&self, stream: Stream, pending: &[u8]) -> usize {
        self.sink.partial(stream, pending)
    }

    fn acknowledged_stop(&self) -> Option<bool> {
        Some(self.seen.lock().unwrap_or_else(PoisonError::into_inner).interrupted)
    }
}

/// Passes the lines on of a command that is asked to end long after the signal: nobody else does.
pub(super) struct Alone<'sink, S>(pub(super) &'sink S);

impl<S: Sink> Sink for Alone<'_, S> {
    fn line(&self, stream: Stream, line: &[u8]) {
        self.0.line(stream, line);
    }

    fn partial(&self, stream: Stream, pending: &[u8]) -> usize {
        self.0.partial(stream, pending)
    }
}

/// What asking for the lock has shown.
#[derive(Default)]
pub(super) struct Answer {
    /// Who holds it.
    pub(super) lock: LockMessage,
    /// Whether there is no state yet, which is looked for under the lock.
    pub(super) without_state: bool,
}

/// Shows nobody the lines of a command that only asks who holds the lock.
#[derive(Default)]
pub(super) struct Asking(Mutex<Answer>);

impl Asking {
    pub(super) fn into_answer(self) -> Answer {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sink for Asking {
    fn line(&self, _: Stream, line: &[u8]) {
        let mut answer = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        answer.without_state |= line.trim_ascii() == b"No state file was found!";
        answer.lock.read(line);
    }

    fn partial(&self, _: Stream, _: &[u8]) -> usize {
        0
    }
}

/// Passes the messages of `test -json` on as people read them.
pub(super) struct Messages<'sink, S> {
    pub(super) sink: &'sink S,
    pub(super) counts: Mutex<Option<TestCounts>>,
    /// The tests one by one.
    pub(super) cases: Mutex<Cases>,
    /// Whether it has said that it was interrupted.
    pub(super) interrupted: AtomicBool,
}

impl<S: Sink> Sink for Messages<'_, S> {
    fn line(&self, stream: Stream, line: &[u8]) {
        #[derive(Deserialize)]
        struct Message {
            #[serde(rename = "@message")]
            text: String,
            diagnostic: Option<Diagnostic>,
            #[serde(flatten)]
            part: Part,
        }
        let Ok(message) = serde_json::from_slice::<Message>(line) else {
            return self.sink.line(stream, line);
        };
        if let Some(counts) = TestCounts::from_json_line(line) {
            *self.counts.lock().unwrap_or_else(PoisonError::into_inner) = Some(counts);
        }
        let diagnostic = message.diagnostic.as_ref();
        self.cases.lock().unwrap_or_else(PoisonError::into_inner).note(message.part, diagnostic);
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

    /// A JSON line makes sense only as a whole.
    fn partial(&self, stream: Stream, pending: &[u8]) -> usize {
        if pending.first() == Some(&b'{') { 0 } else { self.sink.partial(stream, pending) }
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
    fn a_lock_is_not_given_back_where_that_fails_after_all() {
        let releasing = (Stream::Stdout, "Releasing state lock. This may take a few moments...");
        let error = (Stream::Stderr, "Error: Error releasing the state lock");
        for lines in [[releasing, error], [error, releasing]] {
            let watch = Watch::new(&Discard);
            watch.line(Stream::Stdout, b"a.b: Creating...");
            for (stream, line) in lines {
                watch.line(stream, line.as_bytes());
            }
            assert!(watch.is_at_work());
            assert!(watch.into_seen().unreleased);
        }
    }

    #[test]
    fn the_reason_is_the_first_error_that_says_what_is_wrong() {
        let preamble =
            "Error: Terraform encountered problems during initialisation, including problems";
        let of_opentofu =
            "Error: OpenTofu encountered problems during initialization, including problems";
        for (lines, expected) in [
            (
                &[
                    preamble,
                    "with the configuration, described below.",
                    "Error: Missing name",
                    "Error: Other",
                ][..],
                "Missing name",
            ),
            (&[of_opentofu, "Error: Missing name"], "Missing name"),
            (&[preamble], &preamble["Error: ".len()..]),
            (&["Error: One", "Error: Two"], "One"),
        ] {
            let watch = Watch::new(&Discard);
            for line in lines {
                watch.line(Stream::Stderr, line.as_bytes());
            }
            assert_eq!(watch.into_seen().headline.as_deref(), Some(expected));
        }
    }

    #[test]
    fn only_the_error_about_the_state_names_the_lock() {
        let line = b"http://127.0.0.1/s?ID=a66115e6-2f0d-5775-71cb-1df559258735 giving up";
        for (headline, named) in [("Failed to save state", true), ("another", false)] {
            let watch = Watch::new(&Discard);
            watch.line(Stream::Stderr, format!("Error: {headline}").as_bytes());
            watch.line(Stream::Stdout, line);
            watch.line(Stream::Stderr, line);
            assert_eq!(watch.into_seen().named.is_some(), named, "{headline}");
        }
    }
}
