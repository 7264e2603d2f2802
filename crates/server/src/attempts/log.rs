//! The log of one attempt: a JSON document in each line of a file.

use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write};
use std::path::{Path, PathBuf};

use butler_base::event::LogLine;
use butler_base::platform::fs::OpenOptionsExt;
use fs_err as fs;
use serde::{Deserialize, Serialize};

use crate::data::write_private;

/// How much of the end of the file is read first, in bytes.
const END: u64 = 64 * 1024;

/// The log of an attempt. Lines have ascending sequence numbers.
#[derive(Clone, Debug)]
pub struct AttemptLog {
    path: PathBuf,
    left_out: PathBuf,
}

/// The lines that were left out at the end of a log, because it has reached its limit.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct LeftOut {
    /// How many lines.
    pub lines: u64,
    /// How much text they have, in bytes.
    pub bytes: u64,
    /// The sequence number of the last one.
    pub last: u32,
}

impl AttemptLog {
    /// The log in the directory of an attempt.
    pub(super) fn of(directory: &Path) -> Self {
        Self { path: directory.join("log.jsonl"), left_out: directory.join("log-left-out.json") }
    }

    /// Appends the lines that come `after` this sequence number: a repeated batch is left out. From
    /// the line on that would make the file larger than `limit` bytes, lines are only counted.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn append(&self, lines: &[LogLine], after: u32, limit: u64) -> io::Result<()> {
        let mut options = std::fs::OpenOptions::new();
        let mut file = options.read(true).append(true).create(true).mode(0o600).open(&self.path)?;
        let mut size = file.metadata()?.len();
        let mut left_out = self.left_out()?;
        let mut text = Vec::new();
        // A line that a power cut has left incomplete must not swallow the next one.
        if size > 0 {
            file.seek(SeekFrom::End(-1))?;
            let mut last = [0];
            file.read_exact(&mut last)?;
            if last != *b"\n" {
                text.push(b'\n');
            }
        }
        let before = left_out;
        for line in lines.iter().filter(|line| line.sequence > after) {
            let mut json = serde_json::to_vec(line)?;
            json.push(b'\n');
            let length = json.len() as u64;
            if left_out.is_none() && size + length <= limit {
                size += length;
                text.append(&mut json);
            } else {
                let counted = left_out.get_or_insert_default();
                counted.lines += 1;
                counted.bytes += line.content.len() as u64;
                counted.last = line.sequence;
            }
        }
        file.write_all(&text)?;
        match left_out {
            Some(counted) if left_out != before => {
                write_private(&self.left_out, &serde_json::to_vec(&counted)?)
            }
            _ => Ok(()),
        }
    }

    /// The lines at the end that were left out, if there are any.
    ///
    /// # Errors
    /// If the record cannot be read.
    pub fn left_out(&self) -> io::Result<Option<LeftOut>> {
        match fs::read(&self.left_out) {
            // It is incomplete if the machine was switched off while it was written.
            Ok(text) => Ok(Some(serde_json::from_slice(&text).unwrap_or_default())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The sequence number of the last line, also if it was left out; 0 without a line.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(super) fn last(&self) -> io::Result<u32> {
        let kept = self.last_kept()?;
        Ok(self.left_out()?.map_or(kept, |left_out| left_out.last.max(kept)))
    }

    fn last_kept(&self) -> io::Result<u32> {
        let Some(mut file) = self.open()? else { return Ok(0) };
        let size = file.metadata()?.len();
        let mut length = END;
        loop {
            let start = size.saturating_sub(length);
            file.seek(SeekFrom::Start(start))?;
            let mut end = Vec::new();
            (&mut file).take(size - start).read_to_end(&mut end)?;
            // Neither the end of a line nor a line without its end is a document.
            let mut lines = end.rsplit(|byte| *byte == b'\n');
            let last = lines.find_map(|line| serde_json::from_slice::<LogLine>(line).ok());
            match last {
                Some(line) => return Ok(line.sequence),
                None if start == 0 => return Ok(0),
                None => length *= 8,
            }
        }
    }

    /// At most `most` lines that come `after` this sequence number.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn lines(&self, after: u32, most: usize) -> io::Result<Vec<LogLine>> {
        let Some(file) = self.open()? else { return Ok(Vec::new()) };
        let (mut reader, mut line, mut found) = (BufReader::new(file), Vec::new(), Vec::new());
        while found.len() < most {
            line.clear();
            if reader.read_until(b'\n', &mut line)? == 0 {
                break;
            }
            // Lines that come before are not parsed.
            if sequence(&line).is_some_and(|number| number > after)
                && let Ok(line) = serde_json::from_slice(&line)
            {
                found.push(line);
            }
        }
        Ok(found)
    }

    fn open(&self) -> io::Result<Option<fs::File>> {
        match fs::File::open(&self.path) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// The sequence number of a line that [`AttemptLog::append`] wrote: it is its first field.
fn sequence(line: &[u8]) -> Option<u32> {
    let rest = line.strip_prefix(br#"{"sequence":"#)?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(&rest[..digits]).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use butler_base::event::Stream;

    use super::*;

    fn line(sequence: u32, content: &str) -> LogLine {
        LogLine { sequence, stream: Stream::Stdout, content: content.to_owned() }
    }

    #[test]
    fn repeated_and_torn_lines_are_left_out() {
        let directory = tempfile::tempdir().unwrap();
        let log = AttemptLog::of(directory.path());
        assert_eq!((log.lines(0, 10).unwrap(), log.last().unwrap()), (Vec::new(), 0));
        log.append(&[line(1, "a"), line(2, "b")], 0, 1000).unwrap();
        log.append(&[line(2, "b"), line(3, "c")], 2, 1000).unwrap();
        let mut options = std::fs::OpenOptions::new();
        let mut file = options.append(true).open(&log.path).unwrap();
        file.write_all(br#"{"sequence":4,"stre"#).unwrap();
        assert_eq!(log.lines(0, 10).unwrap(), [line(1, "a"), line(2, "b"), line(3, "c")]);
        assert_eq!(log.last().unwrap(), 3);
        log.append(&[line(4, "d")], 3, 1000).unwrap();
        assert_eq!(log.lines(3, 10).unwrap(), [line(4, "d")]);
        assert_eq!(log.lines(1, 1).unwrap(), [line(2, "b")]);
    }

    #[test]
    fn last_line_is_found_behind_a_long_one() {
        let directory = tempfile::tempdir().unwrap();
        let log = AttemptLog::of(directory.path());
        let quoted = r#"{"sequence":9,"stream":"stdout","content":"x"}"#;
        let text = quoted.repeat(40_000);
        log.append(&[line(1, &text), line(2, &text)], 0, u64::MAX).unwrap();
        assert_eq!(log.last().unwrap(), 2);
        assert_eq!(log.lines(1, 10).unwrap(), [line(2, &text)]);
    }

    #[test]
    fn lines_behind_the_limit_are_counted() {
        let directory = tempfile::tempdir().unwrap();
        let log = AttemptLog::of(directory.path());
        let limit = 100;
        log.append(&[line(1, "first")], 0, limit).unwrap();
        assert_eq!(log.left_out().unwrap(), None);
        // The short line at the end would fit, but a log with a hole would mislead.
        let text = "x".repeat(100);
        log.append(&[line(2, &text), line(3, "y")], 1, limit).unwrap();
        log.append(&[line(3, "y"), line(4, "zz")], 3, limit).unwrap();
        assert_eq!(log.lines(0, 10).unwrap(), [line(1, "first")]);
        assert_eq!(log.left_out().unwrap(), Some(LeftOut { lines: 3, bytes: 103, last: 4 }));
        assert_eq!(log.last().unwrap(), 4);
    }
}
