//! Moves a pipe's bytes on: framed into lines for the sink, as they are into a file or memory.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use zeroize::Zeroizing;

use super::Sink;
use crate::event::Stream;

/// How much is read at once: a pipe's default capacity on Linux.
const CHUNK: usize = 64 * 1024;

/// A line is kept whole up to this size and then handed on in parts.
const LONGEST_LINE: usize = 1024 * 1024;

/// How long the beginning of a line waits for its end before it is shown.
const PARTIAL_WAIT: Duration = Duration::from_secs(1);

/// Where a pipe's bytes go.
pub(super) struct Pumped<'sink, S> {
    pub(super) sink: Option<&'sink S>,
    pub(super) file: Option<tokio::fs::File>,
    pub(super) memory: Option<usize>,
}

/// Reads `pipe` until its end. Returns what was to be kept in memory: at most one chunk more than
/// the limit, so that the caller sees that it was exceeded; what comes after is read and dropped.
pub(super) async fn pump<S: Sink>(
    mut pipe: impl AsyncRead + Unpin,
    stream: Stream,
    mut target: Pumped<'_, S>,
) -> std::io::Result<Zeroizing<Vec<u8>>> {
    let mut pending: Vec<u8> = Vec::with_capacity(CHUNK);
    let mut kept = Zeroizing::new(Vec::new());
    let mut chunk = vec![0; CHUNK];
    loop {
        let read = match tokio::time::timeout(PARTIAL_WAIT, pipe.read(&mut chunk)).await {
            Ok(read) => read?,
            Err(_) => {
                if let (Some(sink), false) = (target.sink, pending.is_empty()) {
                    let taken = sink.partial(stream, &pending);
                    pending.drain(..taken);
                }
                continue;
            }
        };
        if read == 0 {
            break;
        }
        let bytes = &chunk[..read];
        if let Some(file) = &mut target.file {
            file.write_all(bytes).await?;
        }
        if let Some(limit) = target.memory
            && kept.len() <= limit
        {
            kept.extend_from_slice(bytes);
        }
        if let Some(sink) = target.sink {
            frame(sink, stream, &mut pending, bytes);
        }
    }
    if let (Some(sink), false) = (target.sink, pending.is_empty()) {
        sink.line(stream, &pending);
    }
    if let Some(file) = &mut target.file {
        file.flush().await?;
    }
    Ok(kept)
}

/// Hands on every line that `bytes` completes; what is left of them stays in `pending`.
fn frame(sink: &impl Sink, stream: Stream, pending: &mut Vec<u8>, mut bytes: &[u8]) {
    while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
        let (line, rest) = (&bytes[..end], &bytes[end + 1..]);
        if pending.is_empty() {
            sink.line(stream, line);
        } else {
            pending.extend_from_slice(line);
            sink.line(stream, pending);
            pending.clear();
        }
        bytes = rest;
    }
    pending.extend_from_slice(bytes);
    while pending.len() > LONGEST_LINE {
        let taken = sink.partial(stream, &pending[..LONGEST_LINE]);
        pending.drain(..taken.max(1));
    }
}
