//! The file behind a queue of log lines, for lines that do not fit into memory.
//!
//! It is created on first use, with mode 0600, and overwritten and removed at the end. Its lines are
//! already redacted. It is divided into slots that are reused as soon as they were read, so that its size
//! limits the waiting lines and not the length of the log.

use std::collections::VecDeque;
use std::fs::File;
use std::path::PathBuf;

use super::block::Block;
use butler_base::event::LogLineRef;
use butler_base::event::Stream;
use butler_base::platform::fs::{FileExt, OpenOptionsExt};
use butler_base::secret::wipe_file;

/// The largest size of the file, in bytes. 200,000 lines of JSON take less than half of it, and it fits into the
/// temporary directories in memory that containers have.
const MAX_SIZE: u64 = 256 * 1024 * 1024;

/// The size of a slot, in bytes: any block fits, which has 64 KiB and one line of some MiB at most.
const SLOT: u64 = 8 * 1024 * 1024;

/// The file, and the positions of the blocks that were not read yet.
#[derive(Debug)]
pub(in crate::report) struct Overflow {
    path: PathBuf,
    file: Option<File>,
    stored: VecDeque<StoredBlock>,
    slot_size: u64,
    slots: u64,
    /// The number of slots that were ever used.
    used: u64,
    /// Used slots whose blocks were all read.
    free: Vec<u64>,
    /// The slot that is being filled, and the bytes in it.
    filling: Option<(u64, u64)>,
}

#[derive(Debug)]
struct StoredBlock {
    slot: u64,
    offset: u64,
    length: usize,
    first: u32,
    lines: usize,
}

/// Consecutive lines that could not be stored.
#[derive(Debug)]
pub(in crate::report) struct LostLines {
    first: u32,
    lines: usize,
    reason: String,
}

impl LostLines {
    pub(in crate::report) fn new(block: &Block, error: &std::io::Error) -> Self {
        Self { first: block.first(), lines: block.lines(), reason: error.to_string() }
    }

    /// Counts the lines of another block.
    pub(in crate::report) fn add(&mut self, block: &Block) {
        self.lines += block.lines();
    }

    /// A line that reports the loss, with the number of the first lost line.
    pub(in crate::report) fn note(&self) -> Block {
        let mut note = Block::default();
        let content = format!("[{} lines could not be kept: {}]", self.lines, self.reason);
        note.push(LogLineRef { sequence: self.first, stream: Stream::Stdout, content: &content });
        note
    }
}

impl Overflow {
    /// An empty queue; the file `path` is created when it is needed.
    pub(in crate::report) fn new(path: PathBuf) -> Self {
        Self::with_slots(path, SLOT, MAX_SIZE / SLOT)
    }

    /// A queue with `slots` slots of `slot_size` bytes.
    pub(in crate::report) fn with_slots(path: PathBuf, slot_size: u64, slots: u64) -> Self {
        Self {
            path,
            file: None,
            stored: VecDeque::new(),
            slot_size,
            slots,
            used: 0,
            free: Vec::new(),
            filling: None,
        }
    }

    /// Whether everything was read.
    pub(in crate::report) fn is_empty(&self) -> bool {
        self.stored.is_empty()
    }

    /// Adds a block.
    ///
    /// # Errors
    /// If the file cannot be created or written, or is full; the queue is unchanged then.
    pub(in crate::report) fn write(&mut self, block: &Block) -> std::io::Result<()> {
        let length = block.bytes().len() as u64;
        let (slot, begin) = self.room_for(length)?;
        let offset = slot * self.slot_size + begin;
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
        if begin == 0 {
            self.used = self.used.max(slot + 1);
            self.free.retain(|free| *free != slot);
        }
        self.filling = Some((slot, begin + length));
        self.stored.push_back(StoredBlock {
            slot,
            offset,
            length: block.bytes().len(),
            first: block.first(),
            lines: block.lines(),
        });
        Ok(())
    }

    /// A slot with room for `length` bytes, and the offset in it.
    fn room_for(&self, length: u64) -> std::io::Result<(u64, u64)> {
        let filling = self.filling.filter(|(_, end)| end + length <= self.slot_size);
        let fresh = self.free.last().copied().or((self.used < self.slots).then_some(self.used));
        filling
            .or(fresh.filter(|_| length <= self.slot_size).map(|slot| (slot, 0)))
            .ok_or_else(|| std::io::Error::other("too many lines are waiting"))
    }

    /// Removes the oldest block, if there is one. If it could not be read, the block has the right numbers but
    /// not the bytes of its lines.
    pub(in crate::report) fn read(&mut self) -> Option<(Block, std::io::Result<()>)> {
        let stored = self.stored.pop_front()?;
        match self.stored.front() {
            Some(next) if next.slot == stored.slot => {}
            Some(_) => self.free.push(stored.slot),
            None => {
                self.free.clear();
                (self.used, self.filling) = (0, None);
            }
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
            tracing::error!(error = %butler_base::error::chain(&error), "log lines may be left on the disk");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A packed block of 100 bytes.
    fn block(number: u32) -> Block {
        let mut block = Block::default();
        let content = format!("{number:091}");
        block.push(LogLineRef { sequence: number, stream: Stream::Stdout, content: &content });
        block
    }

    fn read(overflow: &mut Overflow) -> Option<u32> {
        let (block, read) = overflow.read()?;
        read.unwrap();
        let (entry, _) = block.entry(0).unwrap();
        assert_eq!(entry.content.parse::<u32>().unwrap(), entry.sequence);
        Some(entry.sequence)
    }

    #[test]
    fn limit_applies_to_waiting_lines_and_not_to_the_length_of_the_log() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("overflow");
        let mut overflow = Overflow::with_slots(path.clone(), 250, 4);
        // A backlog that never drains, through which a hundred times the limit passes.
        for number in 1..=4 {
            overflow.write(&block(number)).unwrap();
        }
        for number in 5..=1000 {
            overflow.write(&block(number)).unwrap();
            assert_eq!(read(&mut overflow), Some(number - 4));
        }
        assert!(std::fs::metadata(&path).unwrap().len() <= 1000);
        for number in 997..=1000 {
            assert_eq!(read(&mut overflow), Some(number));
        }
        assert_eq!(read(&mut overflow), None);
    }

    #[test]
    fn block_is_refused_until_a_slot_was_read() {
        let directory = tempfile::tempdir().unwrap();
        let mut overflow = Overflow::with_slots(directory.path().join("overflow"), 200, 2);
        for number in 1..=4 {
            overflow.write(&block(number)).unwrap();
        }
        assert!(overflow.write(&block(5)).is_err());
        assert_eq!(read(&mut overflow), Some(1));
        assert!(overflow.write(&block(5)).is_err(), "one half of the slot is not read yet");
        assert_eq!(read(&mut overflow), Some(2));
        overflow.write(&block(5)).unwrap();
        let rest: Vec<_> = std::iter::from_fn(|| read(&mut overflow)).collect();
        assert_eq!(rest, [3, 4, 5]);
    }
}
