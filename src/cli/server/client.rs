//! Requests of the command line to a server.

use std::io::ErrorKind;
use std::time::Duration;

use reqwest::{Method, RequestBuilder, Response};
use secrecy::ExposeSecret;
use serde_json::Value;
use url::{Host, Url};

use super::ClientFlags;
use crate::cli::flags::{Flags, merge_arguments};
use crate::cli::output::{complain, refuse};
use crate::cli::runtime::block_on;
use crate::exit::Exit;
use crate::settings::setting::SERVER_TOKEN_FILE;
use crate::settings::{Arguments, Environment, ServerAccess, SettingsError};
use butler_base::error::chain;
use butler_base::http::{self, Redirects};

/// The exit code if the server cannot be reached, or does not allow the request.
pub(super) const UNREACHABLE: u8 = 4;

/// The exit code if the server refuses the request.
const REFUSED: u8 = 1;

/// How long the server may take for an answer, and for a message of a stream: it sends a comment every 15 seconds.
const ANSWER: Duration = Duration::from_mins(1);

/// The exit codes, for `--help`.
pub(super) const EXIT_CODES: &str = "Exit codes: 0 success; 1 refused or failed; 2 usage; 4 the server cannot be \
reached, or does not allow it";

/// Sends requests to a server.
pub(super) struct Client {
    access: ServerAccess,
    client: reqwest::Client,
}

/// Asks the server that a command line names. Returns the exit code.
pub(super) fn with_client(
    flags: Flags<ClientFlags>,
    log: Arguments,
    environment: &Environment,
    ask: impl AsyncFnOnce(&Client) -> Result<u8, Failure>,
) -> u8 {
    with_arguments(&merge_arguments(log, flags.into_arguments()), environment, ask)
}

/// Asks the server that the arguments name. Returns the exit code.
pub(super) fn with_arguments(
    arguments: &Arguments,
    environment: &Environment,
    ask: impl AsyncFnOnce(&Client) -> Result<u8, Failure>,
) -> u8 {
    let access = match ServerAccess::resolve(arguments, environment) {
        Ok(access) => access,
        Err(error) => return refuse_access(&error),
    };
    match block_on(async { ask(&Client::new(access)?).await }) {
        Some(Ok(code)) => code,
        Some(Err(failure)) => failure.report(),
        None => Exit::Failed.code(),
    }
}

/// Tells why a server cannot be asked. Returns the exit code.
fn refuse_access(error: &SettingsError) -> u8 {
    let code = refuse(error);
    let is_allowed = match error {
        SettingsError::NoServer { .. } | SettingsError::NotRunning { .. } => false,
        // The token of another user.
        SettingsError::Path { setting, source, .. } => {
            **setting != SERVER_TOKEN_FILE || source.kind() != ErrorKind::PermissionDenied
        }
        _ => true,
    };
    if is_allowed { code } else { UNREACHABLE }
}

/// What a person is told if a request failed, and the exit code.
pub(super) struct Failure {
    message: String,
    hint: Option<String>,
    code: u8,
    /// Whether no server has answered.
    is_unanswered: bool,
}

impl Failure {
    /// Whether no server has answered, so that one that is being restarted may answer later.
    pub(super) const fn is_unanswered(&self) -> bool {
        self.is_unanswered
    }

    /// Tells it.
    pub(super) fn report(&self) -> u8 {
        complain(&self.message, self.hint.as_deref());
        self.code
    }

    /// Something is missing on the command line.
    pub(super) fn usage(message: impl Into<String>, hint: impl Into<String>) -> Self {
        let (message, hint) = (message.into(), Some(hint.into()));
        Self { message, hint, code: Exit::Usage.code(), is_unanswered: false }
    }

    /// A failure after the server was reached.
    pub(super) fn refused(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None, code: REFUSED, is_unanswered: false }
    }
}

impl Client {
    pub(super) fn new(access: ServerAccess) -> Result<Self, Failure> {
        // A proxy has another loopback interface.
        let build = if is_loopback(&access.server) { http::direct_client } else { http::client };
        let client = build(access.ca_bundle.as_deref(), Redirects::Refuse);
        let client = client.map_err(|error| Failure {
            message: chain(&error),
            hint: None,
            code: REFUSED,
            is_unanswered: false,
        })?;
        Ok(Self { access, client })
    }

    /// Reads `path` below `/api/v1`, with its query.
    pub(super) async fn get(&self, path: &str) -> Result<Value, Failure> {
        json(&self.send(Method::GET, path, "application/json").await?)
    }

    /// Reads a list of `path`, which has a query, page by page.
    pub(super) async fn list(&self, path: &str) -> Result<Value, Failure> {
        let mut whole = self.get(path).await?;
        while let Some(after) = whole["next"].as_str().map(part) {
            let mut page = self.get(&format!("{path}&after={after}")).await?;
            whole["next"] = page["next"].take();
            let items = page["items"].as_array_mut().map(std::mem::take).unwrap_or_default();
            if let Some(all) = whole["items"].as_array_mut() {
                all.extend(items);
            }
        }
        Ok(whole)
    }

    /// Reads `path` as text.
    pub(super) async fn text(&self, path: &str) -> Result<String, Failure> {
        self.send(Method::GET, path, "text/plain").await
    }

    /// Asks for a change.
    pub(super) async fn post(&self, path: &str) -> Result<Value, Failure> {
        json(&self.send(Method::POST, path, "application/json").await?)
    }

