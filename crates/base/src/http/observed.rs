//! Notifies an observer of requests: their begin, their outcome, and their destination.
//!
//! Without an observer, a request is sent unchanged.

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
pub struct Asked<'request> {
    /// The destination.
    pub peer: Peer,
    /// Its method.
    pub method: &'request Method,
    /// The URL; it may contain credentials.
    pub url: &'request Url,
    /// The length of its body, if it is known.
    pub length: Option<u64>,
}

/// Is notified of requests. It must not block.
pub trait Observer: Send + Sync + std::fmt::Debug {
    /// Is called before a request is sent. The result is dropped with a cancelled request.
    fn begin(&self, asked: &Asked<'_>) -> Box<dyn Exchange>;
}

/// A request in progress.
pub trait Exchange: Send {
    /// A header that identifies the trace of the request.
    fn header(&self) -> Option<(HeaderName, HeaderValue)>;
    /// The request was answered, or it failed.
    fn ended(self: Box<Self>, answer: &Result<Response>);
}

/// The observer, if there is one.
#[derive(Clone, Debug, Default)]
pub struct Observed(Option<Arc<dyn Observer>>);

impl Observed {
    /// Requests with an observer.
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
            // Boxed, so that requests without an observer do not reserve space for it.
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
    let exchange = observer.begin(&Asked { peer, method, url, length });
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
