//! The one place that builds HTTP clients, so that TLS, timeouts and identity are the same for all.
//!
//! Reading the system's certificates takes longer than most of what the commands do: it is done when
//! the first server shows its own, and once for all clients of the process with the same bundle.

mod observed;
mod roots;
#[cfg(test)]
mod test_certificates;
mod tls;
mod verifier;

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use reqwest::header::{DATE, HeaderMap, HeaderName, RETRY_AFTER};
use reqwest::{RequestBuilder, Response};

pub use observed::{Asked, Exchange, Observed, Observer, Peer};
pub use tls::{check_bundle, has_system_certificates};

/// How long a connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Idle connections are dropped before the registry drops them: it closes keep-alive connections
/// after 5 s, and a request on one that is being closed would fail for nothing.
const IDLE_TIMEOUT: Duration = Duration::from_secs(4);

/// Why no HTTP client could be made.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// The CA bundle could not be read.
    #[error("cannot read the CA bundle `{}`", path.display())]
    ReadBundle {
        /// The file that `--ca-bundle` names.
        path: PathBuf,
        /// What the operating system said.
        #[source]
        source: std::io::Error,
    },
    /// The CA bundle holds no certificate.
    #[error("the CA bundle `{}` holds no PEM certificate", path.display())]
    EmptyBundle {
        /// The file that `--ca-bundle` names.
        path: PathBuf,
    },
    /// The TLS library refused its configuration.
    #[error("cannot set up TLS")]
    Tls(#[source] rustls::Error),
    /// The HTTP library refused its configuration.
    #[error("cannot set up the HTTP client")]
    Build(#[source] reqwest::Error),
}

impl crate::error::Advice for HttpError {
    fn advice(&self) -> Option<String> {
        Some("check --ca-bundle (BUTLER_CA_BUNDLE)".to_owned())
    }
}

/// What a client does when the answer is to ask elsewhere.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Redirects {
    /// Asks there: release sites hand downloads to other hosts.
    Follow,
    /// Hands the answer on. A redirected POST becomes a GET without its body, so that what was
    /// sent would be lost while a sign-in page says 200.
    Refuse,
}

/// The clients for a server that is told secrets beside much that is none.
#[derive(Clone, Debug)]
pub struct Clients {
    /// Keeps its connections for the next request.
    pub kept: reqwest::Client,
    /// Makes a connection for each request and closes it: the buffers of one that is kept would
    /// hold what was read and written last.
    pub closed: reqwest::Client,
    /// Who watches their requests.
    pub observed: Observed,
}

/// Both clients, made as [`client`] makes one.
///
/// # Errors
/// As [`client`] has them.
pub fn clients(ca_bundle: Option<&Path>, redirects: Redirects) -> Result<Clients, HttpError> {
    let kept = client(ca_bundle, redirects)?;
    let closed = builder(ca_bundle, redirects)?.pool_max_idle_per_host(0).build();
    Ok(Clients { kept, closed: closed.map_err(HttpError::Build)?, observed: Observed::default() })
}

/// A client that trusts the system's certificates and those in `ca_bundle` (PEM).
///
/// # Errors
/// When the bundle cannot be read or holds no certificate, or TLS cannot be set up.
pub fn client(
    ca_bundle: Option<&Path>,
    redirects: Redirects,
) -> Result<reqwest::Client, HttpError> {
    builder(ca_bundle, redirects)?.build().map_err(HttpError::Build)
}

/// A client that is made when the first request needs it, because most commands make none. It
/// follows no redirects.
#[derive(Clone, Debug)]
pub struct LazyClient {
    made: Arc<OnceLock<reqwest::Client>>,
    ca_bundle: Option<PathBuf>,
    observed: Observed,
}

impl LazyClient {
    /// What [`client`] would make now of `ca_bundle`.
    #[must_use]
    pub fn new(ca_bundle: Option<PathBuf>) -> Self {
        Self { made: Arc::default(), ca_bundle, observed: Observed::default() }
    }

    /// The same with somebody who watches its requests.
    #[must_use]
    pub fn observed(self, observed: Observed) -> Self {
        Self { observed, ..self }
    }

    /// Sends a request for a release, made with [`Self::get`].
    ///
    /// # Errors
    /// As `RequestBuilder::send` has them.
    pub async fn send(&self, request: RequestBuilder) -> reqwest::Result<Response> {
        self.observed.send(Peer::Releases, request).await
    }

    /// The client; all clones of this have the same.
    ///
    /// # Errors
    /// As [`client`] has them, each time until it succeeds.
    pub fn get(&self) -> Result<&reqwest::Client, HttpError> {
        if let Some(client) = self.made.get() {
            return Ok(client);
        }
        let client = client(self.ca_bundle.as_deref(), Redirects::Refuse)?;
        Ok(self.made.get_or_init(|| client))
    }
}

/// What `Retry-After` says, in seconds or as a date (RFC 9110, section 10.2.3).
pub fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let value = text(headers, RETRY_AFTER)?;
    let date = || httpdate::parse_http_date(value).ok();
    seconds(value).or_else(|| Some(date()?.duration_since(now(headers)).unwrap_or_default()))
}

/// What time it is for the server, whose clock counts: this machine's may be wrong.
pub fn now(headers: &HeaderMap) -> SystemTime {
    let date = text(headers, DATE).and_then(|date| httpdate::parse_http_date(date).ok());
    date.unwrap_or_else(SystemTime::now)
}

fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

/// What is longer than a clock can count is as long as it can.
#[must_use]
pub fn seconds(text: &str) -> Option<Duration> {
    let seconds: f64 = text.parse().ok().filter(|seconds: &f64| *seconds >= 0.0)?;
    Some(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
}

fn builder(
    ca_bundle: Option<&Path>,
    redirects: Redirects,
) -> Result<reqwest::ClientBuilder, HttpError> {
    #[expect(clippy::disallowed_methods, reason = "this is the one place")]
    let mut builder = reqwest::Client::builder()
        .user_agent(concat!("butler-runner/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT_TIMEOUT)
        .pool_idle_timeout(IDLE_TIMEOUT)
        .tls_backend_preconfigured(tls::config(ca_bundle)?);
    if redirects == Redirects::Refuse {
        builder = builder.redirect(reqwest::redirect::Policy::none());
    }
    Ok(builder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lazy_client_is_made_once_and_reads_nothing_before_it_is_needed() {
        let lazy = LazyClient::new(Some("/does/not/exist.pem".into()));
        let error = lazy.get().unwrap_err();
        assert!(error.to_string().contains("/does/not/exist.pem"), "{error}");
        let lazy = LazyClient::new(None);
        assert!(std::ptr::eq(lazy.get().unwrap(), lazy.clone().get().unwrap()));
    }
}
