//! A faulty connection to the registry: a TCP server in front of it that responds itself, resets,
//! hangs, or drops the registry's responses, and records the requests.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use url::Url;

use super::world::eventually;

/// The fault of a request.
#[derive(Clone, Copy, Debug)]
pub enum FaultAction {
    /// The proxy responds with this status, these header lines and this body.
    Respond(u16, &'static str, &'static str),
    /// The proxy closes the connection; the registry does not get the request.
    Close,
    /// The proxy resets the connection; the registry does not get the request.
    Reset,
    /// No response; the registry does not get the request.
    Hang,
    /// No response; the registry gets the request late, just after the final status.
    Late,
    /// The registry responds, but the proxy closes the connection instead.
    Lose,
}

/// The requests with the fault.
#[derive(Clone, Debug)]
pub enum FaultTrigger {
    /// The first of the named requests, this many.
    First(usize),
    /// Every third of the named requests.
    EveryThird,
    /// All named requests.
    Always,
    /// All requests from the first named one on, for this time.
    For(Duration),
    /// All requests from the first named one on, until this file exists.
    Until(PathBuf),
    /// All requests on reused connections, named or not.
    Reused,
}

/// A fault of the connection.
#[derive(Clone, Debug)]
pub struct ProxyFault {
    /// `GET status`, `GET config`, `POST running`, `POST logs`, `POST plan`, `POST outputs` or
    /// `POST final`.
    pub request: &'static str,
    /// The effect.
    pub act: FaultAction,
    /// The requests that it affects.
    pub when: FaultTrigger,
}

/// An observed event.
#[derive(Clone, Debug)]
pub enum Event {
    /// A request, with or without a fault.
    Request(RecordedRequest),
    /// The client closed the connection of a request without a response.
    HungUp(String),
}

/// An observed request.
#[derive(Clone, Debug)]
pub struct RecordedRequest {
    /// Its name, as in [`ProxyFault`].
    pub name: String,
    /// Its `Idempotency-Key`.
    pub key: Option<String>,
    /// The body.
    pub body: Vec<u8>,
    /// Whether a fault was injected into it.
    pub is_faulty: bool,
}

