//! The receiver of a child's lines.

use crate::event::Stream;

/// Receives the lines of a child.
pub trait Sink {
    /// Receives one line, without its newline.
    fn line(&self, stream: Stream, line: &[u8]);

    /// Receives the beginning of a line that is incomplete for a while or too long. Returns how
    /// many bytes were consumed; the rest is passed again with the bytes that follow.
    fn partial(&self, stream: Stream, pending: &[u8]) -> usize;

    /// The stream has ended: no line of it follows.
    fn stream_ended(&self, _stream: Stream) {}

    /// Whether the lines show that the child received a signal already; none if its lines never
    /// show that.
    fn acknowledged_stop(&self) -> Option<bool> {
        None
    }
}

/// A sink that discards the output.
#[derive(Clone, Copy, Debug)]
pub struct Discard;

impl Sink for Discard {
    fn line(&self, _: Stream, _: &[u8]) {}

    fn partial(&self, _: Stream, pending: &[u8]) -> usize {
        pending.len()
    }
}
