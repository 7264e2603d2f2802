//! The way to the collector: the exporters of OpenTelemetry over the one kind of HTTP client that
//! there is.

use std::fmt::Debug;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http::{Request, Response, StatusCode, Uri};
use opentelemetry_http::{HttpClient, HttpError};
use tokio::runtime::Handle;

use butler_base::error::chain;
use butler_base::http::LazyClient;

/// The default for `OTEL_SERVICE_NAME`.
pub(super) const SERVICE: &str = "butler-runner";

/// An answer is a few bytes; more than this, in bytes, is none of a collector.
const LARGEST_ANSWER: usize = 1024 * 1024;

/// Sends what the exporters' own threads want to be sent on the runtime of the run.
#[derive(Clone, Debug)]
pub(super) struct Transport {
    client: LazyClient,
    runtime: Handle,
    met: Arc<Mutex<Met>>,
}

/// What the transport has met with.
#[derive(Debug, Default)]
struct Met {
    /// Where it has asked.
    origin: Option<String>,
    /// What was wrong the last time that something was.
    refusal: Option<String>,
}

impl Transport {
    /// A transport on the runtime that this is called in.
    pub(super) fn new(ca_bundle: Option<PathBuf>) -> Self {
        Self { client: LazyClient::new(ca_bundle), runtime: Handle::current(), met: Arc::default() }
    }

    /// Where the collector is, if it was asked yet.
    pub(super) fn origin(&self) -> Option<String> {
        self.met().origin.clone()
    }

    /// What kept it from being told the last time that something did, and what to do.
    pub(super) fn refusal(&self) -> Option<String> {
        self.met().refusal.clone()
    }

    fn met(&self) -> MutexGuard<'_, Met> {
        self.met.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn send_and_note(self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let origin = origin(request.uri());
        self.met().origin = Some(origin.clone());
        let answer = self.clone().send(request).await;
        let problem = match &answer {
            Ok(answer) if answer.status().is_success() => None,
            Ok(answer) => Some(refused(answer.status())),
            Err(error) => Some(format!(
                "cannot be asked: {}; check OTEL_EXPORTER_OTLP_ENDPOINT",
                chain(error.as_ref())
            )),
        };
        if let Some(problem) = problem {
            self.met().refusal = Some(format!("`{origin}` {problem}"));
        }
        answer
    }

    async fn send(self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let client = self.client.get()?;
        // Its address may have a key in its query.
        let sent = client.execute(request.try_into()?).await;
        let mut answer = sent.map_err(reqwest::Error::without_url)?;
        let mut response = Response::builder().status(answer.status());
        if let Some(headers) = response.headers_mut() {
            headers.clone_from(answer.headers());
        }
        let mut body = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(reqwest::Error::without_url)? {
            if body.len() + chunk.len() > LARGEST_ANSWER {
                return Err(Box::new(opentelemetry_http::ResponseBodyTooLarge::new()));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(response.body(body.into())?)
    }
}

impl HttpClient for Transport {
    fn send_bytes<'transport, 'answer>(
        &'transport self,
        request: Request<Bytes>,
    ) -> Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'answer>>
    where
        'transport: 'answer,
        Self: 'answer,
    {
        let sent = self.runtime.spawn(self.clone().send_and_note(request));
        Box::pin(async move { sent.await? })
    }
}

/// Scheme, host and port: there may be a login before, and a key behind.
fn origin(uri: &Uri) -> String {
    let port = uri.port().map(|port| format!(":{port}")).unwrap_or_default();
    format!("{}://{}{port}", uri.scheme_str().unwrap_or("http"), uri.host().unwrap_or_default())
}

fn refused(status: StatusCode) -> String {
    let hint = match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => "; check OTEL_EXPORTER_OTLP_HEADERS",
        _ if status.is_redirection() => {
            ", which is not followed; check OTEL_EXPORTER_OTLP_ENDPOINT"
        }
        _ if status.is_client_error() => "; check OTEL_EXPORTER_OTLP_ENDPOINT",
        _ => "",
    };
    format!("answered {status}{hint}")
}
