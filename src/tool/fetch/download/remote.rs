//! One request to a site: redirects, credentials and timeouts.
//!
//! The runner follows redirects itself instead of the HTTP library, because it must not send
//! credentials to another origin, and must not follow a redirect from https to http or to a file.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use reqwest::header::{CONTENT_ENCODING, HeaderMap, IF_RANGE, LOCATION, RANGE, RETRY_AFTER};
use reqwest::{RequestBuilder, Response, StatusCode};
use url::Url;

use super::error::{DownloadError, SentLogin};
use crate::tool::fetch::login::{Credentials, redacted, without_login};
use butler_base::http::{LazyClient, now, retry_after, seconds};

/// Sends requests for one product, with the login for its mirror if there is one.
pub(super) struct SiteClient<'a> {
    pub(super) http: &'a LazyClient,
    pub(super) credentials: Option<Credentials>,
    /// The longest time without data from the site.
    pub(super) idle_timeout: Duration,
}

/// How many redirects are followed.
pub(super) const MOST_REDIRECTS: usize = 10;

/// The missing end of a file.
pub(super) struct MissingRange<'a> {
    /// How many bytes were received.
    pub(super) from: u64,
    /// The tag or time of the file in the earlier response. If it differs now, the site sends all of
    /// the file.
    pub(super) validator: &'a str,
}

impl MissingRange<'_> {
    fn add_to(&self, request: RequestBuilder) -> RequestBuilder {
        request.header(RANGE, format!("bytes={}-", self.from)).header(IF_RANGE, self.validator)
    }
}

/// Requests `url`, or the rest of it, and follows redirects. A response without the file is an error,
/// except if the range cannot be satisfied.
pub(super) async fn request_file(
    client: &SiteClient<'_>,
    url: &Url,
    rest: Option<MissingRange<'_>>,
) -> Result<Response, DownloadError> {
    let (at, response) = request_following_redirects(client, url, rest.as_ref()).await?;
    let url = redacted(&at);
    match response.status() {
        StatusCode::RANGE_NOT_SATISFIABLE if rest.is_some() => Ok(response),
        status if status.is_success() => Ok(response),
        StatusCode::TOO_MANY_REQUESTS | StatusCode::FORBIDDEN if is_limited(&response) => {
            let (status, after) = (response.status(), retry_delay(response.headers()));
            Err(DownloadError::Limited { url, status, after })
        }
        StatusCode::NOT_FOUND => Err(DownloadError::NotFound { url }),
        status @ StatusCode::PROXY_AUTHENTICATION_REQUIRED => {
            Err(DownloadError::Proxy { url, status })
        }
        status @ (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => {
            let login = match &client.credentials {
                Some(known) if known.origin == at.origin() => {
                    SentLogin::From(known.given.by.clone())
                }
                Some(_) => SentLogin::NotAfterRedirect,
                None => SentLogin::Unknown,
            };
            Err(DownloadError::Refused { url, status, login: Box::new(login) })
        }
        status => {
            let after = retry_delay(response.headers());
            Err(DownloadError::Status { url, status, after })
        }
    }
}

/// The number of requests that GitHub accepts until it resets its limit.
const REMAINING: &str = "x-ratelimit-remaining";

/// The time when GitHub resets its limit, in seconds since 1970.
const RESET: &str = "x-ratelimit-reset";

/// Whether a response refuses the request because of a rate limit, and not because of its login.
fn is_limited(response: &Response) -> bool {
    let headers = response.headers();
    response.status() == StatusCode::TOO_MANY_REQUESTS
        || headers.get(REMAINING).is_some_and(|left| left == "0")
        || headers.contains_key(RETRY_AFTER)
}

/// The time that the site sets until the next request.
fn retry_delay(headers: &HeaderMap) -> Option<Duration> {
    retry_after(headers).or_else(|| {
        headers.get(REMAINING).filter(|left| *left == "0")?;
        let reset = seconds(headers.get(RESET)?.to_str().ok()?)?;
        let reset = SystemTime::UNIX_EPOCH.checked_add(reset)?;
        Some(reset.duration_since(now(headers)).unwrap_or_default())
    })
}

/// Whether a file that begins with `start` is compressed although the request did not ask for it. The
/// header alone is not enough: some sites send it with an uncompressed file.
pub(super) fn is_compressed(response: &Response, start: &[u8]) -> bool {
    let encoding = response.headers().get(CONTENT_ENCODING);
    encoding.is_some_and(|encoding| encoding == "gzip") && start.starts_with(b"\x1f\x8b")
}

/// The response, with any status, and the URL that the redirects led to.
pub(super) async fn request_following_redirects(
    client: &SiteClient<'_>,
    url: &Url,
    rest: Option<&MissingRange<'_>>,
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
        let response =
            match with_idle_timeout(&at, client.idle_timeout, client.http.send(request)).await? {
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

/// The target of a redirect.
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

/// The next chunk of the body.
pub(super) async fn next_chunk(
    client: &SiteClient<'_>,
    url: &Url,
    response: &mut Response,
) -> Result<Result<Option<Bytes>, reqwest::Error>, DownloadError> {
    with_idle_timeout(url, client.idle_timeout, response.chunk()).await
}

/// Fails if `response` takes longer than `idle_timeout`.
async fn with_idle_timeout<T>(
    url: &Url,
    idle_timeout: Duration,
    response: impl Future<Output = reqwest::Result<T>>,
) -> Result<Result<T, reqwest::Error>, DownloadError> {
    match tokio::time::timeout(idle_timeout, response).await {
        Ok(response) => Ok(response.map_err(reqwest::Error::without_url)),
        Err(_) => Err(DownloadError::TimedOut { url: redacted(url), after: idle_timeout }),
    }
}
