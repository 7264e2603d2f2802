//! Requests that somebody watches: when each began, what came of it, and who asked for it.
//!
//! Where nobody watches, a request is sent as it is.

use std::sync::Arc;

use reqwest::header::{HeaderName, HeaderValue};
use reqwest::{Method, RequestBuilder, Response, Result};
use url::Url;

/// Whom a request goes to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Peer {
    /// The registry of the run.
    Registry,
    /// Where tools are downloaded.
    Releases,
}

/// A request before it is sent.
#[derive(Debug)]
pub struct Asked<'request> {
    /// Whom it goes to.
    pub peer: Peer,
    /// Its method.
    pub method: &'request Method,
    /// Its address; it may hold credentials.
    pub url: &'request Url,
    /// How long its body is, where that is known.
    pub length: Option<u64>,
}

/// Is told of requests. It must not wait.
pub trait Observer: Send + Sync + std::fmt::Debug {
    /// A request is about to be sent. What is returned is dropped with it where it is given up.
    fn begin(&self, asked: &Asked<'_>) -> Box<dyn Exchange>;
}

/// A request that goes on.
pub trait Exchange: Send {
    /// A header that says what the request is part of.
    fn header(&self) -> Option<(HeaderName, HeaderValue)>;
    /// It was answered, or was not.
    fn ended(self: Box<Self>, answer: &Result<Response>);
}

/// Who watches, if anybody does.
#[derive(Clone, Debug, Default)]
pub struct Observed(Option<Arc<dyn Observer>>);

impl Observed {
    /// Somebody does.
    #[must_use]
    pub fn by(observer: Arc<dyn Observer>) -> Self {
        Self(Some(observer))
    }

    /// Sends a request to `peer`.
    ///
    /// # Errors
    /// As `RequestBuilder::send` has them.
    pub async fn send(&self, peer: Peer, request: RequestBuilder) -> Result<Response> {
        match &self.0 {
            // In a box, so that those whom nobody watches do not make room for it.
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
    // Nobody else is told of what this is part of.
    if peer == Peer::Registry
        && let Some((name, value)) = exchange.header()
    {
        request.headers_mut().insert(name, value);
    }
    let answer = client.execute(request).await;
    exchange.ended(&answer);
    answer
}
