//! The sources of a child's output: a pipe, or a file in memory that is followed while the child writes to it.
//!
//! A child with a pipe depends on its reader: it dies if the reader has died, and waits while the reader is stopped.
//! A child with a file does not. The price is that the kernel does not tell when a file has grown, so it is looked at.

use std::io;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::platform::{self, OutputFile, Pipe};

/// The time between two looks at a file. Both files of a child are looked at together, so that lines of standard error
/// do not come long before lines of standard output that were printed first.
const LOOK: Duration = Duration::from_millis(20);

/// The memory of a file is freed in pieces of this size, in bytes.
const PIECE: u64 = 1 << 20;

/// A source of bytes.
pub(super) trait Source: Sized {
    /// Waits for bytes; 0 at the end. A read that is dropped has not taken bytes.
    ///
    /// # Errors
    /// If it cannot be read.
    fn read(&mut self, bytes: &mut [u8]) -> impl Future<Output = io::Result<usize>>;

    /// Does not read for the duration of `pause`.
    ///
    /// # Errors
    /// If it cannot be read any more.
    fn rest(self, pause: Duration) -> impl Future<Output = io::Result<Self>> {
        async move {
            tokio::time::sleep(pause).await;
            Ok(self)
        }
    }
}

impl Source for Pipe {
    async fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        AsyncReadExt::read(self, bytes).await
    }

    async fn rest(self, pause: Duration) -> io::Result<Self> {
        platform::rest(self, pause).await
    }
}

/// A file that a child writes to.
pub(super) struct Followed {
    file: OutputFile,
    position: u64,
    freed: u64,
    /// The time of the first look, from which all others are counted.
    first: Instant,
    /// Whether no process writes any more.
    ended: CancellationToken,
    /// The length of the file at its end, so that a process that has escaped cannot write for ever.
    end: Option<u64>,
}

impl Followed {
    /// Reads `files`, always at the same times, until the end that they have when `ended` is cancelled.
    pub(super) fn both(files: [OutputFile; 2], ended: &CancellationToken) -> [Self; 2] {
        let first = Instant::now();
        files.map(|file| Self {
            file,
            position: 0,
            freed: 0,
            first,
            ended: ended.clone(),
            end: None,
        })
    }

    /// The time of the next look.
    fn next(&self) -> Instant {
        let looks = self.first.elapsed().as_nanos() / LOOK.as_nanos() + 1;
        self.first + LOOK * u32::try_from(looks).unwrap_or(u32::MAX)
    }

    /// Reads what is there.
    fn take(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let left = self.end.map(|end| end.saturating_sub(self.position));
        let most = left.map_or(bytes.len(), |left| {
            usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len())
        });
        let read = self.file.read_at(&mut bytes[..most], self.position)?;
        if read == 0 && self.file.length()? < self.position {
            // A process has truncated it, such as a shell with `> /dev/stdout`.
            (self.position, self.freed) = (0, 0);
        }
        self.position += read as u64;
        if self.position - self.freed >= PIECE {
            self.freed = self.position;
            self.file.free(self.freed);
        }
        Ok(read)
    }
}

impl Source for Followed {
    async fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.end.is_none() && self.ended.is_cancelled() {
                self.end = Some(self.file.length()?);
            }
            let read = self.take(bytes)?;
            if read > 0 || self.end.is_some() {
                return Ok(read);
            }
            tokio::select! {
                () = tokio::time::sleep_until(self.next()) => {}
                () = self.ended.cancelled() => {}
            }
        }
    }
}

/// The pipe or file from which one output of a child is read.
pub(super) enum OutputSource {
    Pipe(Pipe),
    File(Followed),
}

impl Source for OutputSource {
    async fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Pipe(pipe) => Source::read(pipe, bytes).await,
            Self::File(file) => file.read(bytes).await,
        }
    }

    async fn rest(self, pause: Duration) -> io::Result<Self> {
        match self {
            Self::Pipe(pipe) => pipe.rest(pause).await.map(Self::Pipe),
            Self::File(file) => file.rest(pause).await.map(Self::File),
        }
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::io::Write;

    use super::*;

    /// A file with its writer, and what reads it.
    fn followed() -> (std::fs::File, Followed, CancellationToken) {
        let file = OutputFile::create().unwrap();
        let (writer, ended) = (file.writer().unwrap(), CancellationToken::new());
        let [followed, _] = Followed::both([file, OutputFile::create().unwrap()], &ended);
        (writer, followed, ended)
    }

    async fn read(followed: &mut Followed) -> String {
        let mut bytes = [0; 16];
        let read = followed.read(&mut bytes).await.unwrap();
        String::from_utf8(bytes[..read].to_vec()).unwrap()
    }

    #[tokio::test]
    async fn bytes_are_read_once_and_until_the_end() {
        let (mut writer, mut followed, ended) = followed();
        writer.write_all(b"one").unwrap();
        assert_eq!(read(&mut followed).await, "one");
        {
            let mut bytes = [0; 16];
            let waiting = followed.read(&mut bytes);
            tokio::pin!(waiting);
            assert!(futures_util::poll!(&mut waiting).is_pending(), "it waits for more");
        }
        writer.write_all(b"two").unwrap();
        ended.cancel();
        assert_eq!(read(&mut followed).await, "two");
        // A process that was not ended.
        writer.write_all(b"three").unwrap();
        assert_eq!(read(&mut followed).await, "");
    }

    #[tokio::test]
    async fn file_that_a_shell_has_truncated_is_read_from_its_start() {
        let (mut writer, mut followed, _ended) = followed();
        writer.write_all(b"before").unwrap();
        assert_eq!(read(&mut followed).await, "before");
        writer.set_len(0).unwrap();
        writer.write_all(b"new").unwrap();
        assert_eq!(read(&mut followed).await, "new");
    }
}
