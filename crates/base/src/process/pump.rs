//! Reads a child's output and passes its bytes on: split into lines for the sink, unchanged into a
//! file or memory.
//!
//! A pipe is read until its end even if its bytes are discarded: Terraform dies of a closed pipe.

use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::time::Instant;

use super::Sink;
use super::source::Source;
use crate::event::Stream;

/// The size of a read: a pipe's default capacity on Linux.
const CHUNK: usize = 64 * 1024;

/// The longest line, in bytes; a longer one is split into parts.
const LONGEST_LINE: usize = 1024 * 1024;

/// How long an incomplete line is held back before it is shown.
const PARTIAL_WAIT: Duration = Duration::from_secs(1);

/// The prefix of the second and each later part of a line that was too long.
const CONTINUED: &[u8] = "[line continued] … ".as_bytes();

/// The pause between two reads of a busy pipe: otherwise each line would wake the writer and the
/// reader, which costs more than all processing of the line.
const PAUSE: Duration = Duration::from_millis(5);

/// A pipe is busy after this number of reads, each within [`PAUSE`] of the one before.
const BUSY: u32 = 128;

/// A pipe that delivers fewer bytes in a pause is not busy any more.
const LITTLE: usize = 512;

/// A read that returns more bytes is followed by the next read immediately, so that the writer does
/// not have to wait.
const MUCH: usize = CHUNK / 2;

/// How often a pipe is read.
struct Pace {
    /// The number of reads without a pause.
    row: u32,
    last: Instant,
}

impl Pace {
    fn new() -> Self {
        Self { row: 0, last: Instant::now() }
    }

    /// How long to pause after a read of `read` bytes.
    fn after(&mut self, read: usize) -> Option<Duration> {
        let now = Instant::now();
        let since = now.duration_since(std::mem::replace(&mut self.last, now));
        let stays = if self.row < BUSY { since < PAUSE } else { read > LITTLE };
        self.row = if stays { BUSY.min(self.row + 1) } else { 0 };
        (self.row >= BUSY && read <= MUCH).then_some(PAUSE)
    }
}

/// The destination of a pipe's bytes.
pub(super) struct PumpTarget<'sink, S> {
    pub(super) sink: Option<&'sink S>,
    pub(super) file: Option<tokio::fs::File>,
    pub(super) memory: Option<usize>,
}

/// Reads `pipe` until its end. Returns the bytes that are kept in memory: at most one chunk more
/// than the limit, so that the caller sees that the limit was exceeded. Later bytes are read and
/// dropped.
///
/// # Errors
/// If the pipe cannot be read or, at its end, if the file could not be written.
pub(super) async fn pump<S: Sink>(
    mut pipe: impl Source,
    stream: Stream,
    mut target: PumpTarget<'_, S>,
) -> std::io::Result<Vec<u8>> {
    let mut framer = target.sink.map(|sink| Framer::new(sink, stream, LONGEST_LINE));
    let mut kept = Vec::new();
    let mut chunk = vec![0; CHUNK];
    let mut written = Ok(());
    let mut pace = Pace::new();
    loop {
        let read = match framer.as_ref().and_then(Framer::due) {
            None => pipe.read(&mut chunk).await?,
            Some(due) => {
                let read = tokio::time::timeout_at(due, pipe.read(&mut chunk)).await;
                let Ok(read) = read else {
                    framer.iter_mut().for_each(Framer::show_partial);
                    continue;
                };
                read?
            }
        };
        if read == 0 {
            break;
        }
        let bytes = &chunk[..read];
        if let (Some(file), Ok(())) = (&mut target.file, &written) {
            written = file.write_all(bytes).await;
        }
        if let Some(limit) = target.memory
            && kept.len() <= limit
        {
            kept.extend_from_slice(bytes);
        }
        if let Some(framer) = &mut framer {
            framer.push(bytes);
        }
        if let Some(pause) = pace.after(read) {
            pipe = pipe.rest(pause).await?;
        }
    }
    if let Some(framer) = framer {
        framer.finish();
    }
    if let (Some(file), Ok(())) = (&mut target.file, &written) {
        written = file.flush().await;
    }
    written.map(|()| kept)
}

/// Splits a stream of bytes into lines.
///
/// A line that is longer than `longest` is split into parts, the later ones with a prefix. An
/// incomplete line that has waited too long is passed on as a line, and the rest of it as the next
/// one: this suits prompts.
struct Framer<'sink, S> {
    sink: &'sink S,
    stream: Stream,
    longest: usize,
    /// The incomplete line, without the parts that were passed on.
    pending: Vec<u8>,
    /// Whether its beginning was passed on because it had waited too long.
    begun: bool,
    /// When it is shown without its end.
    due: Option<Instant>,
}

impl<'sink, S: Sink> Framer<'sink, S> {
    fn new(sink: &'sink S, stream: Stream, longest: usize) -> Self {
        Self { sink, stream, longest, pending: Vec::new(), begun: false, due: None }
    }

