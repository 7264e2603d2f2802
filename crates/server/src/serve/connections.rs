//! Serves the connections of people, programs and attempts.
//!
//! A client has a limited time for the head and for the body of each request, and for reading the
//! answer, so that connections do not use up the file descriptors of the server. Answers that are read
//! are not limited: streams of events go on.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::ConnectInfo;
use axum::http::Request;
use axum::serve::Listener;
use axum::{BoxError, Router};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use tower::ServiceExt;

use super::slow_body::{BODY, timed};
use crate::api::Peer;

/// How long a client may take for the head of a request: of the first one after it has connected, and
/// of each further one after the last answer.
const HEAD: Duration = Duration::from_secs(30);

/// How long a client may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// For the head of a request.
    pub(super) head: Duration,
    /// For a small body. A large one may take longer.
    pub(super) body: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { head: HEAD, body: BODY }
    }
}

/// Serves `router` on each connection, and gives each request the address of its client ([`Peer`]).
/// Connections outlive this future. Errors of `accept` are the listener's: it waits a second if the
/// process has no file descriptor left.
pub(super) async fn serve_connections<L>(
    mut listener: L,
    router: Router,
    patience: Patience,
) -> Infallible
where
    L: Listener<Addr = SocketAddr>,
{
    let mut builder = Builder::new(TokioExecutor::new()).http1_only();
    builder.http1().timer(TokioTimer::new()).header_read_timeout(patience.head);
    loop {
        let (stream, peer) = listener.accept().await;
        let builder = builder.clone();
        let service = router
            .clone()
            .map_request(move |request| from_peer(request, Peer(peer), patience.body));
        tokio::spawn(async move {
            // Not `serve_connection_with_upgrades`: it waits for the first bytes without a limit, to
            // find out the version of HTTP.
            let served =
                builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
            if let Err(error) = served.await {
                tracing::debug!(%peer, error, "a connection has ended with an error");
            }
        });
    }
}

