//! Forwards the output of children to the runner's own output, as they print it.
//!
//! A thread writes: a stopped terminal or a pipe without a reader blocks only that thread, while lines
//! wait in the queue and children continue. If one output fails, the other one continues.

use std::io::{ErrorKind, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use super::log::spool::Receiver;
use butler_base::event::Stream;

/// The size of a piece for the thread, in bytes.
const PIECE: usize = 64 * 1024;

/// Lines of one stream, each with its newline.
struct Piece {
    stream: Stream,
    text: Vec<u8>,
}

/// Writes lines of standard output to `stdout` and lines of standard error to `stderr` until the end of the log.
/// Flushes each piece. After the end of the log, an output that accepts nothing for `stall` is abandoned.
///
/// Returns whether all lines were written. The remaining lines of an abandoned output stay with the
/// thread, which ends with the process.
pub async fn show(
    mut receiver: Receiver,
    stdout: impl Write + Send + 'static,
    stderr: impl Write + Send + 'static,
    stall: Duration,
) -> bool {
    // One piece waits beside the one that is written; the rest waits in the queue.
    let (pieces, mut waiting) = mpsc::channel::<Piece>(1);
    let (done, written) = oneshot::channel();
    let progress = Arc::new(AtomicU64::new(0));
    let progressed = Arc::clone(&progress);
    let writer = std::thread::Builder::new().name("terminal".to_owned()).spawn(move || {
        let mut outputs = [Output::new(stdout), Output::new(stderr)];
        while let Some(piece) = waiting.blocking_recv() {
            match piece.stream {
                Stream::Stdout => outputs[0].write(&piece.text),
                Stream::Stderr => outputs[1].write(&piece.text),
            }
            progressed.fetch_add(1, Ordering::Relaxed);
        }
        // The receiver is gone if it stopped waiting.
        let _ = done.send(());
    });
    if let Err(error) = writer {
        tracing::warn!(%error, "cannot start the thread that shows the output");
        return false;
    }
    let closed = receiver.closed();
    let overdue = async {
        closed.await;
        loop {
            let before = progress.load(Ordering::Relaxed);
            tokio::time::sleep(stall).await;
            if progress.load(Ordering::Relaxed) == before {
                return;
            }
        }
    };
    let all = async move {
        while receiver.ready(1, 1).await {
            if let Some(piece) = next_piece(&mut receiver)
                && pieces.send(piece).await.is_err()
            {
                break;
            }
        }
        drop(pieces);
        written.await.is_ok()
    };
    tokio::select! {
        all = all => all,
        () = overdue => false,
    }
}

/// The lines of one stream that wait, up to the size of a piece.
fn next_piece(receiver: &mut Receiver) -> Option<Piece> {
    let mut piece: Option<Piece> = None;
    receiver.take_while(|entry| {
        let piece = piece.get_or_insert_with(|| Piece { stream: entry.stream, text: Vec::new() });
        let fits = piece.stream == entry.stream && piece.text.len() < PIECE;
        if fits {
            piece.text.extend_from_slice(entry.content.as_bytes());
            piece.text.push(b'\n');
        }
        fits
    });
    piece
}

/// An output, until it fails.
struct Output<W>(Option<W>);

impl Output<Box<dyn Write>> {
    fn new(output: impl Write + 'static) -> Self {
        Self(Some(Box::new(output)))
    }

    fn write(&mut self, text: &[u8]) {
        let Some(output) = &mut self.0 else { return };
        if let Err(error) = output.write_all(text).and_then(|()| output.flush()) {
            self.0 = None;
            // The reader may close its end at any time.
            if error.kind() != ErrorKind::BrokenPipe {
                tracing::warn!(%error, "the output can no longer be shown");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::mpsc::{Receiver as Gate, Sender as Opener, channel as gate};

    use super::super::LiveOutput;
    use super::super::PlanHint;
    use super::super::RunLog;
    use super::super::log::spool::channel;
    use super::*;
    use butler_base::event::AsItIs;
    use butler_base::process::Sink;
    use butler_base::secret::Redactor;

    const LONG: Duration = Duration::from_mins(10);

    #[derive(Clone, Default)]
    struct Screen(Arc<Mutex<Vec<u8>>>);

    impl Screen {
        fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
        }
    }

    impl Write for Screen {
        fn write(&mut self, text: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(text)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// Reports each `write`, and waits in it until it is released.
    struct Stalled(Opener<()>, Gate<()>);

    impl Write for Stalled {
        fn write(&mut self, text: &[u8]) -> std::io::Result<usize> {
            let _ = self.0.send(());
            let _ = self.1.recv();
            Ok(text.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// A pipe without a reader; counts the attempts to write.
    #[derive(Clone, Default)]
    struct Gone(Arc<Mutex<usize>>);

    impl Write for Gone {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            *self.0.lock().unwrap() += 1;
            Err(ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn log(memory: usize) -> (RunLog, Receiver, tempfile::TempDir) {
        let directory = tempfile::tempdir().unwrap();
        let (sender, receiver) = channel(memory, directory.path().join("overflow"));
        let plan_hint = PlanHint::default();
        let live = LiveOutput { sender, notation: Box::new(AsItIs), plan_hint };
        let log = RunLog::new(Arc::new(Redactor::new()), Vec::new(), Some(live));
        (log, receiver, directory)
    }

    #[tokio::test]
    async fn each_stream_has_its_output_and_messages_of_the_runner_are_not_shown() {
        let (log, receiver, _directory) = log(1 << 20);
        let (out, err) = (Screen::default(), Screen::default());
        let shown = tokio::spawn(show(receiver, out.clone(), err.clone(), LONG));
        log.line(Stream::Stdout, b"one");
        log.line(Stream::Stderr, b"two");
        log.write_lines("the runner");
        log.line(Stream::Stdout, b"three");
        log.close();
        assert!(shown.await.unwrap());
        assert_eq!((&*out.text(), &*err.text()), ("one\nthree\n", "two\n"));
    }

    #[tokio::test]
    async fn output_without_a_reader_does_not_stop_the_other_output() {
        let (log, receiver, _directory) = log(1 << 20);
        let (out, err) = (Gone::default(), Screen::default());
        log.line(Stream::Stdout, b"one");
        log.line(Stream::Stderr, b"two");
        log.line(Stream::Stdout, b"three");
        log.line(Stream::Stderr, b"four");
        log.close();
        assert!(show(receiver, out.clone(), err.clone(), LONG).await);
        assert_eq!(*out.0.lock().unwrap(), 1);
        assert_eq!(err.text(), "two\nfour\n");
    }

    struct Broken;

    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            panic!("a bug in an output")
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn output_that_panics_does_not_delay_the_log_or_the_end() {
        let (log, receiver, _directory) = log(1 << 20);
        let shown = tokio::spawn(show(receiver, Broken, Screen::default(), LONG));
        for _ in 0..100_000 {
            log.line(Stream::Stdout, b"not shown");
        }
        log.close();
        assert!(!shown.await.unwrap());
    }

    #[tokio::test]
    async fn stalled_output_does_not_delay_the_log_or_the_end() {
        let (log, receiver, directory) = log(1000);
        let (writing, is_writing) = gate();
        let (release, released) = gate();
        let err = Screen::default();
        let shown = tokio::spawn(show(receiver, Stalled(writing, released), err, Duration::ZERO));
        log.line(Stream::Stdout, b"one");
        tokio::task::spawn_blocking(move || is_writing.recv().unwrap()).await.unwrap();
        for _ in 0..100_000 {
            log.line(Stream::Stdout, b"this goes to the file");
        }
        assert!(std::fs::metadata(directory.path().join("overflow")).unwrap().len() > 1_000_000);
        log.close();
        assert!(!shown.await.unwrap());
        drop(release);
    }
}
