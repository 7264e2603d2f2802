//! A web site of files over TLS: what a release's page hands out.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::{Arc, Mutex};

use super::authority::Authority;

/// A site; it answers for as long as the test lives.
pub(crate) struct WebFiles {
    address: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl WebFiles {
    /// Serves `files`, each under its path, with a certificate of `authority`. Everything else is 404.
    pub(crate) fn serve(authority: &Authority, files: BTreeMap<String, Vec<u8>>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = format!("https://localhost:{}", listener.local_addr().unwrap().port());
        let acceptor = authority.acceptor();
        let requests: Arc<Mutex<Vec<String>>> = Arc::default();
        let seen = Arc::clone(&requests);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                // A client that does not trust the certificate hangs up.
                let Ok(stream) = acceptor.accept(stream) else { continue };
                let mut stream = BufReader::new(stream);
                let mut head = Vec::new();
                let mut line = String::new();
                while stream.read_line(&mut line).is_ok_and(|read| read > 2) {
                    head.push(std::mem::take(&mut line));
                }
                let path = head.first().and_then(|line| line.split(' ').nth(1));
                let path = path.unwrap_or_default().to_owned();
                let (status, body) = match files.get(&path) {
                    Some(file) => ("200 OK", file.as_slice()),
                    None => ("404 Not Found", b"".as_slice()),
                };
                seen.lock().unwrap().push(head.concat());
                let length = body.len();
                let head = format!(
                    "HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
                );
                let stream = stream.get_mut();
                let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
                let _ = stream.shutdown();
            }
        });
        Self { address, requests }
    }

    /// `https://localhost:...`, without a slash at its end.
    pub(crate) fn url(&self) -> &str {
        &self.address
    }

    /// The heads of the requests, in order.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}
