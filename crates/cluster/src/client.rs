//! The client for a cluster: login, timeouts, and retries.
//!
//! A request without a definite answer is retried for a limited time, and logged once. Requests
//! that create an object add a unique mark to it, so that a retry recognizes the object.

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use kube::client::{Body, ClientBuilder};
use tower::filter::FilterLayer;
use tower::util::MapResponseLayer;

use crate::access::ClusterAccess;
use crate::classify;
use crate::error::{ClusterError, Request};
use crate::kubeconfig;
use crate::names::JobName;
use crate::outage::{Outage, OutageRetries};
use crate::retry_after::RetryAfter;
use crate::token_file::TokenFile;
use butler_base::error::chain;

/// How long the API server may send nothing. It ends a watch after 290 seconds without an event.
const SILENCE: Duration = Duration::from_secs(295);
/// The timeout of one attempt: longer than an API server under load needs.
const REQUEST_TIMEOUT: Duration = Duration::from_mins(1);
/// The timeout of a connection: longer than a working load balancer needs.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A cluster and a namespace in it.
#[derive(Clone)]
pub struct Cluster {
    pub(crate) client: Client,
    pub(crate) server: String,
    pub(crate) namespace: String,
    pub(crate) retry_after: RetryAfter,
    outage: Arc<Outage>,
}

impl Cluster {
    /// Selects the cluster and the login. Starts the login's helper program if it has one; does not send a
    /// request.
    ///
    /// # Errors
    /// If no cluster is configured, or its configuration cannot be used.
    pub async fn connect(
        access: &ClusterAccess,
        namespace: Option<&str>,
    ) -> Result<Self, ClusterError> {
        let mut config = kubeconfig::load_config(access).await?;
        config.connect_timeout = Some(CONNECT_TIMEOUT);
        config.read_timeout = Some(SILENCE);
        // The library does not log its retries; `send_with` does.
        config.default_retry = false;
        let server = config.cluster_url.to_string().trim_end_matches('/').to_owned();
        let namespace = namespace.unwrap_or(&config.default_namespace).to_owned();
        let token = TokenFile::take(&mut config.auth_info).map_err(|problem| {
            ClusterError::Login { server: server.clone(), why: chain(&problem) }
        })?;
        let builder = ClientBuilder::try_from(config)
            .map_err(|error| classify::classify_setup_error(error, &server))?;
        let retry_after = RetryAfter::default();
        let noted = retry_after.clone();
        let builder =
            builder.with_layer(&MapResponseLayer::new(move |response: http::Response<_>| {
                noted.note(&response);
                response
            }));
        let client = match token {
            None => builder.build(),
            Some(file) => {
                let authorize = move |request: http::Request<Body>| {
                    Ok::<_, std::convert::Infallible>(file.authorize(request))
                };
                builder.with_layer(&FilterLayer::new(authorize)).build()
            }
        };
        Ok(Self { retry_after, ..Self::from_client(client, server, namespace) })
    }

    /// The cluster at `server`, to which `client` sends requests.
    pub(crate) fn from_client(client: Client, server: String, namespace: String) -> Self {
        let (retry_after, outage) = (RetryAfter::default(), Arc::default());
        Self { client, server, namespace, retry_after, outage }
    }

    /// The address of the API server.
    #[must_use]
    pub fn server(&self) -> &str {
        &self.server
    }

    /// The namespace of the run.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Sends a request that can be repeated; retries it as a single request.
    pub(crate) async fn send<T, F>(
        &self,
        request: Request,
        name: &JobName,
        send: impl FnMut() -> F,
    ) -> Result<T, ClusterError>
    where
        F: Future<Output = kube::Result<T>>,
    {
        self.send_with(&mut OutageRetries::for_request(), request, name, send).await
    }

    /// Sends a request that can be repeated; retries it as long as `patience` allows.
    pub(crate) async fn send_with<T, F>(
        &self,
        retries: &mut OutageRetries,
        request: Request,
        name: &JobName,
        mut send: impl FnMut() -> F,
    ) -> Result<T, ClusterError>
    where
        F: Future<Output = kube::Result<T>>,
    {
        loop {
            let answer = tokio::time::timeout(REQUEST_TIMEOUT, send()).await;
            let error = match answer {
                Ok(Ok(value)) => {
                    self.outage.end(request);
                    retries.reset();
                    return Ok(value);
                }
                Ok(Err(kube::Error::Api(status))) => {
                    ClusterError::from_status(&status, request, &self.namespace, &self.server, name)
                }
                Ok(Err(error)) => classify::classify_request_error(&error, &self.server),
                Err(_) => ClusterError::NoResponse {
                    server: self.server.clone(),
                    why: format!("no answer within {} s", REQUEST_TIMEOUT.as_secs()),
                },
            };
            let Some(pause) = retries.pause(&error, self.retry_after.left()) else {
                if error.is_rejection() {
                    self.outage.end(request);
                }
                return Err(error);
            };
            self.outage.begin(request, &error, retries);
            tracing::debug!("`{} {}` again: {}", request.verb, request.resource, chain(&error));
            tokio::time::sleep(pause).await;
        }
    }
}
