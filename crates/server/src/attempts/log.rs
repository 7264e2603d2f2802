//! The log of one attempt: a JSON document in each line of a file.

use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write};
use std::path::{Path, PathBuf};

use butler_base::event::LogLine;
use butler_base::platform::fs::OpenOptionsExt;
use fs_err as fs;
use serde::{Deserialize, Serialize};

use super::file_names::{LOG, LOG_LEFT_OUT};
use crate::data::write_private;

/// How much of the end of the file is read first, in bytes.
const END: u64 = 64 * 1024;

/// The most lines of one answer.
const MOST_LINES: usize = 5_000;

/// The most text of one answer, in bytes of JSON. One line can be longer.
const MOST_BYTES: usize = 1024 * 1024;

/// Where reading a log goes on.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
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
        Self { path: directory.join(LOG), left_out: directory.join(LOG_LEFT_OUT) }
    }

    /// Whether it has a line.
    #[must_use]
    pub fn exists(&self) -> bool {
        self.path.exists()
    }

    /// Appends the lines that come `after` this sequence number: a repeated batch is left out. From
    /// the line on that would make the file larger than `limit` bytes, lines are only counted.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn append(&self, lines: &[LogLine], after: u32, limit: u64) -> io::Result<()> {
        let (mut file, mut text) = self.open_to_append()?;
        let mut size = file.metadata()?.len();
        let mut left_out = self.left_out()?;
        let before = left_out;
        for line in lines.iter().filter(|line| line.sequence > after) {
            let mut json = json_line(line)?;
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

    /// Appends a line of the server, which has no limit.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) fn append_own(&self, line: &LogLine) -> io::Result<()> {
        let (mut file, mut text) = self.open_to_append()?;
        text.append(&mut json_line(line)?);
        file.write_all(&text)
    }

    /// The file, and what has to be written before the next line: a line that a power cut has left
    /// incomplete must not swallow it.
    fn open_to_append(&self) -> io::Result<(std::fs::File, Vec<u8>)> {
        let mut options = std::fs::OpenOptions::new();
        let mut file = options.read(true).append(true).create(true).mode(0o600).open(&self.path)?;
        let mut text = Vec::new();
        if file.metadata()?.len() > 0 {
            file.seek(SeekFrom::End(-1))?;
            let mut last = [0];
            file.read_exact(&mut last)?;
            if last != *b"\n" {
                text.push(b'\n');
            }
        }
        Ok((file, text))
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

/// A line as it is in the file.
fn json_line(line: &LogLine) -> io::Result<Vec<u8>> {
    let mut json = serde_json::to_vec(line)?;
    json.push(b'\n');
    Ok(json)
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
#[path = "log_tests.rs"]
mod tests;
