//! Sends the requests of the OpenTelemetry exporters with the runner's HTTP client.

use std::fmt::Debug;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode, Uri};
use opentelemetry_http::{HttpClient, HttpError};
use tokio::runtime::Handle;

use butler_base::error::chain;
use butler_base::http::LazyClient;

/// The default for `OTEL_SERVICE_NAME`.
pub(super) const SERVICE: &str = "butler-runner";

/// How long a request may take: the default of OpenTelemetry (`OTEL_EXPORTER_OTLP_TIMEOUT`).
const ANSWER: Duration = Duration::from_secs(10);

/// The largest accepted response, in bytes. Collectors send a few bytes.
const MAX_RESPONSE: usize = 1024 * 1024;

/// Runs the requests of the exporters' threads on the runtime of the run.
#[derive(Clone, Debug)]
pub(super) struct Transport {
    client: LazyClient,
    runtime: Handle,
    status: Arc<Mutex<ExportStatus>>,
}

/// The collector and the last error.
#[derive(Debug, Default)]
struct ExportStatus {
    /// The origin of the last request.
    origin: Option<String>,
    /// The last error of a request, with advice.
    error: Option<String>,
}

impl Transport {
    /// A transport on the current runtime.
    pub(super) fn new(ca_bundle: Option<PathBuf>) -> Self {
        Self {
            client: LazyClient::new(ca_bundle),
            runtime: Handle::current(),
            status: Arc::default(),
        }
    }

    /// The origin of the collector; `None` before the first request.
    pub(super) fn origin(&self) -> Option<String> {
        self.status().origin.clone()
    }

    /// The last error of a request, with advice.
    pub(super) fn last_error(&self) -> Option<String> {
        self.status().error.clone()
    }

    fn status(&self) -> MutexGuard<'_, ExportStatus> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn send_and_record(self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let origin = origin(request.uri());
        self.status().origin = Some(origin.clone());
        let answer = tokio::time::timeout(ANSWER, self.clone().send(request)).await;
        let late = |_| Err(format!("no answer within {} s", ANSWER.as_secs()).into());
        let answer = answer.unwrap_or_else(late);
        let problem = match &answer {
            Ok(answer) if answer.status().is_success() => None,
            Ok(answer) => Some(describe_refusal(answer.status())),
            Err(error) => Some(format!(
                "cannot be asked: {}; check OTEL_EXPORTER_OTLP_ENDPOINT",
                chain(error.as_ref())
            )),
        };
        if let Some(problem) = problem {
            self.status().error = Some(format!("`{origin}` {problem}"));
        }
        answer
    }

    async fn send(self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let client = self.client.get()?;
        // The query of the URL may contain a key, so errors must not show it.
        let sent = client.execute(request.try_into()?).await;
        let mut answer = sent.map_err(reqwest::Error::without_url)?;
        let mut response = Response::builder().status(answer.status());
        if let Some(headers) = response.headers_mut() {
            headers.clone_from(answer.headers());
        }
        let mut body = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(reqwest::Error::without_url)? {
            if body.len() + chunk.len() > MAX_RESPONSE {
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
        let sent = self.runtime.spawn(self.clone().send_and_record(request));
        Box::pin(async move { sent.await? })
    }
}

/// Scheme, host and port, without a login or a query, which may be secret.
fn origin(uri: &Uri) -> String {
    let port = uri.port().map(|port| format!(":{port}")).unwrap_or_default();
    format!("{}://{}{port}", uri.scheme_str().unwrap_or("http"), uri.host().unwrap_or_default())
}

fn describe_refusal(status: StatusCode) -> String {
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
