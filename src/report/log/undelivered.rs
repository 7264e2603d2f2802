//! The log lines that were not delivered to the registry.

use std::collections::VecDeque;
use std::io::Write;

use super::batch::{Batch, LARGEST_BODY};
use super::spool::Receiver;

/// The lines that were not delivered when the upload ended. Dropping it discards the lines and wipes the
/// file that holds them.
#[derive(Debug)]
pub struct Undelivered {
    /// Batches that had left the queue, the oldest first.
    pub(in crate::report) pending: VecDeque<Batch>,
    pub(in crate::report) receiver: Receiver,
}

/// The result of writing undelivered lines.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct WrittenLines {
    /// The number of lines.
    pub lines: usize,
    /// Whether all lines were written.
    pub complete: bool,
}

impl Undelivered {
    /// Writes the lines, the oldest first, each as one line with the JSON object that the registry's `logs`
    /// contains. Stops before the next batch if `may_continue` returns false.
    ///
    /// # Errors
    /// If `out` fails.
    pub fn write(
        &mut self,
        out: &mut impl Write,
        may_continue: impl Fn() -> bool,
    ) -> std::io::Result<WrittenLines> {
        let mut written = WrittenLines { lines: 0, complete: false };
        while may_continue() {
            let next = self.pending.pop_front();
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
        send(4, "in \"batch\"");
        send(5, "too");
        let pending = VecDeque::from_iter(Batch::fill(&mut receiver, LARGEST_BODY));
        for sequence in 6..=100 {
            send(sequence, "waits");
        }
        Undelivered { pending, receiver }
    }

    #[test]
    fn all_undelivered_lines_are_written_in_order() {
        let directory = tempfile::tempdir().unwrap();
        let mut text = Vec::new();
        let written = undelivered(directory.path()).write(&mut text, || true).unwrap();
        assert_eq!(written, WrittenLines { lines: 97, complete: true });
        let lines: Vec<LogLine> = std::str::from_utf8(&text)
            .unwrap()
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert!(lines.iter().map(|line| line.sequence).eq(4..=100));
        assert_eq!((&*lines[0].content, &*lines[1].content), ("in \"batch\"", "too"));
        assert!(lines[2..].iter().all(|line| line.content == "waits"));
        assert!(
            !directory.path().join("overflow").exists(),
            "the file is wiped when all lines are written"
        );
    }

    #[test]
    fn writing_stops_when_it_may_not_continue() {
        let directory = tempfile::tempdir().unwrap();
        let mut text = Vec::new();
        let written = undelivered(directory.path()).write(&mut text, || false).unwrap();
        assert_eq!(written, WrittenLines { lines: 0, complete: false });
        assert!(text.is_empty());
    }
}