/// The proxy. It ends with the value.
pub struct Proxy {
    endpoint: String,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

struct Shared {
    registry: String,
    trouble: ProxyFault,
    state: Mutex<ProxyState>,
}

#[derive(Default)]
struct ProxyState {
    named: usize,
    begun: Option<Instant>,
    late: Vec<Request>,
    events: Vec<Event>,
}

struct Request {
    head: String,
    body: Vec<u8>,
}

impl Proxy {
    /// A proxy with `trouble` to the registry at `endpoint`.
    pub async fn start(endpoint: &str, trouble: ProxyFault) -> Self {
        let mut url: Url = endpoint.parse().unwrap();
        let registry = format!("127.0.0.1:{}", url.port().unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        url.set_port(Some(listener.local_addr().unwrap().port())).unwrap();
        let shared = Arc::new(Shared { registry, trouble, state: Mutex::default() });
        let served = Arc::clone(&shared);
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(serve(stream, Arc::clone(&served)));
            }
        });
        Self { endpoint: url.into(), shared, task }
    }

    /// The endpoint for the runner.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// All observed events.
    pub fn events(&self) -> Vec<Event> {
        self.shared.state.lock().unwrap().events.clone()
    }

    /// The observed requests of this name.
    pub fn seen(&self, name: &str) -> Vec<RecordedRequest> {
        let request = |event| match event {
            Event::Request(seen) if seen.name == name => Some(seen),
            _ => None,
        };
        self.events().into_iter().filter_map(request).collect()
    }

    /// Waits for a request of this name.
    pub async fn until_seen(&self, name: &str) {
        eventually(name, || !self.seen(name).is_empty()).await;
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Shared {
    /// Records a request, and returns its fault.
    fn choose_fault(&self, request: &Request, reused: bool) -> Option<FaultAction> {
        let mut state = self.state.lock().unwrap();
        let name = request.name();
        let named = name == self.trouble.request;
        state.named += usize::from(named);
        if named && state.begun.is_none() {
            state.begun = Some(Instant::now());
        }
        let is_faulty = match &self.trouble.when {
            FaultTrigger::First(times) => named && state.named <= *times,
            FaultTrigger::EveryThird => named && state.named.is_multiple_of(3),
            FaultTrigger::Always => named,
            FaultTrigger::For(duration) => {
                state.begun.is_some_and(|begun| begun.elapsed() < *duration)
            }
            FaultTrigger::Until(file) => state.begun.is_some() && !file.exists(),
            FaultTrigger::Reused => reused,
        };
        let (key, body) = (request.header("idempotency-key"), request.body.clone());
        state.events.push(Event::Request(RecordedRequest { name, key, body, is_faulty }));
        is_faulty.then_some(self.trouble.act)
    }
}

impl Request {
    /// The next request; `None` if the client closes the connection.
    async fn read(stream: &mut BufReader<TcpStream>) -> Option<Self> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if stream.read_line(&mut head).await.ok()? == 0 {
                return None;
            }
        }
        let mut request = Self { head, body: Vec::new() };
        let length = request.header("content-length").map_or(0, |text| text.parse().unwrap());
        request.body.resize(length, 0);
        stream.read_exact(&mut request.body).await.ok()?;
        Some(request)
    }

    fn header(&self, name: &str) -> Option<String> {
        let fields = self.head.lines().skip(1).filter_map(|line| line.split_once(':'));
        let mut values = fields.filter(|(field, _)| field.eq_ignore_ascii_case(name));
        values.next().map(|(_, value)| value.trim().to_owned())
    }

    fn name(&self) -> String {
        let mut words = self.head.split(' ');
        let method = words.next().unwrap();
        let endpoint = words.next().unwrap().rsplit('/').next().unwrap();
        let running = String::from_utf8_lossy(&self.body).contains(r#""status":"running""#);
        match (method, endpoint, running) {
            ("POST", "status", true) => "POST running".to_owned(),
            ("POST", "status", false) => "POST final".to_owned(),
            _ => format!("{method} {endpoint}"),
        }
    }

    /// The response of the registry, byte for byte.
    async fn forward(&self, registry: &str) -> std::io::Result<Vec<u8>> {
        let mut stream = BufReader::new(TcpStream::connect(registry).await?);
        stream.write_all(self.head.as_bytes()).await?;
        stream.write_all(&self.body).await?;
        let answer = Self::read(&mut stream).await.ok_or(std::io::ErrorKind::UnexpectedEof)?;
        Ok([answer.head.as_bytes(), &answer.body].concat())
    }
}

async fn serve(stream: TcpStream, shared: Arc<Shared>) {
    let mut stream = BufReader::new(stream);
    let mut reused = false;
    while let Some(request) = Request::read(&mut stream).await {
        let act = shared.choose_fault(&request, reused);
        reused = true;
        let answer = match act {
            None => {
                let answer = request.forward(&shared.registry).await.unwrap();
                if request.name() == "POST final" {
                    let late = std::mem::take(&mut shared.state.lock().unwrap().late);
                    for request in late {
                        request.forward(&shared.registry).await.unwrap();
                    }
                }
                answer
            }
            Some(FaultAction::Respond(status, headers, body)) => {
                let length = body.len();
                let head = format!("HTTP/1.1 {status} Injected\r\ncontent-length: {length}\r\n");
                format!("{head}{headers}\r\n{body}").into_bytes()
            }
            Some(FaultAction::Close) => return,
            Some(FaultAction::Reset) => {
                stream.get_ref().set_zero_linger().unwrap();
                return;
            }
            Some(act @ (FaultAction::Hang | FaultAction::Late)) => {
                let event = Event::HungUp(request.name());
                if matches!(act, FaultAction::Late) {
                    shared.state.lock().unwrap().late.push(request);
                }
                let _ = stream.read_u8().await;
                shared.state.lock().unwrap().events.push(event);
                return;
            }
            Some(FaultAction::Lose) => {
                request.forward(&shared.registry).await.unwrap();
                return;
            }
        };
        if stream.write_all(&answer).await.is_err() {
            return;
        }
    }
}
