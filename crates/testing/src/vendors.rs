//! A proxy that makes a release site the vendors' own: it responds for every host, with a
//! certificate for that host by its own authority.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::thread::JoinHandle;

use openssl::ssl::{Ssl, SslAcceptor};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio_openssl::SslStream;

use super::authority::Authority;
use super::machine::Machine;
use super::release_site::ReleaseSite;

/// The hosts of the vendors.
const HOSTS: [&str; 4] =
    ["releases.hashicorp.com", "github.com", "api.github.com", "get.opentofu.org"];

/// The proxy. It ends when this is dropped.
pub struct Vendors {
    address: SocketAddr,
    authority: Authority,
    server: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
}

impl Vendors {
    /// Makes `site` respond for all vendors.
    pub fn are(site: &ReleaseSite) -> Self {
        let authority = Authority::of(&HOSTS);
        let acceptor = authority.acceptor();
        let site = format!("127.0.0.1:{}", site.url().port().unwrap());
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        // Its own thread and runtime, so that a test can block without stopping it.
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async {
                tokio::select! {
                    () = serve(listener, acceptor, site) => {}
                    _ = stopped => {}
                }
            });
        });
        Self { address, authority, server: Some((stop, thread)) }
    }

    /// The value of `HTTPS_PROXY`.
    pub fn proxy(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The value of `--ca-bundle`.
    pub fn bundle(&self) -> PathBuf {
        self.authority.bundle()
    }

    /// A machine that installs from the vendors, but trusts the site's key.
    pub fn machine(&self, site: &ReleaseSite) -> Machine {
        let mut machine = Machine::new();
        machine.set("HTTPS_PROXY", self.proxy());
        machine.set("BUTLER_CA_BUNDLE", self.bundle());
        machine.set("BUTLER_SIGNING_KEY", site.key_file());
        machine
    }
}

impl Drop for Vendors {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.server.take() {
            let _ = stop.send(());
            thread.join().unwrap();
        }
    }
}

async fn serve(listener: std::net::TcpListener, acceptor: SslAcceptor, site: String) {
    listener.set_nonblocking(true).unwrap();
    let listener = TcpListener::from_std(listener).unwrap();
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(answer(stream, acceptor.clone(), site.clone()));
    }
}

/// Opens the requested tunnel to the site.
async fn answer(stream: TcpStream, acceptor: SslAcceptor, site: String) -> Option<()> {
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    while stream.read_line(&mut line).await.ok()? > 2 {
        line.clear();
    }
    let mut stream = stream.into_inner();
    stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.ok()?;
    let mut tls = SslStream::new(Ssl::new(acceptor.context()).ok()?, stream).ok()?;
    Pin::new(&mut tls).accept().await.ok()?;
    let mut site = TcpStream::connect(site).await.ok()?;
    copy_bidirectional(&mut tls, &mut site).await.ok().map(drop)
}