    /// When [`Framer::show_partial`] has to be called, unless more bytes arrive before.
    fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Passes on each line that `bytes` completes.
    fn push(&mut self, bytes: &[u8]) {
        let mut start = 0;
        for end in memchr::memchr_iter(b'\n', bytes) {
            self.end_line(&bytes[start..end]);
            start = end + 1;
        }
        self.pending.extend_from_slice(&bytes[start..]);
        self.split();
        if self.pending.is_empty() {
            self.due = None;
        } else {
            self.due.get_or_insert_with(|| Instant::now() + PARTIAL_WAIT);
        }
    }

    /// Passes on the incomplete line. Bytes that the sink does not consume remain pending.
    fn show_partial(&mut self) {
        let taken = self.sink.partial(self.stream, &self.pending).min(self.pending.len());
        self.pending.drain(..taken);
        self.begun |= taken > 0;
        self.due = None;
    }

    /// Passes on the last line, which has no newline.
    fn finish(mut self) {
        if !self.pending.is_empty() {
            self.end_line(b"");
        }
        self.sink.stream_ended(self.stream);
    }

    fn end_line(&mut self, rest: &[u8]) {
        // The fast path: a line without a copy, unless it is too long.
        let whole = self.pending.is_empty() && rest.len() <= self.longest;
        if !whole {
            self.pending.extend_from_slice(rest);
            self.split();
        }
        let line = if whole { rest } else { &self.pending };
        // The newline after a prompt that was shown already does not make a line.
        if !(self.begun && matches!(line, b"" | b"\r")) {
            self.sink.line(self.stream, line);
        }
        self.pending.clear();
        self.pending.shrink_to(2 * CHUNK);
        self.begun = false;
        self.due = None;
    }

    /// Passes on parts of the pending line until the rest is short enough.
    fn split(&mut self) {
        while self.pending.len() > self.longest {
            let part = &self.pending[..self.longest];
            let mut taken = self.sink.partial(self.stream, part).min(part.len());
            // Each part must be longer than the prefix, so that this ends.
            if taken <= CONTINUED.len() {
                self.sink.line(self.stream, &part[taken..]);
                taken = part.len();
            }
            self.pending.splice(..taken, CONTINUED.iter().copied());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::io::Write;

    use tokio::io::AsyncReadExt;
    use tokio::net::unix::pipe;

    use super::*;

    impl Source for &[u8] {
        async fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
            AsyncReadExt::read(self, bytes).await
        }
    }

    impl Source for tokio::io::DuplexStream {
        async fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
            AsyncReadExt::read(self, bytes).await
        }
    }

    /// Consumes the part of incomplete lines that `take` returns, and records all lines.
    struct Lines {
        lines: RefCell<Vec<String>>,
        take: fn(&[u8]) -> usize,
    }

    impl Lines {
        fn new(take: fn(&[u8]) -> usize) -> Self {
            Self { lines: RefCell::default(), take }
        }

        fn lines(&self) -> Vec<String> {
            self.lines.borrow().clone()
        }
    }

    impl Sink for Lines {
        fn line(&self, _: Stream, line: &[u8]) {
            self.lines.borrow_mut().push(String::from_utf8_lossy(line).into_owned());
        }

        fn partial(&self, stream: Stream, pending: &[u8]) -> usize {
            let taken = (self.take)(pending);
            if taken > 0 {
                self.line(stream, &pending[..taken]);
            }
            taken
        }
    }

    fn target(sink: &Lines) -> PumpTarget<'_, Lines> {
        PumpTarget { sink: Some(sink), file: None, memory: None }
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_busy_pipe_is_paused() {
        let mut pace = Pace::new();
        let step = Duration::from_millis(1);
        for _ in 1..BUSY {
            tokio::time::advance(step).await;
            assert_eq!(pace.after(80), None, "a plan's few lines come at once");
        }
        assert_eq!(pace.after(80), Some(PAUSE));
        tokio::time::advance(PAUSE).await;
        assert_eq!(pace.after(4000), Some(PAUSE));
        assert_eq!(pace.after(MUCH + 1), None, "who writes must not wait");
        assert_eq!(pace.after(4000), Some(PAUSE), "it is still busy");
        tokio::time::advance(PAUSE).await;
        assert_eq!(pace.after(80), None, "it has calmed down");
        for _ in 0..2 * BUSY {
            tokio::time::advance(PAUSE).await;
            assert_eq!(pace.after(80), None, "it brings a line now and then");
        }
    }

    #[tokio::test]
    async fn busy_pipe_loses_no_line() {
        let (sender, receiver) = pipe::pipe().unwrap();
        let wanted: Vec<_> = (0..30_000).map(|number| format!("line {number}")).collect();
        let written = wanted.clone();
        // A thread, because a task of this runtime would not write while this one reads.
        let writer = std::thread::spawn(move || {
            let mut pipe = std::fs::File::from(sender.into_blocking_fd().unwrap());
            for line in written {
                pipe.write_all(format!("{line}\n").as_bytes()).unwrap();
            }
        });
        let lines = Lines::new(|_| 0);
        pump(receiver, Stream::Stdout, target(&lines)).await.unwrap();
        writer.join().unwrap();
        assert!(lines.lines() == wanted);
    }

