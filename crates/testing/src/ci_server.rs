//! The API of a CI system, scripted by a test, over TLS on loopback. It handles one request per
//! connection, so that single responses can be lost.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use serde_json::Value;

use super::authority::Authority;

/// A received request.
#[derive(Clone, Debug)]
pub struct Received {
    /// `GET` or `POST`.
    pub method: String,
    /// The path, without the query.
    pub path: String,
    /// The query, decoded.
    pub query: BTreeMap<String, String>,
    /// Headers by lower-case name.
    pub headers: BTreeMap<String, String>,
    /// The body.
    pub body: String,
}

impl Received {
    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    /// The body as a form.
    pub fn form(&self) -> BTreeMap<String, String> {
        url::form_urlencoded::parse(self.body.as_bytes()).into_owned().collect()
    }

    /// `METHOD PATH`.
    pub fn line(&self) -> String {
        format!("{} {}", self.method, self.path)
    }

    /// The value of a header, or an empty text.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }
}

/// The handling of a request.
#[derive(Clone, Debug)]
pub enum Reply {
    /// A response.
    Response {
        /// The HTTP status.
        status: u16,
        /// The headers.
        headers: Vec<(String, String)>,
        /// The body.
        body: String,
    },
    /// The connection is closed without a response.
    Lost,
}

impl Reply {
    /// A JSON response.
    pub fn json(status: u16, body: &Value) -> Self {
        let headers =
            vec![("content-type".to_owned(), "application/json; charset=utf-8".to_owned())];
        Self::Response { status, headers, body: body.to_string() }
    }

    /// A response without a body.
    pub fn empty(status: u16) -> Self {
        Self::Response { status, headers: Vec::new(), body: String::new() }
    }

    /// A web page.
    pub fn page(status: u16, body: &str) -> Self {
        let headers = vec![("content-type".to_owned(), "text/html;charset=utf-8".to_owned())];
        Self::Response { status, headers, body: body.to_owned() }
    }

    /// The same with one more header.
    pub fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        if let Self::Response { headers, .. } = &mut self {
            headers.push((name.to_owned(), value.into()));
        }
        self
    }
}

/// A running server. It continues until the test ends.
pub struct CiServer {
    authority: Authority,
    address: String,
    received: Arc<Mutex<Vec<Received>>>,
}

impl CiServer {
    /// A server with this `handler`. Requests are handled one at a time.
    pub fn start(handler: impl FnMut(&Received) -> Reply + Send + 'static) -> Self {
        let authority = Authority::create();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let received: Arc<Mutex<Vec<Received>>> = Arc::default();
        let (acceptor, kept) = (authority.acceptor(), received.clone());
        let handler = Arc::new(Mutex::new(handler));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (acceptor, kept, handler) = (acceptor.clone(), kept.clone(), handler.clone());
                std::thread::spawn(move || {
                    let Ok(stream) = acceptor.accept(stream) else { return };
                    let mut stream = BufReader::new(stream);
                    let Some(request) = read(&mut stream) else { return };
                    kept.lock().unwrap().push(request.clone());
                    let reply = (handler.lock().unwrap())(&request);
                    let mut stream = stream.into_inner();
                    if let Reply::Response { status, headers, body } = reply {
                        let _ = stream.write_all(text(status, &headers, &body).as_bytes());
                        let _ = stream.shutdown();
                    }
                });
            }
        });
        Self { authority, address, received }
    }

    /// Its URL.
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// The certificate to trust.
    pub fn bundle(&self) -> PathBuf {
        self.authority.bundle()
    }

    /// All received requests, in order.
    pub fn received(&self) -> Vec<Received> {
        self.received.lock().unwrap().clone()
    }

    /// The received requests with this method.
    pub fn received_by(&self, method: &str) -> Vec<Received> {
        self.received().into_iter().filter(|request| request.method == method).collect()
    }
}

fn read(stream: &mut impl BufRead) -> Option<Received> {
    let mut line = String::new();
    stream.read_line(&mut line).ok()?;
    let mut words = line.split_whitespace();
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = BTreeMap::new();
    loop {
        line.clear();
        stream.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.insert(name.to_lowercase(), value.trim().to_owned());
    }
    let length = headers.get("content-length").and_then(|it| it.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let query = url::form_urlencoded::parse(query.as_bytes()).into_owned().collect();
    let body = String::from_utf8(body).ok()?;
    Some(Received { method, path: path.to_owned(), query, headers, body })
}

fn text(status: u16, headers: &[(String, String)], body: &str) -> String {
    let has_date = headers.iter().any(|(name, _)| name == "date");
    let date = format!("date: {}\r\n", httpdate::fmt_http_date(SystemTime::now()));
    let date = if has_date { "" } else { &date };
    let headers: Vec<_> =
        headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let headers = headers.concat();
    format!(
        "HTTP/1.1 {status} X\r\n{date}{headers}content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
}
