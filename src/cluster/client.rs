//! The way to a cluster: which one, who asks, and what becomes of a request that fails.
//!
//! Answers that say "later" (429, 503, 504) are waited for by the library, as long as they say. What
//! fails otherwise without a decision is asked again here; requests that create something carry a mark
//! by which they find what they made.

use std::path::PathBuf;
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};
use hyper_util::client::proxy::matcher::Matcher;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use super::JobName;
use super::error::{ClusterError, Request};

/// Longer than an API server under load takes for an answer.
const ANSWER_LIMIT: Duration = Duration::from_mins(1);
/// A load balancer that is there answers sooner.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// Where clusters are described.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Files {
    /// In this one and no other, which has to be there.
    Named(PathBuf),
    /// In those of these that are there, merged as `kubectl` merges them.
    Usual(Vec<PathBuf>),
}

impl Default for Files {
    fn default() -> Self {
        Self::Usual(Vec::new())
    }
}

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
    fn before(&self, server: &http::Uri) -> Option<http::Uri> {
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
}

impl Cluster {
    /// Finds the cluster and the login for it. Starts the login's helper program, where it has one;
    /// sends nothing.
    ///
    /// # Errors
    /// When there is none, or what is said of it cannot be used.
    pub async fn connect(access: &Access, namespace: Option<&str>) -> Result<Self, ClusterError> {
        let mut config = config(access).await?;
        config.connect_timeout = Some(CONNECT_LIMIT);
        let server = config.cluster_url.to_string().trim_end_matches('/').to_owned();
        let namespace = namespace.unwrap_or(&config.default_namespace).to_owned();
        let set_up =
            |source| ClusterError::SetUp { server: server.clone(), source: Box::new(source) };
        let client = Client::try_from(config).map_err(set_up)?;
        Ok(Self { client, server, namespace })
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
        mut send: impl FnMut() -> F,
    ) -> Result<T, ClusterError>
    where
        F: Future<Output = kube::Result<T>>,
    {
        let mut pauses = patience().build();
        loop {
            let answer = tokio::time::timeout(ANSWER_LIMIT, send()).await;
            let error = match answer {
                Ok(Ok(value)) => return Ok(value),
                Ok(Err(error)) => Some(error),
                Err(_) => None,
            };
            let decided = matches!(&error, Some(kube::Error::Api(status)) if status.code < 500);
            match (decided, pauses.next()) {
                (false, Some(pause)) => {
                    tracing::debug!(?error, "the cluster is asked again");
                    tokio::time::sleep(pause).await;
                }
                _ => return Err(self.failure(error, request, name)),
            }
        }
    }

    fn failure(
        &self,
        error: Option<kube::Error>,
        request: Request,
        name: &JobName,
    ) -> ClusterError {
        match error {
            Some(kube::Error::Api(status)) => {
                ClusterError::answer(&status, request, &self.namespace, &self.server, name)
            }
            source => ClusterError::Silent {
                server: self.server.clone(),
                request,
                source: source.map(Box::new),
            },
        }
    }
}

/// How often and when something is tried again: about half a minute in all.
pub(super) fn patience() -> ExponentialBuilder {
    ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(250))
        .with_max_delay(Duration::from_secs(8))
        .with_max_times(7)
        .with_jitter()
}

async fn config(access: &Access) -> Result<Config, ClusterError> {
    let Some(mut kubeconfig) = kubeconfig(access)? else {
        // A context is one of a file: the pod's own cluster is not what was asked for.
        if !access.in_pod || access.context.is_some() {
            return Err(ClusterError::Unknown);
        }
        return Config::incluster().map_err(|error| ClusterError::Account(Box::new(error)));
    };
    for user in &mut kubeconfig.auth_infos {
        if let Some(helper) = user.auth_info.as_mut().and_then(|login| login.exec.as_mut()) {
            helper.drop_env = Some(access.kept_back.clone());
        }
    }
    let own_proxy = names_proxy(&kubeconfig, access.context.as_ref());
    let options =
        KubeConfigOptions { context: access.context.clone(), ..KubeConfigOptions::default() };
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    let mut config = config.map_err(|error| unusable(None, error))?;
    if !own_proxy {
        // The library asks NO_PROXY about the proxy and not about the server.
        config.proxy_url = access.proxies.before(&config.cluster_url);
    }
    Ok(config)
}

/// Whether the context's cluster has a proxy of its own.
fn names_proxy(kubeconfig: &Kubeconfig, context: Option<&String>) -> bool {
    let context = context.or(kubeconfig.current_context.as_ref());
    let mut contexts = kubeconfig.contexts.iter();
    let context = contexts.find(|named| Some(&named.name) == context);
    let cluster = context.and_then(|named| Some(&named.context.as_ref()?.cluster));
    let mut clusters = kubeconfig.clusters.iter();
    let cluster = clusters.find(|named| Some(&named.name) == cluster);
    cluster.and_then(|named| named.cluster.as_ref()?.proxy_url.as_ref()).is_some()
}

/// All files as one; none where none of the usual ones is there, as with `kubectl`.
fn kubeconfig(access: &Access) -> Result<Option<Kubeconfig>, ClusterError> {
    let files: Vec<_> = match &access.kubeconfig {
        Files::Named(path) => vec![path],
        Files::Usual(paths) => paths.iter().filter(|path| path.exists()).collect(),
    };
    let mut merged: Option<Kubeconfig> = None;
    for path in files {
        let named = |error| unusable(Some(path.clone()), error);
        let next = Kubeconfig::read_from(path).map_err(named)?;
        merged = Some(match merged {
            Some(merged) => merged.merge(next).map_err(named)?,
            None => next,
        });
    }
    Ok(merged)
}

fn unusable(path: Option<PathBuf>, error: kube::config::KubeconfigError) -> ClusterError {
    ClusterError::Kubeconfig { path, source: Box::new(error) }
}
