//! The client for a cluster: login, timeouts, and retries.
//!
//! A request without a definite answer is retried for a limited time, and the log says so once. Requests
//! that create an object add a unique mark to it, so that a retry recognizes the object.

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use kube::client::{Body, ClientBuilder};
use tower::filter::FilterLayer;

use super::absence::{Outage, Patience};
use super::access::Access;
use super::error::{ClusterError, Request};
use super::failure;
use super::kubeconfig;
use super::names::JobName;
use super::token_file::TokenFile;
use butler_base::error::chain;

/// Longer than an API server under load takes for an answer.
const ANSWER_LIMIT: Duration = Duration::from_mins(1);
/// A load balancer that is there answers sooner.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// A cluster and a namespace in it.
#[derive(Clone)]
pub struct Cluster {
    pub(super) client: Client,
    pub(super) server: String,
    pub(super) namespace: String,
    outage: Arc<Outage>,
}

impl Cluster {
    /// Finds the cluster and the login for it. Starts the login's helper program, where it has one;
    /// sends nothing.
    ///
    /// # Errors
    /// When no cluster is configured, or its configuration cannot be used.
    pub async fn connect(access: &Access, namespace: Option<&str>) -> Result<Self, ClusterError> {
        let mut config = kubeconfig::config(access).await?;
        config.connect_timeout = Some(CONNECT_LIMIT);
        // The library is silent about its own tries; those here are told.
        config.default_retry = false;
        let server = config.cluster_url.to_string().trim_end_matches('/').to_owned();
        let namespace = namespace.unwrap_or(&config.default_namespace).to_owned();
        let token = TokenFile::take(&mut config.auth_info).map_err(|problem| {
            ClusterError::Login { server: server.clone(), why: chain(&problem) }
        })?;
        let builder =
            ClientBuilder::try_from(config).map_err(|error| failure::of_set_up(error, &server))?;
        let client = match token {
            None => builder.build(),
            Some(file) => {
                let authorize = move |request: http::Request<Body>| {
                    Ok::<_, std::convert::Infallible>(file.authorize(request))
                };
                builder.with_layer(&FilterLayer::new(authorize)).build()
            }
        };
        Ok(Self::of(client, server, namespace))
    }

    /// The cluster at `server`, which `client` asks.
    pub(super) fn of(client: Client, server: String, namespace: String) -> Self {
        Self { client, server, namespace, outage: Arc::default() }
    }

    /// The namespace.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The answer to a request that can be sent again.
    pub(super) async fn ask<T, F>(
        &self,
        request: Request,
        name: &JobName,
        send: impl FnMut() -> F,
    ) -> Result<T, ClusterError>
    where
        F: Future<Output = kube::Result<T>>,
    {
        self.ask_for(&mut Patience::for_an_answer(), request, name, send).await
    }

    /// The same for as long as `patience` lasts.
    pub(super) async fn ask_for<T, F>(
        &self,
        patience: &mut Patience,
        request: Request,
        name: &JobName,
        mut send: impl FnMut() -> F,
    ) -> Result<T, ClusterError>
    where
        F: Future<Output = kube::Result<T>>,
    {
        loop {
            let answer = tokio::time::timeout(ANSWER_LIMIT, send()).await;
            let error = match answer {
                Ok(Ok(value)) => {
                    self.outage.end(request);
                    patience.reset();
                    return Ok(value);
                }
                Ok(Err(kube::Error::Api(status))) => {
                    ClusterError::answer(&status, request, &self.namespace, &self.server, name)
                }
                Ok(Err(error)) => failure::of(&error, &self.server),
                Err(_) => ClusterError::Silent {
                    server: self.server.clone(),
                    why: format!("no answer within {} s", ANSWER_LIMIT.as_secs()),
                },
            };
            let Some(pause) = patience.pause(&error) else {
                if error.is_answer() {
                    self.outage.end(request);
                }
                return Err(error);
            };
            self.outage.begin(request, &error, patience);
            tracing::debug!("`{} {}` again: {}", request.verb, request.resource, chain(&error));
            tokio::time::sleep(pause).await;
        }
    }
}
