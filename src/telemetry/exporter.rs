//! The way to the collector: the exporters of OpenTelemetry over the one kind of HTTP client that
//! there is.

use std::fmt::Debug;
use std::path::PathBuf;
use std::pin::Pin;

use bytes::Bytes;
use http::{Request, Response};
use opentelemetry_http::{HttpClient, HttpError};
use tokio::runtime::Handle;

use crate::http::LazyClient;

/// An answer is a few bytes; more than this, in bytes, is none of a collector.
const LARGEST_ANSWER: usize = 1024 * 1024;

/// Sends what the exporters' own threads want to be sent on the runtime of the run.
#[derive(Clone, Debug)]
pub(super) struct Transport {
    client: LazyClient,
    runtime: Handle,
}

impl Transport {
    /// A transport on the runtime that this is called in.
    pub(super) fn new(ca_bundle: Option<PathBuf>) -> Self {
        Self { client: LazyClient::new(ca_bundle), runtime: Handle::current() }
    }

    async fn send(self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let mut answer = self.client.get()?.execute(request.try_into()?).await?;
        let mut response = Response::builder().status(answer.status());
        if let Some(headers) = response.headers_mut() {
            headers.clone_from(answer.headers());
        }
        let mut body = Vec::new();
        while let Some(chunk) = answer.chunk().await? {
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
        let sent = self.runtime.spawn(self.clone().send(request));
        Box::pin(async move { sent.await? })
    }
}
