//! Writes the log of one attempt, each line once: a batch can be sent again while it is still being
//! written, or after a part of it was written.

use std::io::{self, BufReader};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use butler_base::event::{LogLine, Stream};
use fs_err as fs;

use super::directory::AttemptDirectory;
use super::log::AttemptLog;
use crate::layers::Catalog;
use crate::model::LayerName;

/// The most that the log of an attempt may have if the layer does not say, in bytes.
const MOST_LOG: u64 = 64 * 1024 * 1024;

/// The names of the files in which `execute` keeps the lines that it could not deliver.
const UNDELIVERED: (&str, &str) = ("undelivered-log-", ".jsonl");

/// How many undelivered lines are in memory at the same time.
const LINES: usize = 1_000;

/// The limit of the log of a layer's attempts, in bytes.
pub(super) fn most_log(catalog: &Catalog, layer: &LayerName) -> u64 {
    let given = catalog.layers.get(layer).and_then(|source| source.entry.max_log.as_ref());
    given.map_or(MOST_LOG, |size| size.value.0)
}

/// Appends to one log. It has the sequence number of the last line; `None` if it has to be read there.
/// The number is locked while lines are written, and clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct LogWriter(Arc<Mutex<Option<u32>>>);

impl LogWriter {
    /// Appends the lines that the log does not have yet.
    ///
    /// # Errors
    /// If they cannot be written. A part of them may have been written.
    pub(super) fn append(&self, log: &AttemptLog, lines: &[LogLine], limit: u64) -> io::Result<()> {
        self.write_after_last(log, |last| {
            log.append(lines, last, limit)?;
            Ok(lines.iter().map(|line| line.sequence).fold(last, u32::max))
        })
    }

    /// Appends a line of the server with the next sequence number, also to a log that has reached its
    /// limit: the line says why the attempt has failed.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) fn append_own(&self, log: &AttemptLog, text: String) -> io::Result<()> {
        self.write_after_last(log, |last| {
            let sequence = last + 1;
            log.append_own(&LogLine { sequence, stream: Stream::Stderr, content: text })?;
            Ok(sequence)
        })
    }

    /// Calls `write` with the sequence number of the last line. It returns that of the new last one.
    fn write_after_last(
        &self,
        log: &AttemptLog,
        write: impl FnOnce(u32) -> io::Result<u32>,
    ) -> io::Result<()> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // If writing fails, the file itself says which lines it has.
        let last = match known.take() {
            Some(last) => last,
            None => log.last()?,
        };
        *known = Some(write(last)?);
        Ok(())
    }

    /// Appends the lines that an attempt left in its directory because it could not deliver them, and
    /// removes their file. The attempt must have written all of it.
    ///
    /// # Errors
    /// If a file cannot be read or removed, or the lines cannot be written.
    pub(super) fn take_up(&self, directory: &AttemptDirectory, limit: u64) -> io::Result<()> {
        for path in undelivered(&directory.recovery())? {
            let file = BufReader::new(fs::File::open(&path)?);
            // A line that a power cut has left incomplete is the last one.
            let mut lines = serde_json::Deserializer::from_reader(file)
                .into_iter::<LogLine>()
                .map_while(Result::ok);
            loop {
                let batch: Vec<LogLine> = lines.by_ref().take(LINES).collect();
                if batch.is_empty() {
                    break;
                }
                self.append(&directory.log(), &batch, limit)?;
            }
            fs::remove_file(path)?;
        }
        Ok(())
    }
}