    /// Asks for a change with a JSON document.
    pub(super) async fn post_json(&self, path: &str, body: &Value) -> Result<Value, Failure> {
        let request = self.request(Method::POST, path, "application/json").json(body);
        let answer = self.answer(request).await?;
        json(&self.in_time(answer.text()).await?)
    }

    /// Follows `path` as server-sent events, behind the message with the id `last`.
    pub(super) async fn follow(&self, path: &str, last: Option<&str>) -> Result<Messages, Failure> {
        let mut request = self.request(Method::GET, path, "text/event-stream");
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        Ok(Messages { answer: self.answer(request).await?, received: Vec::new() })
    }

    async fn send(&self, method: Method, path: &str, accept: &str) -> Result<String, Failure> {
        let answer = self.answer(self.request(method, path, accept)).await?;
        self.in_time(answer.text()).await
    }

    fn request(&self, method: Method, path: &str, accept: &str) -> RequestBuilder {
        self.client
            .request(method, format!("{}/api/v1{path}", self.server()))
            .bearer_auth(self.access.token.expose_secret())
            .header("accept", accept)
    }

    /// Sends a request. Returns its answer if it is a success.
    async fn answer(&self, request: RequestBuilder) -> Result<Response, Failure> {
        let answer = self.in_time(request.send()).await?;
        let status = answer.status();
        if status.is_success() {
            return Ok(answer);
        }
        let text = self.in_time(answer.text()).await?;
        let error: Value = serde_json::from_str(&text).unwrap_or_default();
        let field = |name: &str| error["error"][name].as_str().map(str::to_owned);
        let is_access = matches!(status.as_u16(), 401 | 403);
        Err(Failure {
            message: field("message")
                .unwrap_or_else(|| format!("the server {} answers {status}", self.server())),
            hint: field("hint"),
            code: if is_access { UNREACHABLE } else { REFUSED },
            is_unanswered: false,
        })
    }

    /// The answer of the server, if there is one in time.
    async fn in_time<T>(
        &self,
        answer: impl Future<Output = reqwest::Result<T>>,
    ) -> Result<T, Failure> {
        match tokio::time::timeout(ANSWER, answer).await {
            Ok(answer) => answer.map_err(|error| self.unreachable(&error)),
            Err(_) => Err(Failure {
                message: format!(
                    "the server {} has not answered within {} s",
                    self.server(),
                    ANSWER.as_secs()
                ),
                hint: Some("try again; `/readyz` of the server says whether it works".to_owned()),
                code: UNREACHABLE,
                is_unanswered: true,
            }),
        }
    }

    fn server(&self) -> &str {
        self.access.server.as_str().trim_end_matches('/')
    }

    fn unreachable(&self, error: &reqwest::Error) -> Failure {
        let (server, cause) = (self.server(), chain(&http_cause(error)));
        let hint =
            "start it with `butler-runner serve`, or name another one (--server, BUTLER_SERVER)";
        Failure {
            message: format!("cannot reach the server {server}: {cause}"),
            hint: Some(hint.to_owned()),
            code: UNREACHABLE,
            is_unanswered: true,
        }
    }
}

/// A stream of server-sent events.
pub(super) struct Messages {
    answer: Response,
    received: Vec<u8>,
}

/// A server-sent event.
pub(super) struct Message {
    /// What it is about; `None` for an entry of what is followed.
    pub(super) kind: Option<String>,
    /// What a client sends that connects again.
    pub(super) id: Option<String>,
    /// The JSON document.
    pub(super) data: Value,
}

impl Messages {
    /// The next message; `None` at the end of the connection, also if the server is silent for too long.
    pub(super) async fn next(&mut self) -> Option<Message> {
        loop {
            let end = self.received.windows(2).position(|bytes| bytes == b"\n\n");
            if let Some(end) = end {
                let message: Vec<u8> = self.received.drain(..end + 2).collect();
                let message = String::from_utf8_lossy(&message);
                let field =
                    |name| Some(message.lines().find_map(|it| it.strip_prefix(name))?.to_owned());
                // A message without data is a comment.
                let Some(data) = field("data: ") else { continue };
                let data = serde_json::from_str(&data).unwrap_or_default();
                return Some(Message { kind: field("event: "), id: field("id: "), data });
            }
            let part = tokio::time::timeout(ANSWER, self.answer.chunk()).await.ok()?;
            self.received.extend_from_slice(&part.ok()??);
        }
    }
}

/// Whether the server is on this machine.
fn is_loopback(server: &Url) -> bool {
    match server.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.to_canonical().is_loopback(),
        None => false,
    }
}

/// An error without the address, which the message names already.
fn http_cause(error: &reqwest::Error) -> std::io::Error {
    let cause = std::error::Error::source(error).map_or_else(
        || error.to_string(),
        |cause| {
            let mut text = cause.to_string();
            let mut deeper = cause.source();
            while let Some(cause) = deeper {
                text = format!("{text}: {cause}");
                deeper = cause.source();
            }
            text
        },
    );
    std::io::Error::other(cause)
}

fn json(text: &str) -> Result<Value, Failure> {
    serde_json::from_str(text)
        .map_err(|error| Failure::refused(format!("the server's answer is not JSON: {error}")))
}

/// A part of a path, with everything escaped that means something there.
pub(super) fn part(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}
