//! Sends an archive while it is written.

use std::io::{self, Write};

use axum::body::{Body, Bytes};
use futures_util::stream;
use tokio::sync::mpsc;

/// The size of the pieces that are sent, in bytes.
const PIECE: usize = 64 * 1024;

/// How many pieces wait for a slow reader.
const WAITING: usize = 4;

/// A body with what `write` writes. If it fails, the connection is closed before the end, so that
/// the reader does not take the part for the whole.
pub(super) fn stream(
    write: impl FnOnce(io::BufWriter<PieceWriter>) -> io::Result<()> + Send + 'static,
) -> Body {
    let (pieces, received) = mpsc::channel(WAITING);
    tokio::task::spawn_blocking(move || {
        let writer = io::BufWriter::with_capacity(PIECE, PieceWriter(pieces.clone()));
        if let Err(error) = write(writer) {
            // The attempt asks again: what it asks for was found to be there.
            tracing::warn!(%error, "cannot send the module's files to an attempt");
            // The reader is gone if this fails.
            let _ = pieces.blocking_send(Err(error));
        }
    });
    Body::from_stream(stream::unfold(received, |mut received| async {
        received.recv().await.map(|piece| (piece, received))
    }))
}

/// Sends what is written to it.
pub(super) struct PieceWriter(mpsc::Sender<io::Result<Bytes>>);

impl Write for PieceWriter {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        let sent = self.0.blocking_send(Ok(Bytes::copy_from_slice(piece)));
        sent.map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
