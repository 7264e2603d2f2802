//! Serves the connections of people and programs.
//!
//! A client has a limited time for the head of each request, so that connections without a request do
//! not use up the file descriptors of the server. Answers are not limited: streams of events go on.

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

use crate::api::Peer;

/// How long a client may take for the head of a request: of the first one after it has connected, and
/// of each further one after the last answer.
pub(super) const HEAD: Duration = Duration::from_secs(30);

/// Serves `router` on each connection, and gives each request the address of its client ([`Peer`]).
/// Connections outlive this future. Errors of `accept` are the listener's: it waits a second if the
/// process has no file descriptor left.
pub(super) async fn serve_connections<L>(
    mut listener: L,
    router: Router,
    head: Duration,
) -> Infallible
where
    L: Listener<Addr = SocketAddr>,
{
    let mut builder = Builder::new(TokioExecutor::new()).http1_only();
    builder.http1().timer(TokioTimer::new()).header_read_timeout(head);
    loop {
        let (stream, peer) = listener.accept().await;
        let builder = builder.clone();
        let service = router.clone().map_request(move |request| from_peer(request, Peer(peer)));
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
fn from_peer<B>(mut request: Request<B>, peer: Peer) -> Request<Body>
where
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    request.extensions_mut().insert(ConnectInfo(peer));
    request.map(Body::new)
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

    use super::*;

    /// A limit that ends a test soon.
    const SHORT: Duration = Duration::from_millis(50);

    /// More than any test takes: a connection that is not closed fails the test.
    const BOUND: Duration = Duration::from_mins(1);

    /// A server with this limit. It answers `/` with the client's address, and `/events` with what is
    /// sent to the channel.
    async fn serve(head: Duration) -> (SocketAddr, mpsc::UnboundedSender<&'static str>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
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
        let router = Router::new().route("/", get(peer)).route("/events", get(events));
        tokio::spawn(serve_connections(listener, router, head));
        (address, sender)
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
        let (address, _sender) = serve(SHORT).await;
        for sent in ["", "GET / HT", "GET / HTTP/1.1\r\nHost: localhost\r\nAccept: te"] {
            let received = until_closed(connect(address, sent).await).await;
            assert!(!received.contains("200 OK"), "{sent}: {received}");
        }
    }

    #[tokio::test]
    async fn connection_is_closed_after_its_last_request() {
        let (address, _sender) = serve(SHORT).await;
        let stream = connect(address, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
        let own = stream.local_addr().unwrap().to_string();
        let received = until_closed(stream).await;
        assert!(received.starts_with("HTTP/1.1 200 OK") && received.ends_with(&own), "{received}");
    }

    #[tokio::test]
    async fn stream_of_events_outlives_the_limit() {
        let (address, events) = serve(SHORT).await;
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
}
