//! Servers that hold a run in a phase: a layer in front of the registry, and a server that never responds.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use butler_registry::memory::Server;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::watch;

use butler_testing::deployed;
use butler_testing::world::World;

/// A layer in front of the registry that holds one request, and can then respond with 409.
pub(super) struct Gate {
    held: Option<(&'static str, &'static str, usize)>,
    seen: AtomicUsize,
    reached: watch::Sender<bool>,
    pub(super) open: watch::Sender<bool>,
    /// The endpoint that responds with 409 once this is set.
    pub(super) conflict: watch::Sender<Option<&'static str>>,
}

impl Gate {
    pub(super) fn new(held: Option<(&'static str, &'static str, usize)>) -> Arc<Self> {
        Arc::new(Self {
            held,
            seen: AtomicUsize::new(0),
            reached: watch::Sender::new(false),
            open: watch::Sender::new(false),
            conflict: watch::Sender::new(None),
        })
    }

    /// Serves the world's registry behind this gate.
    pub(super) async fn serve(self: &Arc<Self>, world: &World) -> Server {
        let gate = self.clone();
        let layer = axum::middleware::from_fn(move |request: Request, next: Next| {
            let gate = gate.clone();
            async move { gate.pass(request, next).await }
        });
        Server::start(deployed::router(world.registry.clone()).layer(layer)).await.unwrap()
    }

    async fn pass(&self, request: Request, next: Next) -> Response {
        let endpoint = request.uri().path().rsplit('/').next().unwrap_or_default().to_owned();
        if let Some((method, held, number)) = self.held
            && request.method().as_str() == method
            && endpoint == held
            && self.seen.fetch_add(1, Ordering::SeqCst) + 1 == number
        {
            self.reached.send_replace(true);
            self.open.subscribe().wait_for(|open| *open).await.unwrap();
        }
        if *self.conflict.borrow() == Some(endpoint.as_str()) && can_conflict(&request) {
            let body = json!({"error": {"message": "the run is over", "code": "APPROVAL_DENIED"}});
            return (axum::http::StatusCode::CONFLICT, body.to_string()).into_response();
        }
        next.run(request).await
    }

    pub(super) async fn reached(&self) {
        self.reached.subscribe().wait_for(|reached| *reached).await.unwrap();
    }
}

/// The registry never responds to GET status with 409.
fn can_conflict(request: &Request) -> bool {
    request.method() == axum::http::Method::POST || request.uri().path().ends_with("/config")
}

/// A server that accepts connections and never sends anything.
pub(super) struct SilentServer {
    pub(super) listener: TcpListener,
}

impl SilentServer {
    pub(super) async fn start() -> Self {
        Self { listener: TcpListener::bind(("127.0.0.1", 0)).await.unwrap() }
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.listener.local_addr().unwrap())
    }
}
