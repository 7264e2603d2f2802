//! A gate in front of the API server. When it closes, open connections break and new ones are
//! refused.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The gate; it closes with the value.
pub struct Gate {
    port: u16,
    is_open: watch::Sender<bool>,
    refused: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Gate {
    /// An open gate to the server at this address.
    pub async fn before(address: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let is_open = watch::Sender::new(true);
        let refused = Arc::new(AtomicUsize::new(0));
        let (state, counted, address) = (is_open.clone(), Arc::clone(&refused), address.to_owned());
        let task = tokio::spawn(async move {
            loop {
                let (mut client, _) = listener.accept().await.unwrap();
                let (mut state, address) = (state.subscribe(), address.clone());
                if !*state.borrow() {
                    counted.fetch_add(1, Ordering::Relaxed);
                    continue;
                }
                tokio::spawn(async move {
                    let mut server = TcpStream::connect(address).await.unwrap();
                    tokio::select! {
                        _ = copy_bidirectional(&mut client, &mut server) => {}
                        _ = state.wait_for(|is_open| !is_open) => {}
                    }
                });
            }
        });
        Self { port, is_open, refused, task }
    }

    /// The server's URL through the gate.
    pub fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    /// From now on, connections are refused.
    pub fn shut(&self) {
        self.is_open.send_replace(false);
    }

    /// From now on, connections reach the server.
    pub fn open(&self) {
        self.is_open.send_replace(true);
    }

    /// The number of connections while it was closed.
    pub fn refused(&self) -> usize {
        self.refused.load(Ordering::Relaxed)
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.task.abort();
    }
}
