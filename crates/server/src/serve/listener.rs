//! Listeners whose port stays the same after a restart.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use fs_err as fs;
use tokio::net::TcpListener;

use crate::attempts::is_any_alive;
use crate::data::{DataDirectory, write_private};

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
    /// Another program has the port to which attempts report.
    #[error(
        "cannot listen on port {port} of 127.0.0.1, to which attempts that still run report: another \
         program uses it; end that program, or wait until the attempts have ended, and start the \
         server again"
    )]
    Taken {
        /// The port.
        port: u16,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// Whether attempts run is not known.
    #[error("cannot find out whether attempts run in `{}`", path.display())]
    Attempts {
        /// The directory of all attempts.
        path: PathBuf,
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
    if let Some(port) = known_port(kept)
        && let Ok(listener) = bind(SocketAddr::new(address.ip(), port)).await
    {
        return Ok(listener);
    }
    let listener = bind(address).await?;
    let failed = |source| ListenError::Keep { path: kept.to_owned(), source };
    let port = listener.local_addr().map_err(failed)?.port();
    write_private(kept, port.to_string().as_bytes()).map_err(failed)?;
    Ok(listener)
}

/// The listener for attempts: on a free port of the loopback interface, or on the one that was used
/// before.
///
/// # Errors
/// Also if the port is used and attempts run: they would send their tokens to the program that uses it.
pub(super) async fn listen_to_attempts(data: &DataDirectory) -> Result<TcpListener, ListenError> {
    let (kept, loopback) = (data.port("attempts"), IpAddr::from([127, 0, 0, 1]));
    let Some(port) = known_port(&kept) else {
        return listen(SocketAddr::new(loopback, 0), &kept).await;
    };
    match TcpListener::bind(SocketAddr::new(loopback, port)).await {
        Ok(listener) => Ok(listener),
        Err(source) => {
            let path = data.attempts();
            match is_any_alive(&path) {
                Ok(false) => listen(SocketAddr::new(loopback, 0), &kept).await,
                Ok(true) => Err(ListenError::Taken { port, source }),
                Err(source) => Err(ListenError::Attempts { path, source }),
            }
        }
    }
}

/// The port in the file `kept`.
fn known_port(kept: &Path) -> Option<u16> {
    fs::read_to_string(kept).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn port_is_kept_unless_another_process_uses_it() {
        let directory = tempfile::tempdir().unwrap();
        let data = DataDirectory::create(directory.path()).unwrap();
        let port = |listener: &TcpListener| listener.local_addr().unwrap().port();
        let first = listen_to_attempts(&data).await.unwrap();
        let used = port(&first);
        // It is in use: another one.
        let second = listen_to_attempts(&data).await.unwrap();
        assert_ne!(port(&second), used);
        let used = port(&second);
        drop((first, second));
        assert_eq!(port(&listen_to_attempts(&data).await.unwrap()), used);
    }
}
