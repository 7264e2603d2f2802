//! TLS of the listener for people and programs.
//!
//! The certificate and its key are read again when a file changes, so a renewed certificate needs no
//! restart. A pair that cannot be used leaves the one before in force.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use axum::serve::Listener;
use fs_err as fs;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::connection::{Connection, LimitedListener};

/// How long a client may take for its handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// The time between two looks at the files.
const INTERVAL: Duration = Duration::from_secs(2);

/// The files of a certificate, in PEM.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The certificate of the server, followed by those of its issuers.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// The certificate and its key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error(transparent)]
    Read(#[from] std::io::Error),
    /// A file is not valid.
    #[error("cannot read `{}` as PEM", path.display())]
    Pem {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: pem::Error,
    },
    /// The key does not belong to the certificate, or is of an unknown kind.
    #[error("cannot use the key `{}` with the certificate `{}`", files.key.display(), files.certificate.display())]
    Pair {
        /// The files.
        files: TlsFiles,
        /// The cause.
        #[source]
        source: rustls::Error,
    },
    /// The versions of TLS.
    #[error("cannot set up TLS")]
    Setup(#[source] rustls::Error),
}

/// Times and sizes of both files; `None` if one does not exist.
type Seen = Option<[(SystemTime, u64); 2]>;

impl TlsFiles {
    fn look(&self) -> Seen {
        let look = |path| {
            let found = fs::metadata(path).ok()?;
            Some((found.modified().ok()?, found.len()))
        };
        Some([look(&self.certificate)?, look(&self.key)?])
    }

    fn read(&self) -> Result<CertifiedKey, TlsError> {
        let of = |path: &PathBuf| {
            let path = path.clone();
            move |source| TlsError::Pem { path, source }
        };
        let text = fs::read(&self.certificate)?;
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
        let chain = chain.and_then(|chain| {
            if chain.is_empty() { Err(pem::Error::NoItemsFound) } else { Ok(chain) }
        });
        let chain = chain.map_err(of(&self.certificate))?;
        let key = PrivateKeyDer::from_pem_slice(&fs::read(&self.key)?).map_err(of(&self.key))?;
        CertifiedKey::from_der(chain, key, &ring::default_provider())
            .map_err(|source| TlsError::Pair { files: self.clone(), source })
    }
}

/// The certificate in force.
#[derive(Debug)]
struct Certificate {
    files: TlsFiles,
    /// The time between two looks at the files.
    interval: Duration,
    state: Mutex<CertificateState>,
}

#[derive(Debug)]
struct CertificateState {
    key: Arc<CertifiedKey>,
    seen: Seen,
    looked: Instant,
}

impl Certificate {
    fn open(files: TlsFiles, interval: Duration) -> Result<Self, TlsError> {
        // Looked at before the files are read: a change while they are read is seen the next time.
        let seen = files.look();
        let key = Arc::new(files.read()?);
        let state = Mutex::new(CertificateState { key, seen, looked: Instant::now() });
        Ok(Self { files, interval, state })
    }

    /// The certificate in force. The files are read if they have changed, each change once.
    fn current(&self) -> Arc<CertifiedKey> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.looked.elapsed() >= self.interval {
            state.looked = Instant::now();
            let seen = self.files.look();
            if seen != state.seen {
                state.seen = seen;
                match self.files.read() {
                    Ok(key) => {
                        tracing::info!("the certificate has changed");
                        state.key = Arc::new(key);
                    }
                    Err(error) => {
                        let error = butler_base::error::chain(&error);
                        tracing::error!("the certificate stays as it is: {error}");
                    }
                }
            }
        }
        Arc::clone(&state.key)
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current())
    }
}

/// Reads the certificate, and makes the TLS configuration of a server.
///
/// # Errors
/// If the certificate and its key cannot be used.
pub(super) fn acceptor(files: TlsFiles) -> Result<TlsAcceptor, TlsError> {
    accepting(files, INTERVAL)
}

fn accepting(files: TlsFiles, interval: Duration) -> Result<TlsAcceptor, TlsError> {
    let certificate = Certificate::open(files, interval)?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Setup)?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(certificate));
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Accepts connections whose handshake is done. Handshakes do not wait for each other.
pub(super) struct TlsListener {
    listener: LimitedListener,
    acceptor: TlsAcceptor,
    handshakes: JoinSet<Option<(TlsStream<Connection>, SocketAddr)>>,
}

impl TlsListener {
    pub(super) fn new(listener: LimitedListener, acceptor: TlsAcceptor) -> Self {
        Self { listener, acceptor, handshakes: JoinSet::new() }
    }
}

impl Listener for TlsListener {
    type Io = TlsStream<Connection>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            tokio::select! {
                (stream, peer) = Listener::accept(&mut self.listener) => {
                    let acceptor = self.acceptor.clone();
                    self.handshakes.spawn(async move {
                        let done = tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await;
                        match done {
                            Ok(Ok(stream)) => Some((stream, peer)),
                            Ok(Err(error)) => {
                                tracing::debug!(%peer, %error, "a TLS handshake failed");
                                None
                            }
                            Err(_) => {
                                tracing::debug!(%peer, "a TLS handshake took too long");
                                None
                            }
                        }
                    });
                }
                Some(done) = self.handshakes.join_next() => if let Ok(Some(accepted)) = done {
                    return accepted;
                },
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

#[cfg(test)]
#[path = "tls_tests.rs"]
mod tests;
