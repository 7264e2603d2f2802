//! Notifies an observer when a request begins and ends.
//!
//! If there is no observer, requests are sent unchanged.

use std::sync::Arc;

use reqwest::header::{HeaderName, HeaderValue};
use reqwest::{Method, RequestBuilder, Response, Result};
use url::Url;

/// The destination of a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Peer {
    /// The registry of the run.
    Registry,
    /// The sites from which tools are downloaded.
    Releases,
}

/// A request before it is sent.
#[derive(Debug)]
pub struct OutgoingRequest<'request> {
    /// The server that receives it.
    pub peer: Peer,
    /// The HTTP method.
    pub method: &'request Method,
    /// The URL; it may contain credentials.
    pub url: &'request Url,
    /// The length of its body, if it is known.
    pub length: Option<u64>,
}

/// Is notified of requests. It must not block.
pub trait Observer: Send + Sync + std::fmt::Debug {
    /// Is called before a request is sent. If the request is cancelled, the result is dropped
    /// without a call of [`Exchange::ended`].
    fn begin(&self, request: &OutgoingRequest<'_>) -> Box<dyn Exchange>;
}

/// A request in progress.
pub trait Exchange: Send {
    /// The header that identifies the trace of the request; only the registry receives it.
    fn header(&self) -> Option<(HeaderName, HeaderValue)>;
    /// Is called when the response has arrived, or the request has failed.
    fn ended(self: Box<Self>, answer: &Result<Response>);
}

/// The observer, if there is one.
#[derive(Clone, Debug, Default)]
pub struct Observed(Option<Arc<dyn Observer>>);

impl Observed {
    /// Notifies `observer` of all requests that are sent with the result.
    #[must_use]
    pub fn by(observer: Arc<dyn Observer>) -> Self {
        Self(Some(observer))
    }

    /// Sends a request to `peer`.
    ///
    /// # Errors
    /// The errors of `RequestBuilder::send`.
    pub async fn send(&self, peer: Peer, request: RequestBuilder) -> Result<Response> {
        match &self.0 {
            // The box keeps the future small for requests without an observer.
            Some(observer) => Box::pin(watched(observer.as_ref(), peer, request)).await,
            None => request.send().await,
        }
    }
}

async fn watched(observer: &dyn Observer, peer: Peer, request: RequestBuilder) -> Result<Response> {
    let (client, request) = request.build_split();
    let mut request = request?;
    let length = request.headers().get(reqwest::header::CONTENT_LENGTH);
    let length = length.and_then(|length| length.to_str().ok()?.parse().ok());
    let (method, url) = (request.method(), request.url());
    let exchange = observer.begin(&OutgoingRequest { peer, method, url, length });
    // Only the registry receives the trace header.
    if peer == Peer::Registry
        && let Some((name, value)) = exchange.header()
    {
        request.headers_mut().insert(name, value);
    }
    let answer = client.execute(request).await;
    exchange.ended(&answer);
    answer
}
