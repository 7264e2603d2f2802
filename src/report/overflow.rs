//! The file behind a queue of log lines, for what does not fit into memory.
//!
//! It is made when it is needed first, with mode 0600, used again from its beginning whenever all
//! of it was read, and overwritten and removed in the end. Its lines are redacted already.

use std::collections::VecDeque;
use std::fs::File;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;

use super::block::{Block, Entry};
use crate::event::Stream;
use crate::secret::wipe_file;

/// The file's bound. A run that prints 200,000 lines as JSON stays below half of it; a temporary
/// directory in memory, as containers have them, bears it.
const LARGEST: u64 = 256 * 1024 * 1024;

/// The file, and where in it the blocks are that were not read yet.
#[derive(Debug)]
pub(super) struct Overflow {
    path: PathBuf,
    file: Option<File>,
    stored: VecDeque<Stored>,
    end: u64,
}

#[derive(Debug)]
struct Stored {
    offset: u64,
    length: usize,
    first: u32,
    lines: usize,
}

/// Lines that could not be kept.
#[derive(Debug)]
pub(super) struct Lost {
    first: u32,
    lines: usize,
    reason: String,
}

impl Lost {
    pub(super) fn new(block: &Block, error: &std::io::Error) -> Self {
        Self { first: block.first(), lines: block.lines(), reason: error.to_string() }
    }

    /// Counts the lines of another block.
    pub(super) fn add(&mut self, block: &Block) {
        self.lines += block.lines();
    }

    /// One line in the place and with the number of the first that is missing.
    pub(super) fn note(&self) -> Block {
        let mut note = Block::default();
        let content = format!("[{} lines could not be kept: {}]", self.lines, self.reason);
        note.push(Entry { sequence: self.first, stream: Stream::Stdout, content: &content });
        note
    }
}

impl Overflow {
    /// Nothing yet; `path` is made when it is needed.
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, file: None, stored: VecDeque::new(), end: 0 }
    }

    /// Whether everything was read.
    pub(super) fn is_empty(&self) -> bool {
        self.stored.is_empty()
    }

    /// Adds a block.
    ///
    /// # Errors
    /// When the file cannot be made or written, or is full; then nothing has changed.
    pub(super) fn write(&mut self, block: &Block) -> std::io::Result<()> {
        let offset = self.end;
        let end = offset + block.bytes().len() as u64;
        if end > LARGEST {
            return Err(std::io::Error::other("too many lines wait"));
        }
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(
                File::options()
                    .read(true)
                    .write(true)
                    .create_new(true)
                    .mode(0o600)
                    .open(&self.path)?,
            ),
        };
        file.write_all_at(block.bytes(), offset)?;
        self.end = end;
        self.stored.push_back(Stored {
            offset,
            length: block.bytes().len(),
            first: block.first(),
            lines: block.lines(),
        });
        Ok(())
    }

    /// Takes the oldest block out, if there is one. Where it could not be read, its bytes are none
    /// of its lines.
    pub(super) fn read(&mut self) -> Option<(Block, std::io::Result<()>)> {
        let stored = self.stored.pop_front()?;
        if self.stored.is_empty() {
            self.end = 0;
        }
        let mut bytes = vec![0; stored.length];
        let read = match &self.file {
            Some(file) => file.read_exact_at(&mut bytes, stored.offset),
            None => Err(std::io::ErrorKind::NotFound.into()),
        };
        Some((Block::restore(bytes, stored.first, stored.lines), read))
    }
}

impl Drop for Overflow {
    fn drop(&mut self) {
        if self.file.take().is_some()
            && let Err(error) = wipe_file(&self.path)
        {
            tracing::error!(error = %crate::error::chain(&error), "log lines may be left on the disk");
        }
    }
}