/// The files with undelivered lines. Links are left out: a module may have made them.
fn undelivered(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry?;
        let (prefix, suffix) = UNDELIVERED;
        let name = entry.file_name();
        let is_one =
            name.to_str().is_some_and(|name| name.starts_with(prefix) && name.ends_with(suffix));
        if is_one && entry.file_type()?.is_file() {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attempts::{LeftOut, LogPosition};

    fn lines(numbers: std::ops::RangeInclusive<u32>) -> Vec<LogLine> {
        let line = |sequence| LogLine { sequence, stream: Stream::Stdout, content: "x".to_owned() };
        numbers.map(line).collect()
    }

    fn numbers(log: &AttemptLog) -> Vec<u32> {
        log.page(LogPosition::default()).unwrap().lines.iter().map(|line| line.sequence).collect()
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
    fn lines_of_the_server_have_numbers_of_their_own() {
        let root = tempfile::tempdir().unwrap();
        let (log, writer) = (AttemptDirectory::at(root.path()).log(), LogWriter::default());
        let batch = lines(1..=2_000);
        std::thread::scope(|scope| {
            let (log, writer, batch) = (&log, &writer, &batch);
            writer.append(log, batch, u64::MAX).unwrap();
            for number in 0..4 {
                scope.spawn(move || {
                    for _ in 0..50 {
                        writer.append_own(log, format!("line of {number}")).unwrap();
                        // The attempt has missed the answer.
                        writer.append(log, batch, u64::MAX).unwrap();
                    }
                });
            }
        });
        assert!(numbers(&log).into_iter().eq(1..=2_200));
    }

    #[test]
    fn line_of_the_server_is_kept_after_the_limit() {
        let root = tempfile::tempdir().unwrap();
        let (log, writer) = (AttemptDirectory::at(root.path()).log(), LogWriter::default());
        let limit = serde_json::to_string(&lines(1..=1)[0]).unwrap().len() as u64 + 1;
        writer.append(&log, &lines(1..=3), limit).unwrap();
        writer.append_own(&log, "Error: why".to_owned()).unwrap();
        assert_eq!(numbers(&log), [1, 4]);
        // The log still ends where it has reached its limit.
        writer.append(&log, &lines(5..=6), limit).unwrap();
        assert_eq!(log.left_out().unwrap(), Some(LeftOut { lines: 4, bytes: 4, last: 6 }));
        // Also for a server that was started meanwhile.
        LogWriter::default().append_own(&log, "Error: more".to_owned()).unwrap();
        let kept = log.page(LogPosition::after(1)).unwrap().lines;
        let kept: Vec<_> = kept.iter().map(|line| (line.sequence, &*line.content)).collect();
        assert_eq!(kept, [(4, "Error: why"), (7, "Error: more")]);
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

    #[test]
    fn undelivered_lines_are_taken_up_once_and_only_from_files_of_the_attempt() {
        let root = tempfile::tempdir().unwrap();
        let directory = AttemptDirectory::at(root.path());
        let writer = LogWriter::default();
        writer.take_up(&directory, u64::MAX).unwrap();
        std::fs::create_dir_all(directory.recovery()).unwrap();
        writer.append(&directory.log(), &lines(1..=5), u64::MAX).unwrap();
        let left: Vec<String> =
            lines(4..=2_500).iter().map(|line| serde_json::to_string(line).unwrap()).collect();
        let file = directory.recovery().join("undelivered-log-ab12.jsonl");
        // Batches can overlap with what was delivered, and the last line can be incomplete.
        std::fs::write(&file, format!("{}\n{{\"sequence\":2501,", left.join("\n"))).unwrap();
        let other = root.path().join("other.jsonl");
        std::fs::write(&other, left[0].replace("\":4", "\":9999")).unwrap();
        let link = directory.recovery().join("undelivered-log-link.jsonl");
        std::os::unix::fs::symlink(&other, &link).unwrap();
        let state = directory.recovery().join("terraform.tfstate");
        std::fs::write(&state, "{}").unwrap();

        for _ in 0..2 {
            writer.take_up(&directory, u64::MAX).unwrap();
            assert!(numbers(&directory.log()).into_iter().eq(1..=2_500));
        }
        assert!(!file.exists() && state.exists() && other.exists());
    }
}
