//! A connection that has one of the places of its listener, and whose client must read what it asks for.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Sleep;

use super::limits::{Place, Places};

/// How long a client may read nothing of what waits for it. A stream without events waits for nothing.
const UNREAD: Duration = Duration::from_mins(1);

/// A connection.
#[derive(Debug)]
pub(super) struct Connection {
    stream: TcpStream,
    unread: Duration,
    /// Ends when the client has read nothing for too long.
    waits: Option<Pin<Box<Sleep>>>,
    _place: Place,
}

impl Connection {
    /// The result of a write, or an error if the client has not read for too long.
    fn bounded<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.waits = None;
            return written;
        }
        let unread = self.unread;
        let waits = self.waits.get_or_insert_with(|| Box::pin(tokio::time::sleep(unread)));
        match waits.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.bounded(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.bounded(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// Accepts connections as long as there are places. Others are closed at once, so that their clients know.
pub(super) struct LimitedListener {
    listener: TcpListener,
    places: Places,
    unread: Duration,
}

impl LimitedListener {
    pub(super) const fn new(listener: TcpListener, places: Places) -> Self {
        Self { listener, places, unread: UNREAD }
    }

    #[cfg(test)]
    pub(super) fn with_unread(self, unread: Duration) -> Self {
        Self { unread, ..self }
    }
}

impl Listener for LimitedListener {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let (stream, peer) = Listener::accept(&mut self.listener).await;
            if let Some(place) = self.places.take(peer.ip(), Instant::now()) {
                let unread = self.unread;
                return (Connection { stream, unread, waits: None, _place: place }, peer);
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}
