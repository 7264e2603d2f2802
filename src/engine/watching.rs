//! Sinks that pass a command's lines on and remember what matters of them.

use std::sync::{Mutex, PoisonError};

use serde::Deserialize;

use super::diagnostics::Diagnostic;
use super::test_results::TestCounts;
use crate::event::Stream;
use crate::process::Sink;

/// A longer headline is left out, in bytes. It is not cut, because it is masked later, and half a
/// secret is not found.
const LONGEST_HEADLINE: usize = 2000;

/// Passes lines on and keeps the first `Error: ...` of standard error.
pub(super) struct Headline<'sink, S> {
    pub(super) sink: &'sink S,
    pub(super) first: Mutex<Option<String>>,
}

impl<S: Sink> Sink for Headline<'_, S> {
    fn line(&self, stream: Stream, line: &[u8]) {
        if stream == Stream::Stderr
            && let Some(text) = line.trim_ascii().strip_prefix(b"Error: ")
            && text.len() <= LONGEST_HEADLINE
        {
            let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
            first.get_or_insert_with(|| String::from_utf8_lossy(text).into_owned());
        }
        self.sink.line(stream, line);
    }

    fn partial(&self, stream: Stream, pending: &[u8]) -> usize {
        self.sink.partial(stream, pending)
    }
}

/// Passes the messages of `test -json` on as people read them.
pub(super) struct Messages<'sink, S> {
    pub(super) sink: &'sink S,
    pub(super) counts: Mutex<Option<TestCounts>>,
}

impl<S: Sink> Sink for Messages<'_, S> {
    fn line(&self, stream: Stream, line: &[u8]) {
        #[derive(Deserialize)]
        struct Message {
            #[serde(rename = "@message")]
            message: String,
            diagnostic: Option<Diagnostic>,
        }
        let Ok(message) = serde_json::from_slice::<Message>(line) else {
            return self.sink.line(stream, line);
        };
        if let Some(counts) = TestCounts::from_json_line(line) {
            *self.counts.lock().unwrap_or_else(PoisonError::into_inner) = Some(counts);
        }
        match message.diagnostic {
            Some(diagnostic) => {
                for line in diagnostic.lines() {
                    self.sink.line(Stream::Stderr, line.as_bytes());
                }
            }
            None => {
                for line in message.message.lines() {
                    self.sink.line(stream, line.as_bytes());
                }
            }
        }
    }

    /// A JSON line makes sense only as a whole.
    fn partial(&self, stream: Stream, pending: &[u8]) -> usize {
        if pending.first() == Some(&b'{') { 0 } else { self.sink.partial(stream, pending) }
    }
}
