//! The log lines that did not reach the registry, for later recovery.

use std::collections::VecDeque;
use std::io::Write;

use super::batch::{Batch, LARGEST_BODY};
use super::spool::Receiver;

/// The lines that were not delivered when the upload ended. Dropping it discards the lines and wipes the
/// file that holds them.
#[derive(Debug)]
pub struct Undelivered {
    /// What had left the queue, the oldest first.
    pub(in crate::report) hand: VecDeque<Batch>,
    pub(in crate::report) receiver: Receiver,
}

/// How much was written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Written {
    /// How many lines.
    pub lines: usize,
    /// Whether that is all of them.
    pub complete: bool,
}

impl Undelivered {
    /// Writes the lines, the oldest first, one JSON object a line, as the registry takes them in
    /// its `logs`. Begins a further batch only as long as `goes_on` says so.
    ///
    /// # Errors
    /// When `out` fails.
    pub fn write(
        &mut self,
        out: &mut impl Write,
        goes_on: impl Fn() -> bool,
    ) -> std::io::Result<Written> {
        let mut written = Written { lines: 0, complete: false };
        while goes_on() {
            let next = self.hand.pop_front();
            let Some(batch) = next.or_else(|| Batch::fill(&mut self.receiver, LARGEST_BODY)) else {
                written.complete = true;
                break;
            };
            for object in batch.objects() {
                out.write_all(object)?;
                out.write_all(b"\n")?;
            }
            written.lines += batch.lines();
        }
        out.flush()?;
        Ok(written)
    }
}

#[cfg(test)]
mod tests {

    use super::super::spool::channel;
    use super::*;
    use butler_base::event::LogLineRef;
    use butler_base::event::{LogLine, Stream};

    fn undelivered(directory: &std::path::Path) -> Undelivered {
        let (sender, mut receiver) = channel(100, directory.join("overflow"));
        let send = |sequence, content| {
            sender.send(LogLineRef { sequence, stream: Stream::Stderr, content });
        };
        send(4, "in \"hand\"");
        send(5, "too");
        let hand = VecDeque::from_iter(Batch::fill(&mut receiver, LARGEST_BODY));
        for sequence in 6..=100 {
            send(sequence, "waits");
        }
        Undelivered { hand, receiver }
    }

    #[test]
    fn exactly_what_was_left_is_written_in_its_order() {
        let directory = tempfile::tempdir().unwrap();
        let mut text = Vec::new();
        let written = undelivered(directory.path()).write(&mut text, || true).unwrap();
        assert_eq!(written, Written { lines: 97, complete: true });
        let lines: Vec<LogLine> = std::str::from_utf8(&text)
            .unwrap()
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert!(lines.iter().map(|line| line.sequence).eq(4..=100));
        assert_eq!((&*lines[0].content, &*lines[1].content), ("in \"hand\"", "too"));
        assert!(lines[2..].iter().all(|line| line.content == "waits"));
        assert!(!directory.path().join("overflow").exists(), "it is wiped when all is written");
    }

    #[test]
    fn what_takes_too_long_is_given_up() {
        let directory = tempfile::tempdir().unwrap();
        let mut text = Vec::new();
        let written = undelivered(directory.path()).write(&mut text, || false).unwrap();
        assert_eq!(written, Written { lines: 0, complete: false });
        assert!(text.is_empty());
    }
}
