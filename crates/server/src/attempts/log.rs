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

/// The most lines of one answer.
const MOST_LINES: usize = 5_000;

/// The most text of one answer, in bytes of JSON. One line can be longer.
const MOST_BYTES: usize = 1024 * 1024;

/// Where reading a log goes on.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct LogPosition {
    /// The sequence number of the last line that was read.
    after: u32,
    /// Where the next line begins in the file. `None` if it has to be found.
    offset: Option<u64>,
}

impl LogPosition {
    /// Behind the line with this sequence number.
    #[must_use]
    pub const fn after(sequence: u32) -> Self {
        Self { after: sequence, offset: None }
    }
}

/// Lines of a log.
#[derive(Debug)]
pub struct LogPage {
    /// The lines.
    pub lines: Vec<LogLine>,
    /// Where reading goes on.
    pub end: LogPosition,
    /// Whether lines follow that did not fit.
    pub has_more: bool,
}

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

    /// The lines that follow, as many as an answer may have.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn page(&self, from: LogPosition) -> io::Result<LogPage> {
        let mut page = LogPage { lines: Vec::new(), end: from, has_more: false };
        let Some(mut file) = self.open()? else { return Ok(page) };
        let known = from.offset.map_or_else(|| offset_before(&mut file, from.after), Ok);
        let mut offset = known?;
        file.seek(SeekFrom::Start(offset))?;
        let (mut reader, mut json, mut size) = (BufReader::new(file), Vec::new(), 0);
        loop {
            json.clear();
            reader.read_until(b'\n', &mut json)?;
            // The end, or a line of which only a part was written.
            if !json.ends_with(b"\n") {
                break;
            }
            // Lines that come before are not parsed.
            if sequence(&json).is_some_and(|number| number > page.end.after)
                && let Ok(line) = serde_json::from_slice::<LogLine>(&json)
            {
                let is_full = page.lines.len() == MOST_LINES || size + json.len() > MOST_BYTES;
                if is_full && !page.lines.is_empty() {
                    page.has_more = true;
                    break;
                }
                size += json.len();
                page.end.after = line.sequence;
                page.lines.push(line);
            }
            offset += json.len() as u64;
        }
        page.end.offset = Some(offset);
        Ok(page)
    }

    fn open(&self) -> io::Result<Option<fs::File>> {
        match fs::File::open(&self.path) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Where a line begins, at or shortly before the first one that comes `after` this sequence number.
fn offset_before(file: &mut fs::File, after: u32) -> io::Result<u64> {
    let (mut low, mut high) = (0, file.metadata()?.len());
    while high - low > END {
        let middle = low + (high - low) / 2;
        match first_line_behind(file, middle)? {
            Some((start, number)) if number <= after && start < high => low = start,
            _ => high = middle,
        }
    }
    Ok(low)
}

/// Where the first line behind `offset` begins, and its sequence number.
fn first_line_behind(file: &mut fs::File, offset: u64) -> io::Result<Option<(u64, u32)>> {
    file.seek(SeekFrom::Start(offset))?;
    let (mut reader, mut line) = (BufReader::new(file), Vec::new());
    // The rest of the line at `offset`.
    let mut start = offset + reader.read_until(b'\n', &mut line)? as u64;
    loop {
        line.clear();
        let length = reader.read_until(b'\n', &mut line)? as u64;
        match sequence(&line) {
            Some(number) => return Ok(Some((start, number))),
            None if length == 0 => return Ok(None),
            None => start += length,
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

    fn lines(log: &AttemptLog, after: u32) -> Vec<LogLine> {
        log.page(LogPosition::after(after)).unwrap().lines
    }

    #[test]
    fn repeated_and_torn_lines_are_left_out() {
        let directory = tempfile::tempdir().unwrap();
        let log = AttemptLog::of(directory.path());
        assert_eq!((lines(&log, 0), log.last().unwrap()), (Vec::new(), 0));
        log.append(&[line(1, "a"), line(2, "b")], 0, 1000).unwrap();
        log.append(&[line(2, "b"), line(3, "c")], 2, 1000).unwrap();
        let mut options = std::fs::OpenOptions::new();
        let mut file = options.append(true).open(&log.path).unwrap();
        file.write_all(br#"{"sequence":4,"stre"#).unwrap();
        assert_eq!(lines(&log, 0), [line(1, "a"), line(2, "b"), line(3, "c")]);
        assert_eq!(log.last().unwrap(), 3);
        log.append(&[line(4, "d")], 3, 1000).unwrap();
        assert_eq!(lines(&log, 3), [line(4, "d")]);
        assert_eq!(lines(&log, 1), [line(2, "b"), line(3, "c"), line(4, "d")]);
    }

    #[test]
    fn last_line_is_found_behind_a_long_one() {
        let directory = tempfile::tempdir().unwrap();
        let log = AttemptLog::of(directory.path());
        let quoted = r#"{"sequence":9,"stream":"stdout","content":"x"}"#;
        let text = quoted.repeat(40_000);
        log.append(&[line(1, &text), line(2, &text)], 0, u64::MAX).unwrap();
        assert_eq!(log.last().unwrap(), 2);
        assert_eq!(lines(&log, 1), [line(2, &text)]);
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
        assert_eq!(lines(&log, 0), [line(1, "first")]);
        assert_eq!(log.left_out().unwrap(), Some(LeftOut { lines: 3, bytes: 103, last: 4 }));
        assert_eq!(log.last().unwrap(), 4);
    }

    #[test]
    fn page_ends_at_its_limits_and_the_next_one_goes_on_there() {
        for (count, text, pages) in [
            (12_000, "x".to_owned(), vec![5_000, 5_000, 2_000]),
            (5, "x".repeat(600_000), vec![1; 5]),
        ] {
            let directory = tempfile::tempdir().unwrap();
            let log = AttemptLog::of(directory.path());
            let all: Vec<LogLine> = (1..=count).map(|number| line(number, &text)).collect();
            log.append(&all, 0, u64::MAX).unwrap();
            let (mut position, mut read, mut sizes) =
                (LogPosition::default(), Vec::new(), Vec::new());
            loop {
                let page = log.page(position).unwrap();
                // A client that knows the last sequence number only gets the same.
                let found = log.page(LogPosition::after(position.after)).unwrap();
                assert_eq!((&found.lines, found.end), (&page.lines, page.end));
                sizes.push(page.lines.len());
                read.extend(page.lines);
                position = page.end;
                if !page.has_more {
                    break;
                }
            }
            assert_eq!((read == all, sizes), (true, pages));
            assert!(log.page(position).unwrap().lines.is_empty());
            log.append(&[line(count + 1, "y")], count, u64::MAX).unwrap();
            assert_eq!(log.page(position).unwrap().lines, [line(count + 1, "y")]);
        }
    }

    #[test]
    fn line_is_found_without_reading_those_before() {
        let directory = tempfile::tempdir().unwrap();
        let log = AttemptLog::of(directory.path());
        let all: Vec<LogLine> = (1..=20_000).map(|number| line(2 * number, "some text")).collect();
        log.append(&all, 0, u64::MAX).unwrap();
        let mut file = log.open().unwrap().unwrap();
        let length = |line: &LogLine| serde_json::to_vec(line).unwrap().len() as u64 + 1;
        for after in [0, 1, 2, 777, 20_000, 39_999, 40_000, 50_000] {
            let behind = all.iter().filter(|line| line.sequence <= after).map(length).sum::<u64>();
            let found = offset_before(&mut file, after).unwrap();
            assert!(found <= behind && behind - found <= END + 100, "{after}: {found} {behind}");
            let first = lines(&log, after).first().map(|line| line.sequence);
            assert_eq!(first, all.iter().map(|line| line.sequence).find(|it| *it > after));
        }
    }
}