/// The request as the router expects it, with the address of its client.
fn from_peer<B>(mut request: Request<B>, peer: Peer, limit: Duration) -> Request<Body>
where
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    request.extensions_mut().insert(ConnectInfo(peer));
    request.map(|body| timed(Body::new(body), limit))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use axum::response::sse::{Event, Sse};
    use axum::routing::get;
    use futures_util::stream;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::sync::{Mutex, mpsc};

    use super::super::connection::LimitedListener;
    use super::super::limits::{Limits, Places};
    use super::*;

    /// A limit that ends a test soon.
    const SHORT: Duration = Duration::from_millis(50);

    /// More than any test takes: a connection that is not closed fails the test.
    const BOUND: Duration = Duration::from_mins(1);

    /// A server with these limits. It answers `/` with the client's address or with the length of what is
    /// posted, `/large` with more than a connection buffers, and `/events` with what is sent to the channel.
    async fn serve_with(
        patience: Patience,
        limits: Limits,
    ) -> (SocketAddr, mpsc::UnboundedSender<&'static str>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let listener = LimitedListener::new(listener, Places::new(limits, &[])).with_unread(SHORT);
        let (sender, events) = mpsc::unbounded_channel();
        let events = Arc::new(Mutex::new(events));
        let events = move || {
            let events = Arc::clone(&events);
            let stream = stream::unfold(events, async |events| {
                let text: &'static str = events.lock().await.recv().await?;
                Some((Ok::<_, Infallible>(Event::default().data(text)), events))
            });
            async move { Sse::new(stream) }
        };
        let peer = async |ConnectInfo(Peer(peer)): ConnectInfo<Peer>| peer.to_string();
        let posted = async |body: Bytes| body.len().to_string();
        let large = async || vec![b'a'; 64 << 20];
        let router = Router::new()
            .route("/", get(peer).post(posted))
            .route("/large", get(large))
            .route("/events", get(events));
        tokio::spawn(serve_connections(listener, router, patience));
        (address, sender)
    }

    /// A server with the limit [`SHORT`] for heads.
    async fn serve() -> (SocketAddr, mpsc::UnboundedSender<&'static str>) {
        let patience = Patience { head: SHORT, body: BOUND };
        serve_with(patience, Limits { all: 100, per_address: 100 }).await
    }

    async fn connect(address: SocketAddr, sent: &str) -> TcpStream {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(sent.as_bytes()).await.unwrap();
        stream
    }

    /// What the server sends until it closes the connection.
    async fn until_closed(mut stream: TcpStream) -> String {
        let mut received = String::new();
        let read = stream.read_to_string(&mut received);
        tokio::time::timeout(BOUND, read).await.expect("the connection is closed").unwrap();
        received
    }

    async fn read_until(stream: &mut TcpStream, text: &str) {
        let mut received = String::new();
        while !received.contains(text) {
            let mut buffer = [0; 1024];
            let count = stream.read(&mut buffer).await.unwrap();
            assert_ne!(count, 0, "closed after {received}");
            received += std::str::from_utf8(&buffer[..count]).unwrap();
        }
    }

    #[tokio::test]
    async fn connection_without_a_complete_head_is_closed() {
        let (address, _sender) = serve().await;
        for sent in ["", "GET / HT", "GET / HTTP/1.1\r\nHost: localhost\r\nAccept: te"] {
            let received = until_closed(connect(address, sent).await).await;
            assert!(!received.contains("200 OK"), "{sent}: {received}");
        }
    }

    #[tokio::test]
    async fn connection_is_closed_after_its_last_request() {
        let (address, _sender) = serve().await;
        let stream = connect(address, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
        let own = stream.local_addr().unwrap().to_string();
        let received = until_closed(stream).await;
        assert!(received.starts_with("HTTP/1.1 200 OK") && received.ends_with(&own), "{received}");
    }

    #[tokio::test]
    async fn stream_of_events_outlives_the_limit() {
        let (address, events) = serve().await;
        let mut stream = connect(address, "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
        events.send("first").unwrap();
        read_until(&mut stream, "data: first").await;
        // The limit of a connection that began later is over.
        until_closed(connect(address, "").await).await;
        events.send("second").unwrap();
        read_until(&mut stream, "data: second").await;
        drop(events);
        until_closed(stream).await;
    }

    /// The head of a request with a body, and a part of the body.
    const SLOW: &str = "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60000\r\n\r\na";

    #[tokio::test]
    async fn connection_whose_body_does_not_arrive_is_closed() {
        let patience = Patience { head: BOUND, body: SHORT };
        let (address, _sender) = serve_with(patience, Limits { all: 9, per_address: 9 }).await;
        let chunked =
            "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na";
        for sent in [SLOW, chunked] {
            let received = until_closed(connect(address, sent).await).await;
            assert!(received.starts_with("HTTP/1.1 400 "), "{received}");
        }
        let whole = "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\nab";
        let mut stream = connect(address, whole).await;
        read_until(&mut stream, "\r\n\r\n2").await;
    }

    #[tokio::test]
    async fn client_that_does_not_read_its_answer_loses_the_connection() {
        let patience = Patience { head: BOUND, body: BOUND };
        let (address, _sender) = serve_with(patience, Limits { all: 1, per_address: 1 }).await;
        let unread = connect(address, "GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
        // The only place is free again when that connection is closed.
        let mut stream = loop {
            let mut stream = connect(address, "").await;
            let sent = stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
            let mut first = [0; 1];
            if sent.is_ok() && stream.read(&mut first).await.is_ok_and(|read| read == 1) {
                break stream;
            }
        };
        read_until(&mut stream, "200 OK").await;
        drop(unread);
    }

    #[tokio::test]
    async fn connections_beyond_the_limit_are_closed_and_the_place_is_free_again() {
        let patience = Patience { head: BOUND, body: BOUND };
        let (address, _sender) = serve_with(patience, Limits { all: 9, per_address: 2 }).await;
        let mut held = vec![connect(address, SLOW).await, connect(address, "GET").await];
        let mut refused = TcpStream::connect(address).await.unwrap();
        let closed = tokio::time::timeout(BOUND, refused.read(&mut [0; 1])).await.unwrap();
        assert!(!matches!(closed, Ok(1..)), "{closed:?}");
        held.pop();
        // The server may need a moment to notice.
        loop {
            let request = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
            let mut stream = TcpStream::connect(address).await.unwrap();
            let sent = stream.write_all(request.as_bytes()).await;
            if sent.is_ok() && stream.read(&mut [0; 1]).await.is_ok_and(|read| read == 1) {
                return;
            }
        }
    }
}
