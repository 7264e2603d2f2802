//! One request to a site: redirects, credentials and timeouts.
//!
//! The runner follows redirects itself instead of the HTTP library, because it must not send
//! credentials to another origin, and must not follow a redirect from https to http or to a file.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use reqwest::header::{CONTENT_ENCODING, HeaderMap, IF_RANGE, LOCATION, RANGE, RETRY_AFTER};
use reqwest::{RequestBuilder, Response, StatusCode};
use url::Url;

use super::error::{Asked, DownloadError};
use crate::tool::fetch::login::{Credentials, redacted, without_login};
use butler_base::http::{LazyClient, now, retry_after, seconds};

/// Sends requests for one product, with the login for its mirror if there is one.
pub(super) struct SiteClient<'a> {
    pub(super) http: &'a LazyClient,
    pub(super) credentials: Option<Credentials>,
    /// How long the site may send nothing.
    pub(super) silence: Duration,
}

/// How many redirects are followed.
pub(super) const MOST_REDIRECTS: usize = 10;

/// The rest of a file, of which the beginning is there.
pub(super) struct Rest<'a> {
    /// How much is there.
    pub(super) from: u64,
    /// What the site called the file then: it sends all of it if it is another one now.
    pub(super) validator: &'a str,
}

impl Rest<'_> {
    fn add_to(&self, request: RequestBuilder) -> RequestBuilder {
        request.header(RANGE, format!("bytes={}-", self.from)).header(IF_RANGE, self.validator)
    }
}

/// Asks for `url`, or for the rest of it, and follows redirects. An answer without the file is an
/// error, but for one to a range that cannot be satisfied.
pub(super) async fn ask(
    client: &SiteClient<'_>,
    url: &Url,
    rest: Option<Rest<'_>>,
) -> Result<Response, DownloadError> {
    let (at, response) = answer(client, url, rest.as_ref()).await?;
    let url = redacted(&at);
    match response.status() {
        StatusCode::RANGE_NOT_SATISFIABLE if rest.is_some() => Ok(response),
        status if status.is_success() => Ok(response),
        StatusCode::TOO_MANY_REQUESTS | StatusCode::FORBIDDEN if is_limited(&response) => {
            let (status, after) = (response.status(), rest_asked(response.headers()));
            Err(DownloadError::Limited { url, status, after })
        }
        StatusCode::NOT_FOUND => Err(DownloadError::NotFound { url }),
        status @ StatusCode::PROXY_AUTHENTICATION_REQUIRED => {
            Err(DownloadError::Proxy { url, status })
        }
        status @ (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => {
            let asked = match &client.credentials {
                Some(known) if known.origin == at.origin() => Asked::With(known.given.by.clone()),
                Some(_) => Asked::Elsewhere,
                None => Asked::Anonymously,
            };
            Err(DownloadError::Refused { url, status, asked: Box::new(asked) })
        }
        status => {
            let after = rest_asked(response.headers());
            Err(DownloadError::Status { url, status, after })
        }
    }
}

/// How many requests GitHub answers until its limit is reset.
const REMAINING: &str = "x-ratelimit-remaining";

/// When GitHub's limit is reset, in seconds since 1970.
const RESET: &str = "x-ratelimit-reset";

/// Whether a response refuses the request because of a rate limit, and not because of its login.
fn is_limited(response: &Response) -> bool {
    let headers = response.headers();
    response.status() == StatusCode::TOO_MANY_REQUESTS
        || headers.get(REMAINING).is_some_and(|left| left == "0")
        || headers.contains_key(RETRY_AFTER)
}

/// How long the site asks to wait before the next request.
fn rest_asked(headers: &HeaderMap) -> Option<Duration> {
    retry_after(headers).or_else(|| {
        headers.get(REMAINING).filter(|left| *left == "0")?;
        let reset = seconds(headers.get(RESET)?.to_str().ok()?)?;
        let reset = SystemTime::UNIX_EPOCH.checked_add(reset)?;
        Some(reset.duration_since(now(headers)).unwrap_or_default())
    })
}

/// Whether a file that begins with `start` is compressed although the request did not ask for it. The
/// header alone is not enough: some sites send it with an uncompressed file.
pub(super) fn is_packed(response: &Response, start: &[u8]) -> bool {
    let encoding = response.headers().get(CONTENT_ENCODING);
    encoding.is_some_and(|encoding| encoding == "gzip") && start.starts_with(b"\x1f\x8b")
}

/// The response, with any status, and the URL that the redirects led to.
pub(super) async fn answer(
    client: &SiteClient<'_>,
    url: &Url,
    rest: Option<&Rest<'_>>,
) -> Result<(Url, Response), DownloadError> {
    let http = client.http.get()?;
    let mut at = without_login(url);
    for _ in 0..=MOST_REDIRECTS {
        let mut request = http.get(at.clone());
        let known = client.credentials.as_ref().filter(|known| known.origin == at.origin());
        if let Some(credentials) = known {
            request = credentials.add_to(request);
        }
        if let Some(rest) = rest {
            request = rest.add_to(request);
        }
        let response = match speaking(&at, client.silence, client.http.send(request)).await? {
            Ok(response) => response,
            Err(source) => return Err(DownloadError::Request { url: redacted(&at), source }),
        };
        match location(&response) {
            Some(to) => at = follow(&at, &to)?,
            None => return Ok((at, response)),
        }
    }
    Err(DownloadError::Redirects { url: redacted(url) })
}

/// Where an answer leads.
fn location(response: &Response) -> Option<String> {
    matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308)
        .then(|| response.headers().get(LOCATION)?.to_str().ok().map(str::to_owned))?
}

fn follow(from: &Url, to: &str) -> Result<Url, DownloadError> {
    let refused = |to: String| DownloadError::Redirected { url: redacted(from), to: to.into() };
    let Ok(next) = from.join(to) else { return Err(refused("no URL".to_owned())) };
    match (from.scheme(), next.scheme()) {
        (_, "https") | ("http", "http") => Ok(without_login(&next)),
        _ => Err(refused(redacted(&next))),
    }
}

/// The next piece of an answer.
pub(super) async fn chunk(
    client: &SiteClient<'_>,
    url: &Url,
    response: &mut Response,
) -> Result<Result<Option<Bytes>, reqwest::Error>, DownloadError> {
    speaking(url, client.silence, response.chunk()).await
}

/// Waits for the site, for at most `silence`.
async fn speaking<T>(
    url: &Url,
    silence: Duration,
    answer: impl Future<Output = reqwest::Result<T>>,
) -> Result<Result<T, reqwest::Error>, DownloadError> {
    match tokio::time::timeout(silence, answer).await {
        Ok(answer) => Ok(answer.map_err(reqwest::Error::without_url)),
        Err(_) => Err(DownloadError::TimedOut { url: redacted(url), after: silence }),
    }
}
