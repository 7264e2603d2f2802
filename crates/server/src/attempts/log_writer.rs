//! Writes the log of one attempt, each line once: a batch can be sent again while it is still being
//! written, or after a part of it was written.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use butler_base::event::LogLine;

use super::log::AttemptLog;
use crate::layers::Catalog;
use crate::model::LayerName;

/// The most that the log of an attempt may have if the layer does not say, in bytes.
const MOST_LOG: u64 = 64 * 1024 * 1024;

/// The limit of the log of a layer's attempts, in bytes.
pub(super) fn most_log(catalog: &Catalog, layer: &LayerName) -> u64 {
    let given = catalog.layers.get(layer).and_then(|source| source.entry.max_log.as_ref());
    given.map_or(MOST_LOG, |size| size.value.0)
}

/// The sequence number of the last line in a log; `None` if it has to be read there. It is locked while
/// lines are written, and clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct LogWriter(Arc<Mutex<Option<u32>>>);

impl LogWriter {
    /// Appends the lines that the log does not have yet.
    ///
    /// # Errors
    /// If they cannot be written. A part of them may have been written.
    pub(super) fn append(&self, log: &AttemptLog, lines: &[LogLine], limit: u64) -> io::Result<()> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // If writing fails, the file itself says which lines it has.
        let last = match known.take() {
            Some(last) => last,
            None => log.last()?,
        };
        log.append(lines, last, limit)?;
        *known = lines.iter().map(|line| line.sequence).chain([last]).max();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use butler_base::event::Stream;

    use super::*;
    use crate::attempts::AttemptDirectory;

    fn lines(numbers: std::ops::RangeInclusive<u32>) -> Vec<LogLine> {
        let line = |sequence| LogLine { sequence, stream: Stream::Stdout, content: "x".to_owned() };
        numbers.map(line).collect()
    }

    fn numbers(log: &AttemptLog) -> Vec<u32> {
        log.lines(0, 10_000).unwrap().iter().map(|line| line.sequence).collect()
    }

    #[test]
    fn batch_that_is_sent_again_while_it_is_written_is_written_once() {
        let root = tempfile::tempdir().unwrap();
        let (log, writer) = (AttemptDirectory::at(root.path()).log(), LogWriter::default());
        let batch = lines(1..=2_000);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| writer.clone().append(&log, &batch, u64::MAX).unwrap());
            }
        });
        assert!(numbers(&log).into_iter().eq(1..=2_000));
    }

    #[test]
    fn batch_of_which_a_part_was_written_is_completed() {
        let root = tempfile::tempdir().unwrap();
        let (log, writer) = (AttemptDirectory::at(root.path()).log(), LogWriter::default());
        writer.append(&log, &lines(1..=1), u64::MAX).unwrap();
        let (file, kept) = (root.path().join("log.jsonl"), root.path().join("kept"));
        std::fs::rename(&file, &kept).unwrap();
        std::fs::create_dir(&file).unwrap();
        writer.append(&log, &lines(2..=4), u64::MAX).unwrap_err();
        // What such a failure leaves if the disk is full after the second line of the batch.
        std::fs::remove_dir(&file).unwrap();
        std::fs::rename(&kept, &file).unwrap();
        log.append(&lines(2..=3), 1, u64::MAX).unwrap();
        writer.append(&log, &lines(2..=4), u64::MAX).unwrap();
        assert_eq!(numbers(&log), [1, 2, 3, 4]);
    }
}
