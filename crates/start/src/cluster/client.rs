//! The way to a cluster: who asks, and what becomes of a request that fails.
//!
//! What fails without a decision is asked again for a while, which is said once; requests that create
//! something carry a mark by which they find what they made.

use std::sync::Arc;
use std::time::Duration;

use backon::ExponentialBuilder;
use hyper_util::client::proxy::matcher::Matcher;
use kube::Client;
use kube::client::{Body, ClientBuilder};
use tower::filter::FilterLayer;

use super::JobName;
use super::absence::{Outage, Patience};
use super::error::{ClusterError, Request};
use super::failure;
use super::kubeconfig::{self, Files};
use super::token_file::TokenFile;
use butler_base::error::chain;

/// Longer than an API server under load takes for an answer.
const ANSWER_LIMIT: Duration = Duration::from_mins(1);
/// A load balancer that is there answers sooner.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// Which cluster, as the settings say it.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// Files with contexts.
    pub kubeconfig: Files,
    /// The context; the current one where none is given.
    pub context: Option<String>,
    /// Whether this process is in a pod, whose account is used where there is no file.
    pub in_pod: bool,
    /// The proxy for everything but the hosts that are asked directly, where no context names one.
    pub proxies: Proxies,
    /// Variables that a login's helper program does not inherit: the runner's own, which are secret.
    pub kept_back: Vec<String>,
}

/// How this process gets out, as the environment says it.
#[derive(Clone, Default)]
pub struct Proxies {
    /// The proxy for HTTPS; may hold a login.
    pub https: Option<String>,
    /// Hosts that are asked directly.
    pub not_for: Option<String>,
}

/// Without the proxy, whose URL may hold a password.
impl std::fmt::Debug for Proxies {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Proxies").field("not_for", &self.not_for).finish_non_exhaustive()
    }
}

impl Proxies {
    /// The proxy that stands before `server`.
    pub(super) fn before(&self, server: &http::Uri) -> Option<http::Uri> {
        let proxy = self.https.as_ref()?;
        let matcher = Matcher::builder()
            .https(proxy.clone())
            .no(self.not_for.clone().unwrap_or_default())
            .build();
        matcher.intercept(server).and_then(|_| proxy.parse().ok())
    }
}

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
    /// When there is none, or what is said of it cannot be used.
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
                    patience.is_over();
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

/// When something is tried again: about half a minute in all.
pub(super) fn backoff() -> ExponentialBuilder {
    ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(250))
        .with_max_delay(Duration::from_secs(8))
        .with_max_times(7)
        .with_jitter()
}
