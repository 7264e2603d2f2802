//! A queue of log lines whose writer never waits for the reader, and whose memory is limited.
//!
//! Lines wait in memory, then in a file, and keep their order. If the file cannot be written (a full disk) or is
//! full, the newest lines are counted instead of stored until there is room again, and one line reports their
//! number: a run must not fail because its log cannot be stored.

use std::collections::VecDeque;
use std::future::Future;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, watch};

use super::block::Block;
use super::overflow::{LostLines, Overflow};
use butler_base::event::LogLine;
use butler_base::event::LogLineRef;

/// The size of a block, which moves as a whole between the ends and to and from the file, in bytes.
const BLOCK: usize = 64 * 1024;

/// The writing end. When it is dropped, the reader sees the end of the log after the last line.
#[derive(Debug)]
pub struct Sender {
    shared: Arc<Shared>,
}

/// The reading end. When it is dropped, waiting lines are dropped and the file is wiped.
#[derive(Debug)]
pub struct Receiver {
    shared: Arc<Shared>,
    /// The block that is being read.
    current: Block,
    /// The offset of the next line in `current`.
    offset: usize,
    /// The number of lines in `current` that were not read yet.
    left: usize,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<QueueState>,
    changed: Notify,
    closed: watch::Sender<bool>,
}

/// The lines of a queue. By age: `memory`, `overflow`, `lost`, `newest`.
#[derive(Debug)]
struct QueueState {
    memory: VecDeque<Block>,
    memory_bytes: usize,
    memory_limit: usize,
    /// None after the reader was dropped.
    overflow: Option<Overflow>,
    lost: Option<LostLines>,
    newest: Block,
    newest_limit: usize,
    waiting: LineAmount,
    /// The reader sleeps until this amount waits.
    awaited: Option<LineAmount>,
    last: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct LineAmount {
    lines: usize,
    bytes: usize,
}

/// A queue that keeps at most `memory` bytes in memory and the rest in `overflow`, a file of mode 0600 that is
/// created when it is needed and wiped when the reading end is dropped.
///
/// In addition to `memory`, each end holds one block of 64 KiB, or one longer line.
#[must_use]
pub fn channel(memory: usize, overflow: PathBuf) -> (Sender, Receiver) {
    let state = QueueState {
        memory: VecDeque::new(),
        memory_bytes: 0,
        memory_limit: memory,
        overflow: Some(Overflow::new(overflow)),
        lost: None,
        newest: Block::default(),
        newest_limit: BLOCK.min(memory / 4),
        waiting: LineAmount::default(),
        awaited: None,
        last: 0,
    };
    let shared = Arc::new(Shared {
        state: Mutex::new(state),
        changed: Notify::new(),
        closed: watch::Sender::new(false),
    });
    let sender = Sender { shared: Arc::clone(&shared) };
    (sender, Receiver { shared, current: Block::default(), offset: 0, left: 0 })
}

impl Sender {
    /// Queues a line. Never waits for the reader, but may write a block to the file. Drops the line if the reader
    /// was dropped.
    pub fn send(&self, line: LogLineRef<'_>) {
        let mut state = self.shared.state();
        state.push(line);
        if state.awaited.is_some_and(|awaited| state.waiting.reaches(awaited)) {
            state.awaited = None;
            drop(state);
            self.shared.changed.notify_one();
        }
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.shared.closed.send_replace(true);
        self.shared.changed.notify_one();
    }
}

impl Receiver {
    /// The next line; none at the end of the log.
    pub async fn recv(&mut self) -> Option<LogLine> {
        self.ready(1, 1).await;
        let mut line = None;
        self.take_while(|entry| {
            let wanted = line.is_none();
            if wanted {
                line = Some(LogLine::from(entry));
            }
            wanted
        });
        line
    }

    /// Waits until `lines` lines or `bytes` bytes wait, or until the end of the log.
    ///
    /// Returns whether any line waits: `false` is the end. Can be cancelled without loss.
    pub async fn ready(&mut self, lines: usize, bytes: usize) -> bool {
        loop {
            // Read before the lines, so that all lines before the end are seen below.
            let closed = *self.shared.closed.borrow();
            {
                let mut state = self.shared.state();
                let waiting = LineAmount {
                    lines: state.waiting.lines + self.left,
                    bytes: state.waiting.bytes + self.current.bytes().len() - self.offset,
                };
                if closed || waiting.reaches(LineAmount { lines, bytes }) {
                    return waiting.lines > 0;
                }
                state.awaited = Some(LineAmount {
                    lines: lines.saturating_sub(self.left),
                    bytes: (bytes + self.offset).saturating_sub(self.current.bytes().len()),
                });
            }
            self.shared.changed.notified().await;
        }
    }

    /// The number of waiting lines, and their approximate size in bytes.
    #[must_use]
    pub fn waiting(&self) -> (usize, usize) {
        let state = self.shared.state();
        let bytes = state.waiting.bytes + self.current.bytes().len() - self.offset;
        (state.waiting.lines + self.left, bytes)
    }

