//! Listeners whose port stays the same after a restart.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use fs_err as fs;
use tokio::net::TcpListener;

/// The server cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The address cannot be used.
    #[error("cannot listen on {address}; give another address with `--listen`")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The port cannot be kept.
    #[error("cannot keep the port in `{}`", path.display())]
    Keep {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
}

/// Listens on `address`. If its port is 0, the port in the file `kept` is tried first, then a free
/// one, which is kept: attempts that run, and open pages, know the address.
///
/// # Errors
/// If no port can be used, or the port cannot be kept.
pub(super) async fn listen(address: SocketAddr, kept: &Path) -> Result<TcpListener, ListenError> {
    let bind = async |address| {
        let bound = TcpListener::bind(address).await;
        bound.map_err(|source| ListenError::Bind { address, source })
    };
    if address.port() != 0 {
        return bind(address).await;
    }
    let known = fs::read_to_string(kept).ok().and_then(|port| port.trim().parse::<u16>().ok());
    if let Some(port) = known
        && let Ok(listener) = bind(SocketAddr::new(address.ip(), port)).await
    {
        return Ok(listener);
    }
    let listener = bind(address).await?;
    let failed = |source| ListenError::Keep { path: kept.to_owned(), source };
    let port = listener.local_addr().map_err(failed)?.port();
    fs::write(kept, port.to_string()).map_err(failed)?;
    Ok(listener)
}

/// A free port of the loopback interface, or the one that was used before.
pub(super) async fn listen_locally(kept: &Path) -> Result<TcpListener, ListenError> {
    listen(SocketAddr::new(IpAddr::from([127, 0, 0, 1]), 0), kept).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn port_is_kept_unless_another_process_uses_it() {
        let directory = tempfile::tempdir().unwrap();
        let kept = directory.path().join("attempts.port");
        let port = |listener: &TcpListener| listener.local_addr().unwrap().port();
        let first = listen_locally(&kept).await.unwrap();
        let used = port(&first);
        // It is in use: another one.
        let second = listen_locally(&kept).await.unwrap();
        assert_ne!(port(&second), used);
        let used = port(&second);
        drop((first, second));
        assert_eq!(port(&listen_locally(&kept).await.unwrap()), used);
    }
}
