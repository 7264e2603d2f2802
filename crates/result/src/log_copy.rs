//! A redacted copy of a run's log for the page, in unnamed files and with a size limit. If the log
//! is too long, the copy contains its beginning and its end.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Result, Seek, Write};
use std::path::{Path, PathBuf};

use butler_base::event::{LogLineRef, Stream};
use butler_base::secret::Redactor;

/// The size of the beginning, and the maximum size of the end.
const HALF: Size = Size { bytes: 10 * 1024 * 1024, lines: 100_000 };

/// How much of one line is kept, in bytes.
const LONGEST: usize = 16 * 1024;

#[derive(Clone, Copy, Debug, Default)]
struct Size {
    bytes: usize,
    lines: usize,
}

impl Size {
    fn reaches(self, other: Self) -> bool {
        self.bytes >= other.bytes || self.lines >= other.lines
    }
}

/// The copy of a log.
#[derive(Debug)]
pub struct LogCopy {
    directory: PathBuf,
    half: Size,
    head: Part,
    /// The end: the part that is being filled, and the one before it.
    tail: [Option<Part>; 2],
    lines: usize,
}

#[derive(Debug)]
struct Part {
    file: BufWriter<File>,
    size: Size,
}

impl LogCopy {
    /// An empty copy, whose files in `directory` do not have a name.
    ///
    /// # Errors
    /// If the first file cannot be created.
    pub fn create(directory: &Path) -> Result<Self> {
        Self::new(directory, HALF)
    }

    fn new(directory: &Path, half: Size) -> Result<Self> {
        let head = Part::new(directory)?;
        Ok(Self { directory: directory.to_owned(), half, head, tail: [None, None], lines: 0 })
    }

    /// Adds the next line.
    ///
    /// # Errors
    /// If a file cannot be created or written.
    pub fn add(&mut self, entry: LogLineRef<'_>) -> Result<()> {
        self.lines += 1;
        if !self.head.size.reaches(self.half) {
            return self.head.add(entry);
        }
        let quarter = Size { bytes: self.half.bytes / 2, lines: self.half.lines / 2 };
        let is_full =
            |part: &Option<Part>| part.as_ref().is_none_or(|part| part.size.reaches(quarter));
        if is_full(&self.tail[1]) {
            self.tail[0] = self.tail[1].replace(Part::new(&self.directory)?);
        }
        match &mut self.tail[1] {
            Some(part) => part.add(entry),
            None => Ok(()),
        }
    }

    /// A copy of this copy with the secrets that are known now: the plan's own secrets are known
    /// only after the tool has printed them.
    ///
    /// # Errors
    /// If this copy cannot be read, or the new one cannot be written.
    pub fn masked(mut self, redactor: &Redactor) -> Result<Self> {
        let mut masked = Self::new(&self.directory, self.half)?;
        self.each(|line| {
            let content = redactor.redact(line.content.as_bytes());
            masked.add(LogLineRef {
                sequence: line.sequence,
                stream: line.stream,
                content: &content,
            })
        })?;
        masked.lines = self.lines;
        Ok(masked)
    }

    /// The number of lines of the log.
    #[must_use]
    pub const fn lines(&self) -> usize {
        self.lines
    }

    /// Calls `visit` with each line of the copy, in order.
    ///
    /// # Errors
    /// If the copy cannot be read, or `visit` fails.
    pub fn each(&mut self, mut visit: impl FnMut(LogLineRef<'_>) -> Result<()>) -> Result<()> {
        let [older, newer] = &mut self.tail;
        for part in [Some(&mut self.head), older.as_mut(), newer.as_mut()].into_iter().flatten() {
            part.each(&mut visit)?;
        }
        Ok(())
    }
}

impl Part {
    fn new(directory: &Path) -> Result<Self> {
        let file = BufWriter::new(tempfile::tempfile_in(directory)?);
        Ok(Self { file, size: Size::default() })
    }

    fn add(&mut self, entry: LogLineRef<'_>) -> Result<()> {
        let stream = if entry.stream == Stream::Stdout { 'o' } else { 'e' };
        let end = entry.content.floor_char_boundary(LONGEST);
        let (content, rest) = entry.content.split_at(end);
        write!(self.file, "{} {stream}{content}", entry.sequence)?;
        if !rest.is_empty() {
            write!(self.file, "… ({} more bytes)", rest.len())?;
        }
        writeln!(self.file)?;
        self.size.bytes += content.len();
        self.size.lines += 1;
        Ok(())
    }

    fn each(&mut self, visit: &mut impl FnMut(LogLineRef<'_>) -> Result<()>) -> Result<()> {
        self.file.flush()?;
        self.file.get_mut().rewind()?;
        let mut file = BufReader::new(self.file.get_ref());
        let mut line = String::new();
        loop {
            line.clear();
            if file.read_line(&mut line)? == 0 {
                return Ok(());
            }
            let text = line.strip_suffix('\n').unwrap_or(&line);
            let Some((sequence, text)) = text.split_once(' ') else { continue };
            let Ok(sequence) = sequence.parse() else { continue };
            let stream = if text.starts_with('e') { Stream::Stderr } else { Stream::Stdout };
            visit(LogLineRef { sequence, stream, content: text.get(1..).unwrap_or_default() })?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(copy: &mut LogCopy) -> Vec<(u32, String)> {
        let mut lines = Vec::new();
        copy.each(|line| {
            lines.push((line.sequence, line.content.to_owned()));
            Ok(())
        })
        .unwrap();
        lines
    }

    #[test]
    fn secrets_that_became_known_later_are_masked_afterwards() {
        let directory = tempfile::tempdir().unwrap();
        let mut copy = LogCopy::new(directory.path(), HALF).unwrap();
        let content = "made = hunter22";
        copy.add(LogLineRef { sequence: 7, stream: Stream::Stdout, content }).unwrap();
        let redactor = Redactor::new();
        redactor.register(&[secrecy::SecretString::from("hunter22")]);
        let mut masked = copy.masked(&redactor).unwrap();
        assert_eq!(kept(&mut masked), [(7, "made = ***".to_owned())]);
        assert_eq!(masked.lines(), 1);
    }

    #[test]
    fn long_log_keeps_its_beginning_and_end() {
        let directory = tempfile::tempdir().unwrap();
        let mut copy =
            LogCopy::new(directory.path(), Size { bytes: 1_000_000, lines: 10 }).unwrap();
        for sequence in 1..=1003 {
            copy.add(LogLineRef { sequence, stream: Stream::Stdout, content: "x" }).unwrap();
        }
        let numbers: Vec<_> = kept(&mut copy).into_iter().map(|(sequence, _)| sequence).collect();
        assert_eq!(numbers[..10], (1..=10).collect::<Vec<_>>());
        assert_eq!(numbers[10..], (996..=1003).collect::<Vec<_>>());
        assert_eq!(copy.lines(), 1003);
    }
}