    /// Calls `visit` with the waiting lines, the oldest first, until it returns `false` for a line. That line
    /// stays in the queue.
    pub fn take_while(&mut self, mut visit: impl FnMut(LogLineRef<'_>) -> bool) {
        loop {
            while let Some((entry, next)) = self.current.entry(self.offset) {
                if !visit(entry) {
                    return;
                }
                self.offset = next;
                self.left -= 1;
            }
            let Some(block) = self.shared.state().take() else {
                // Releases the memory of a large block.
                self.current = Block::default();
                (self.offset, self.left) = (0, 0);
                return;
            };
            (self.left, self.offset) = (block.lines(), 0);
            self.current = block;
        }
    }

    /// Waits until the writing end was dropped. Does not borrow the receiver.
    pub fn closed(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut closed = self.shared.closed.subscribe();
        async move {
            // An error means that the queue was dropped, which also closes it.
            let _ = closed.wait_for(|closed| *closed).await;
        }
    }

    /// Whether the writing end was dropped.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        *self.shared.closed.borrow()
    }

    /// The numbers of the oldest waiting line and of the newest line that was ever sent; none if no line waits.
    pub fn unread(&mut self) -> Option<RangeInclusive<u32>> {
        let mut first = None;
        self.take_while(|entry| {
            first = Some(entry.sequence);
            false
        });
        first.map(|first| first..=self.last())
    }

    /// The number of the newest line that was ever sent, including dropped lines; 0 before the first line.
    #[must_use]
    pub fn last(&self) -> u32 {
        self.shared.state().last
    }

    /// Drops all waiting and later lines, and wipes the file.
    pub fn discard(&mut self) {
        self.current = Block::default();
        (self.offset, self.left) = (0, 0);
        let overflow = {
            let mut state = self.shared.state();
            state.memory = VecDeque::new();
            state.newest = Block::default();
            state.lost = None;
            state.waiting = LineAmount::default();
            state.overflow.take()
        };
        // Outside of the lock, so that the writer does not wait for the wiping.
        drop(overflow);
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.discard();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LineAmount {
    fn of(block: &Block) -> Self {
        Self { lines: block.lines(), bytes: block.bytes().len() }
    }

    fn reaches(self, other: Self) -> bool {
        self.lines >= other.lines || self.bytes >= other.bytes
    }

    fn remove(&mut self, other: Self) {
        self.lines -= other.lines;
        self.bytes -= other.bytes;
    }
}

impl QueueState {
    fn push(&mut self, line: LogLineRef<'_>) {
        self.last = line.sequence;
        if self.overflow.is_none() {
            return;
        }
        let before = self.newest.bytes().len();
        self.newest.push(line);
        self.waiting.lines += 1;
        self.waiting.bytes += self.newest.bytes().len() - before;
        if self.newest.bytes().len() >= self.newest_limit {
            let full = std::mem::take(&mut self.newest);
            self.store(full);
        }
    }

    /// Stores a complete block: in memory, in the file, or as a number of lost lines.
    fn store(&mut self, block: Block) {
        let Some(overflow) = &mut self.overflow else { return };
        if let Some(lost) = &self.lost {
            // If there is room again, the note is stored first. `waiting` already counts its line.
            let note = lost.note();
            if overflow.write(&note).is_ok() {
                self.waiting.bytes += note.bytes().len();
                self.lost = None;
            }
        }
        if let Some(lost) = &mut self.lost {
            lost.add(&block);
            self.waiting.remove(LineAmount::of(&block));
        } else if overflow.is_empty()
            && self.memory_bytes + block.bytes().len() <= self.memory_limit
        {
            self.memory_bytes += block.bytes().len();
            self.memory.push_back(block);
        } else if let Err(error) = overflow.write(&block) {
            self.lost = Some(LostLines::new(&block, &error));
            self.waiting.remove(LineAmount::of(&block));
            self.waiting.lines += 1;
        }
    }

    /// Removes the oldest block.
    fn take(&mut self) -> Option<Block> {
        let block = if let Some(block) = self.memory.pop_front() {
            self.memory_bytes -= block.bytes().len();
            block
        } else if let Some((block, read)) = self.overflow.as_mut().and_then(Overflow::read) {
            if let Err(error) = read {
                self.waiting.remove(LineAmount::of(&block));
                return Some(LostLines::new(&block, &error).note());
            }
            block
        } else if let Some(lost) = self.lost.take() {
            // The note is not in the file, so its line is not counted as a waiting one any more.
            self.waiting.lines -= 1;
            return Some(lost.note());
        } else if self.newest.lines() > 0 {
            std::mem::take(&mut self.newest)
        } else {
            return None;
        };
        self.waiting.remove(LineAmount::of(&block));
        Some(block)
    }
}

#[cfg(test)]
#[path = "spool_tests.rs"]
mod tests;
