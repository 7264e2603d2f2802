//! Builds the HTTP clients, so that TLS, timeouts and identity are the same for all.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use reqwest::{RequestBuilder, Response};

use super::error::HttpError;
use super::observed::{Observed, Peer};
use super::tls;

/// The timeout for opening a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The time after which idle connections are closed. It is shorter than the registry's 5 s, because
/// a request on a connection that the registry is closing fails.
const IDLE_TIMEOUT: Duration = Duration::from_secs(4);

/// How a client handles a redirect.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Redirects {
    /// Follows it: release sites redirect downloads to other hosts.
    Follow,
    /// Returns the redirect as the response. A client that follows a redirect turns a POST into a GET
    /// without a body, and the status 200 of a sign-in page would count as a delivery.
    Refuse,
}

/// The clients for a server that receives secrets in some of its requests.
#[derive(Clone, Debug)]
pub struct Clients {
    /// Keeps its connections for the next request.
    pub kept: reqwest::Client,
    /// Opens a connection for each request and closes it, because the buffers of an idle connection
    /// still contain the last request and response.
    pub closed: reqwest::Client,
    /// The observer of their requests.
    pub observed: Observed,
}

/// Builds both clients with the settings of [`client`].
///
/// # Errors
/// The errors of [`client`].
pub fn clients(ca_bundle: Option<&Path>, redirects: Redirects) -> Result<Clients, HttpError> {
    let kept = client(ca_bundle, redirects)?;
    let closed = builder(ca_bundle, redirects)?.pool_max_idle_per_host(0).build();
    Ok(Clients { kept, closed: closed.map_err(HttpError::Build)?, observed: Observed::default() })
}

/// Builds a client that trusts the system's certificates and those in `ca_bundle` (PEM).
///
/// # Errors
/// If the bundle cannot be read or does not contain a certificate, or TLS cannot be set up.
pub fn client(
    ca_bundle: Option<&Path>,
    redirects: Redirects,
) -> Result<reqwest::Client, HttpError> {
    builder(ca_bundle, redirects)?.build().map_err(HttpError::Build)
}

/// The same client without proxies, for a server on this machine.
///
/// # Errors
/// The errors of [`client`].
pub fn direct_client(
    ca_bundle: Option<&Path>,
    redirects: Redirects,
) -> Result<reqwest::Client, HttpError> {
    builder(ca_bundle, redirects)?.no_proxy().build().map_err(HttpError::Build)
}

/// A client that is built when it is first used, because most commands do not send a request. It
/// does not follow redirects.
#[derive(Clone, Debug)]
pub struct LazyClient {
    made: Arc<OnceLock<reqwest::Client>>,
    ca_bundle: Option<PathBuf>,
    observed: Observed,
}

impl LazyClient {
    /// A client that trusts the system's certificates and those in `ca_bundle`.
    #[must_use]
    pub fn new(ca_bundle: Option<PathBuf>) -> Self {
        Self { made: Arc::default(), ca_bundle, observed: Observed::default() }
    }

    /// The same client with an observer of its requests.
    #[must_use]
    pub fn observed(self, observed: Observed) -> Self {
        Self { observed, ..self }
    }

    /// Sends a request for a release, which was built with [`Self::get`].
    ///
    /// # Errors
    /// The errors of `RequestBuilder::send`.
    pub async fn send(&self, request: RequestBuilder) -> reqwest::Result<Response> {
        self.observed.send(Peer::Releases, request).await
    }

    /// The client, which all clones of this value share.
    ///
    /// # Errors
    /// The errors of [`client`], on each call until one succeeds.
    pub fn get(&self) -> Result<&reqwest::Client, HttpError> {
        if let Some(client) = self.made.get() {
            return Ok(client);
        }
        let client = client(self.ca_bundle.as_deref(), Redirects::Refuse)?;
        Ok(self.made.get_or_init(|| client))
    }
}

fn builder(
    ca_bundle: Option<&Path>,
    redirects: Redirects,
) -> Result<reqwest::ClientBuilder, HttpError> {
    #[expect(clippy::disallowed_methods, reason = "the only place that builds clients")]
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
    fn lazy_client_is_created_once_at_its_first_use() {
        let lazy = LazyClient::new(Some("/does/not/exist.pem".into()));
        let error = lazy.get().unwrap_err();
        assert!(error.to_string().contains("/does/not/exist.pem"), "{error}");
        let lazy = LazyClient::new(None);
        assert!(std::ptr::eq(lazy.get().unwrap(), lazy.clone().get().unwrap()));
    }
}
