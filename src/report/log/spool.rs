//! A queue of log lines that never makes its writer wait and never grows in memory without bound.
//!
//! Lines wait in memory, then in a file, and come out in the order in which they went in. Where the
//! file fails (a full disk) or is full, the newest lines are counted instead of kept until there is
//! room again, and one line in their place reports that: a run must not fail because its log cannot
//! be stored.

use std::collections::VecDeque;
use std::future::Future;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, watch};

use super::block::Block;
use super::overflow::{Lost, Overflow};
use butler_base::event::LogLine;
use butler_base::event::LogLineRef;

/// How much moves at once between the ends and to and from the file.
const BLOCK: usize = 64 * 1024;

/// The writing end; the reader meets the end of the log when it is dropped.
#[derive(Debug)]
pub struct Sender {
    shared: Arc<Shared>,
}

/// The reading end; when it is dropped, what waits is dropped and the file wiped.
#[derive(Debug)]
pub struct Receiver {
    shared: Arc<Shared>,
    current: Block,
    offset: usize,
    /// Lines of `current` that were not read yet.
    left: usize,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Notify,
    closed: watch::Sender<bool>,
}

/// In the order of age: `memory`, `overflow`, `lost`, `newest`.
#[derive(Debug)]
struct State {
    memory: VecDeque<Block>,
    memory_bytes: usize,
    memory_limit: usize,
    /// `None` after the reader is gone.
    overflow: Option<Overflow>,
    lost: Option<Lost>,
    newest: Block,
    newest_limit: usize,
    waiting: Amount,
    /// The reader sleeps until so much waits.
    awaited: Option<Amount>,
    last: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Amount {
    lines: usize,
    bytes: usize,
}

/// A queue that keeps at most `memory` bytes in memory and the rest in `overflow`, a file
/// of mode 0600 that is created when it is needed and wiped when the reading end is dropped.
///
/// Beyond `memory`, either end holds one block of 64 KiB (or one line, where that is longer).
#[must_use]
pub fn channel(memory: usize, overflow: PathBuf) -> (Sender, Receiver) {
    let state = State {
        memory: VecDeque::new(),
        memory_bytes: 0,
        memory_limit: memory,
        overflow: Some(Overflow::new(overflow)),
        lost: None,
        newest: Block::default(),
        newest_limit: BLOCK.min(memory / 4),
        waiting: Amount::default(),
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
    /// Queues a line. Never waits for the reader; a line for a reader that is gone is dropped.
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
    /// The next line, or none once the writing end is gone and everything was read.
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

    /// Waits until `lines` lines or `bytes` bytes are there, or the end of the log.
    ///
    /// Returns whether any line is there: `false` is the end. Can be cancelled without loss.
    pub async fn ready(&mut self, lines: usize, bytes: usize) -> bool {
        loop {
            // Read first: lines from before the end are then always seen below.
            let closed = *self.shared.closed.borrow();
            {
                let mut state = self.shared.state();
                let waiting = Amount {
                    lines: state.waiting.lines + self.left,
                    bytes: state.waiting.bytes + self.current.bytes().len() - self.offset,
                };
                if closed || waiting.reaches(Amount { lines, bytes }) {
                    return waiting.lines > 0;
                }
                state.awaited = Some(Amount {
                    lines: lines.saturating_sub(self.left),
                    bytes: (bytes + self.offset).saturating_sub(self.current.bytes().len()),
                });
            }
            self.shared.changed.notified().await;
        }
    }

    /// How many lines wait, and about how many bytes they are.
    #[must_use]
    pub fn waiting(&self) -> (usize, usize) {
        let state = self.shared.state();
        let bytes = state.waiting.bytes + self.current.bytes().len() - self.offset;
        (state.waiting.lines + self.left, bytes)
    }

    /// Shows the lines that are there to `visit`, the oldest first, until it refuses one by
    /// returning `false`; that one stays.
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
                // A large block is not kept for nothing.
                self.current = Block::default();
                (self.offset, self.left) = (0, 0);
                return;
            };
            (self.left, self.offset) = (block.lines(), 0);
            self.current = block;
        }
    }

    /// Waits until the writing end is gone; does not borrow the receiver.
    pub fn closed(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut closed = self.shared.closed.subscribe();
        async move {
            // An error means that the queue is gone, and that is closed as well.
            let _ = closed.wait_for(|closed| *closed).await;
        }
    }

    /// Whether the writing end is gone.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        *self.shared.closed.borrow()
    }

    /// The numbers of the oldest line that waits and of the newest that was ever sent, if any waits.
    pub fn unread(&mut self) -> Option<RangeInclusive<u32>> {
        let mut first = None;
        self.take_while(|entry| {
            first = Some(entry.sequence);
            false
        });
        first.map(|first| first..=self.last())
    }

    /// The number of the newest line that was ever sent, dropped ones included; 0 before the first.
    #[must_use]
    pub fn last(&self) -> u32 {
        self.shared.state().last
    }

    /// Drops what waits and what will come, and wipes the file.
    pub fn discard(&mut self) {
        self.current = Block::default();
        (self.offset, self.left) = (0, 0);
        let overflow = {
            let mut state = self.shared.state();
            state.memory = VecDeque::new();
            state.newest = Block::default();
            state.lost = None;
            state.waiting = Amount::default();
            state.overflow.take()
        };
        // Wiping takes its time, which is not the writer's.
        drop(overflow);
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.discard();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Amount {
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

impl State {
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
            self.put_away(full);
        }
    }

    fn put_away(&mut self, block: Block) {
        let Some(overflow) = &mut self.overflow else { return };
        if let Some(lost) = &self.lost {
            // Where there is room again, the note goes first; its line is among those that wait.
            let note = lost.note();
            if overflow.write(&note).is_ok() {
                self.waiting.bytes += note.bytes().len();
                self.lost = None;
            }
        }
        if let Some(lost) = &mut self.lost {
            lost.add(&block);
            self.waiting.remove(Amount::of(&block));
        } else if overflow.is_empty()
            && self.memory_bytes + block.bytes().len() <= self.memory_limit
        {
            self.memory_bytes += block.bytes().len();
            self.memory.push_back(block);
        } else if let Err(error) = overflow.write(&block) {
            self.lost = Some(Lost::new(&block, &error));
            self.waiting.remove(Amount::of(&block));
            self.waiting.lines += 1;
        }
    }

    fn take(&mut self) -> Option<Block> {
        let block = if let Some(block) = self.memory.pop_front() {
            self.memory_bytes -= block.bytes().len();
            block
        } else if let Some((block, read)) = self.overflow.as_mut().and_then(Overflow::read) {
            if let Err(error) = read {
                self.waiting.remove(Amount::of(&block));
                return Some(Lost::new(&block, &error).note());
            }
            block
        } else if let Some(lost) = self.lost.take() {
            // The note was not written yet when the lines were counted.
            self.waiting.lines -= 1;
            return Some(lost.note());
        } else if self.newest.lines() > 0 {
            std::mem::take(&mut self.newest)
        } else {
            return None;
        };
        self.waiting.remove(Amount::of(&block));
        Some(block)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    use super::*;
    use butler_base::event::Stream;

    fn send(sender: &Sender, numbers: RangeInclusive<u32>) {
        for sequence in numbers {
            let content = format!("line {sequence}");
            sender.send(LogLineRef { sequence, stream: Stream::Stderr, content: &content });
        }
    }

    fn read(receiver: &mut Receiver) -> Vec<u32> {
        let mut numbers = Vec::new();
        receiver.take_while(|entry| {
            assert_eq!(entry.content, format!("line {}", entry.sequence));
            numbers.push(entry.sequence);
            true
        });
        numbers
    }

    fn size(path: &Path) -> u64 {
        std::fs::metadata(path).map_or(0, |metadata| metadata.len())
    }

    #[tokio::test]
    async fn lines_come_out_in_order_and_end_with_the_sender() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("overflow");
        let (sender, mut receiver) = channel(1 << 20, path.clone());
        send(&sender, 1..=2);
        drop(sender);
        let line = receiver.recv().await.unwrap();
        assert_eq!((line.sequence, line.stream, &*line.content), (1, Stream::Stderr, "line 1"));
        assert_eq!(receiver.unread(), Some(2..=2));
        assert_eq!(receiver.recv().await.unwrap().sequence, 2);
        assert_eq!(receiver.recv().await, None);
        assert_eq!(receiver.unread(), None);
        assert!(!path.exists(), "the file was not needed");
    }

    #[tokio::test]
    async fn reader_sleeps_until_enough_waits() {
        let directory = tempfile::tempdir().unwrap();
        let (sender, mut receiver) = channel(1 << 20, directory.path().join("overflow"));
        send(&sender, 1..=2);
        {
            let mut ready = polled(receiver.ready(3, usize::MAX));
            assert!(!ready.poll_is_ready());
            send(&sender, 3..=3);
            assert!(ready.poll_is_ready());
        }
        assert_eq!(read(&mut receiver), [1, 2, 3]);
        let mut ready = polled(receiver.ready(3, 10));
        assert!(!ready.poll_is_ready());
        send(&sender, 4..=4);
        assert!(ready.poll_is_ready());
    }

    #[tokio::test]
    async fn what_exceeds_the_memory_waits_in_a_private_file_that_is_used_again_and_wiped() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("overflow");
        let (sender, mut receiver) = channel(1000, path.clone());
        let mut largest = 0;
        for round in 0..5 {
            let first = round * 1000 + 1;
            send(&sender, first..=first + 999);
            assert!(receiver.shared.state().memory_bytes <= 1000);
            let expected: Vec<u32> = (first..first + 1000).collect();
            assert_eq!(read(&mut receiver), expected);
            if round == 0 {
                assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
                largest = size(&path);
            }
        }
        assert!(largest > 10_000, "{largest}");
        assert!(size(&path) < 2 * largest, "the space was not used again");
        assert_eq!(receiver.shared.state().waiting.lines, 0);
        assert_eq!(receiver.shared.state().waiting.bytes, 0);
        let open = std::fs::File::open(&path).unwrap();
        drop(receiver);
        assert!(!path.exists());
        assert!(std::io::read_to_string(open).unwrap().bytes().all(|byte| byte == 0));
        send(&sender, 5001..=6000);
        assert!(!path.exists(), "lines for a reader that is gone were kept");
    }

    #[tokio::test]
    async fn random_writing_and_reading_keeps_the_order() {
        let directory = tempfile::tempdir().unwrap();
        let mut random = fastrand::Rng::with_seed(3);
        let (sender, mut receiver) = channel(500, directory.path().join("overflow"));
        let (mut sent, mut seen) = (0, 0);
        for _ in 0..500 {
            let more = random.u32(1..100);
            send(&sender, sent + 1..=sent + more);
            sent += more;
            let mut wanted = random.usize(0..150);
            receiver.take_while(|entry| {
                if wanted == 0 {
                    return false;
                }
                wanted -= 1;
                seen += 1;
                assert_eq!(entry.sequence, seen);
                true
            });
        }
        drop(sender);
        while let Some(line) = receiver.recv().await {
            seen += 1;
            assert_eq!(line.sequence, seen);
        }
        assert_eq!(seen, sent);
    }

    #[tokio::test]
    async fn lines_that_no_disk_takes_are_counted_in_their_place() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("missing").join("overflow");
        let (sender, mut receiver) = channel(400, path);
        send(&sender, 1..=1000);
        let mut lines = Vec::new();
        receiver.take_while(|entry| {
            lines.push(LogLine::from(entry));
            true
        });
        let note = lines.iter().position(|line| line.content.starts_with('[')).unwrap();
        let kept = u32::try_from(lines.len() - 1).unwrap();
        assert_eq!(lines[note].sequence, lines[note - 1].sequence + 1);
        assert!(
            lines[note].content.starts_with(&format!("[{} lines could not be kept: ", 1000 - kept)),
            "{}",
            lines[note].content
        );
        assert!(lines.is_sorted_by(|one, next| one.sequence < next.sequence));
        // When the reader has caught up, lines are kept again.
        assert_eq!(receiver.shared.state().waiting.lines, 0);
        send(&sender, 1001..=1005);
        assert_eq!(read(&mut receiver), [1001, 1002, 1003, 1004, 1005]);
    }

    #[tokio::test]
    async fn lines_are_kept_again_as_soon_as_there_is_room() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("overflow");
        let (sender, mut receiver) = channel(0, path.clone());
        // One line a block, of 15 or 16 bytes: a slot takes eight of them, or seven.
        receiver.shared.state().overflow = Some(Overflow::with_slots(path, 120, 2));
        send(&sender, 1..=17);
        let mut lines = Vec::new();
        while lines.len() < 8 {
            lines.push(receiver.recv().await.unwrap());
        }
        send(&sender, 18..=19);
        drop(sender);
        while let Some(line) = receiver.recv().await {
            lines.push(line);
        }
        let numbers: Vec<_> = lines.iter().map(|line| line.sequence).collect();
        let expected: Vec<_> = (1..=16).chain(18..=19).collect();
        assert_eq!(numbers, expected);
        assert!(lines[15].content.starts_with("[2 lines could not be kept: "), "{lines:?}");
        let state = receiver.shared.state();
        assert_eq!((state.waiting.lines, state.waiting.bytes), (0, 0));
    }

    #[tokio::test]
    async fn file_that_cannot_be_read_back_is_reported_in_its_place() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("overflow");
        let (sender, mut receiver) = channel(0, path.clone());
        send(&sender, 1..=3);
        std::fs::OpenOptions::new().write(true).truncate(true).open(&path).unwrap();
        drop(sender);
        let line = receiver.recv().await.unwrap();
        assert_eq!(line.sequence, 1);
        assert!(line.content.starts_with("[1 lines could not be kept: "), "{}", line.content);
        assert_eq!(receiver.recv().await.unwrap().sequence, 2);
        assert_eq!(receiver.recv().await.unwrap().sequence, 3);
        assert_eq!(receiver.recv().await, None);
    }

    /// A future that the test polls manually.
    struct Polled<F>(std::pin::Pin<Box<F>>);

    fn polled<F: Future>(future: F) -> Polled<F> {
        Polled(Box::pin(future))
    }

    impl<F: Future> Polled<F> {
        fn poll_is_ready(&mut self) -> bool {
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            self.0.as_mut().poll(&mut context).is_ready()
        }
    }
}