    #[test]
    fn lines_do_not_depend_on_the_chunks() {
        let mut random = fastrand::Rng::with_seed(11);
        for _ in 0..2000 {
            let bytes: Vec<u8> =
                (0..random.usize(..200)).map(|_| *random.choice(b"ab\n\r").unwrap()).collect();
            let lines = Lines::new(<[u8]>::len);
            let mut framer = Framer::new(&lines, Stream::Stdout, 1000);
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                let (chunk, more) = rest.split_at(random.usize(1..=rest.len()));
                framer.push(chunk);
                rest = more;
            }
            framer.finish();
            let mut expected: Vec<_> = bytes.split(|byte| *byte == b'\n').collect();
            expected.pop_if(|last| last.is_empty());
            assert_eq!(lines.lines().len(), expected.len());
            assert!(lines.lines().iter().zip(expected).all(|(one, other)| one.as_bytes() == other));
        }
    }

    #[test]
    fn no_byte_is_lost_or_repeated_when_lines_are_split() {
        let mut random = fastrand::Rng::with_seed(12);
        let takes: [fn(&[u8]) -> usize; 3] =
            [<[u8]>::len, |pending| pending.len().saturating_sub(7), |_| 0];
        for round in 0..2000 {
            let bytes: Vec<u8> = (0..random.usize(..1000))
                .map(|_| *random.choice(b"abcdefghijkl\n").unwrap())
                .collect();
            let lines = Lines::new(takes[round % takes.len()]);
            let mut framer = Framer::new(&lines, Stream::Stdout, 50);
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                let (chunk, more) = rest.split_at(random.usize(1..=rest.len().min(100)));
                framer.push(chunk);
                if random.bool() && framer.due().is_some() {
                    framer.show_partial();
                }
                rest = more;
            }
            framer.finish();
            let joined =
                lines.lines().concat().replace(std::str::from_utf8(CONTINUED).unwrap(), "");
            let expected: Vec<u8> = bytes.into_iter().filter(|byte| *byte != b'\n').collect();
            assert_eq!(joined.as_bytes(), expected);
            assert!(lines.lines().iter().all(|line| line.len() <= 50));
        }
    }

    #[tokio::test]
    async fn only_lines_longer_than_a_mebibyte_are_split() {
        let mark = std::str::from_utf8(CONTINUED).unwrap();
        let lines = Lines::new(<[u8]>::len);
        let whole = "x".repeat(LONGEST_LINE);
        let text = format!("{whole}\n{whole}yy\nend");
        pump(text.as_bytes(), Stream::Stdout, target(&lines)).await.unwrap();
        let shown = lines.lines();
        assert!(shown[..2].iter().all(|line| *line == whole));
        assert_eq!(shown[2..], [format!("{mark}yy"), "end".to_owned()]);
    }

    #[tokio::test(start_paused = true)]
    async fn prompt_is_shown_after_a_wait_even_if_bytes_arrive_slowly() {
        let lines = Lines::new(|pending| pending.len() - usize::from(pending.ends_with(b"?")));
        let (pipe, mut child) = tokio::io::duplex(1000);
        let (pumped, ()) = tokio::join!(pump(pipe, Stream::Stdout, target(&lines)), async {
            child.write_all(b"first\nEnter").await.unwrap();
            tokio::time::sleep(PARTIAL_WAIT * 3 / 4).await;
            child.write_all(b" a value: ").await.unwrap();
            assert_eq!(lines.lines(), ["first"]);
            tokio::time::sleep(PARTIAL_WAIT / 2).await;
            assert_eq!(lines.lines(), ["first", "Enter a value: "]);
            child.write_all(b"\nsure?").await.unwrap();
            tokio::time::sleep(PARTIAL_WAIT * 2).await;
            assert_eq!(lines.lines(), ["first", "Enter a value: ", "sure"]);
            child.write_all(b" yes\n\n").await.unwrap();
            drop(child);
        });
        pumped.unwrap();
        assert_eq!(lines.lines()[2..], ["sure", "? yes", ""]);
    }

    #[tokio::test]
    async fn pipe_is_drained_if_the_file_cannot_be_written() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, "").unwrap();
        // The file is open for reading only, so each write fails.
        let file = Some(tokio::fs::File::open(&path).await.unwrap());
        let lines = Lines::new(<[u8]>::len);
        let text = "line\n".repeat(100_000);
        let target = PumpTarget { sink: Some(&lines), file, memory: None };
        pump(text.as_bytes(), Stream::Stdout, target).await.unwrap_err();
        assert_eq!(lines.lines().len(), 100_000);
    }

    #[tokio::test]
    async fn memory_keeps_the_bytes_up_to_a_chunk_beyond_its_limit() {
        let text = "0123456789".repeat(50_000);
        let target = |limit| PumpTarget { sink: None::<&Lines>, file: None, memory: Some(limit) };
        let kept = pump(text.as_bytes(), Stream::Stdout, target(text.len())).await.unwrap();
        assert_eq!(kept, text.as_bytes());
        let kept = pump(text.as_bytes(), Stream::Stdout, target(100_000)).await.unwrap();
        assert!(kept.len() > 100_000 && kept.len() <= 100_000 + CHUNK);
    }
}
