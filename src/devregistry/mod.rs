//! A registry for development: the endpoints of the real one, with its checks, on loopback.
//!
//! `butler-runner demo` runs against it, and so do the integration tests, which put faults in front
//! of it. It keeps everything in memory and belongs to nobody's production.

mod handlers;
mod state;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::Router;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use url::Url;

pub use handlers::router;
pub use state::{Received, Registry, Request, Run};

/// The path below which the development registry answers, as a real one does.
pub const BASE_PATH: &str = "/api/registry";

/// A server on a free port of the loopback interface that ends when it is dropped.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl Server {
    /// Serves `router`.
    ///
    /// # Errors
    /// When no port can be had.
    pub async fn start(router: Router) -> std::io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(async move {
            let serving = axum::serve(listener, router);
            tokio::select! {
                served = serving => if let Err(error) = served {
                    tracing::error!(%error, "the development registry stopped");
                },
                _ = stopped => {}
            }
        });
        Ok(Self { address, stop: Some(stop), task })
    }

    /// What `--endpoint` must be to reach it.
    ///
    /// # Panics
    /// Never: the address of a socket makes a URL.
    #[must_use]
    pub fn endpoint(&self) -> Url {
        Url::parse(&format!("http://{}{BASE_PATH}", self.address))
            .expect("a socket address is a host and a port")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        self.task.abort();
    }
}

/// Starts a server for `registry` alone.
///
/// # Errors
/// When no port can be had.
pub async fn serve(registry: Arc<Registry>) -> std::io::Result<Server> {
    Server::start(router(registry)).await
}
