//! Serves a router on a loopback port.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::Router;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use url::Url;

use super::{MemoryRegistry, router};
use crate::BASE_PATH;

/// A server on a free port of the loopback interface. Dropping it stops the server.
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
    /// If no port is available.
    pub async fn start(router: Router) -> std::io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(async move {
            let serving = axum::serve(listener, router);
            tokio::select! {
                served = serving => if let Err(error) = served {
                    tracing::error!(%error, "the server on loopback stopped");
                },
                _ = stopped => {}
            }
        });
        Ok(Self { address, stop: Some(stop), task })
    }

    /// The value of `--endpoint` for this server.
    ///
    /// # Panics
    /// Never: a socket address is always a valid host and port.
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
/// If no port is available.
pub async fn serve(registry: Arc<MemoryRegistry>) -> std::io::Result<Server> {
    Server::start(router(registry)).await
}
