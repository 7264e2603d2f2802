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
async fn lines_keep_their_order_and_end_with_the_sender() {
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
async fn lines_beyond_the_memory_limit_wait_in_a_private_file_that_is_wiped() {
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
    assert!(!path.exists(), "lines were stored after the reader was dropped");
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
async fn lines_that_cannot_be_stored_are_counted_in_a_note() {
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
async fn lines_are_stored_again_when_there_is_room() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("overflow");
    let (sender, mut receiver) = channel(0, path.clone());
    // Each block is one line of 15 or 16 bytes, so a slot contains eight or seven blocks.
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
async fn unreadable_block_is_replaced_by_a_note() {
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
