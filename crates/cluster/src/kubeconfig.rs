//! Selects the cluster and the login: kubeconfig files as `kubectl` reads them, else the pod's account.
//!
//! Messages never quote the content of a file, because it contains tokens and keys.

use std::path::Path;

use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};

use crate::access::{ClusterAccess, KubeconfigFiles};
use crate::error::ClusterError;

/// Reads the settings of the connection and the login. Does not start a helper program.
///
/// # Errors
/// If no cluster is configured, or the configuration cannot be used.
pub(crate) async fn load_config(access: &ClusterAccess) -> Result<Config, ClusterError> {
    let Some(mut kubeconfig) = read_kubeconfig(&access.kubeconfig)? else {
        return load_pod_config(access);
    };
    for user in &mut kubeconfig.auth_infos {
        if let Some(helper) = user.auth_info.as_mut().and_then(|login| login.exec.as_mut()) {
            helper.drop_env = Some(access.kept_back.clone());
        }
    }
    let context_proxy = context_proxy(&kubeconfig, access.context.as_ref())?;
    let known = kubeconfig.contexts.iter().map(|context| context.name.clone()).collect();
    let options =
        KubeConfigOptions { context: access.context.clone(), ..KubeConfigOptions::default() };
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    let mut config = config.map_err(|error| match error {
        KubeconfigError::LoadContext(context) => ClusterError::NoContext { context, known },
        error => kubeconfig_error(None, error),
    })?;
    // The library applies NO_PROXY to the proxy's host instead of the server's, unlike `kubectl`.
    config.proxy_url = context_proxy.or_else(|| access.proxies.for_server(&config.cluster_url));
    Ok(config)
}

/// The settings for the cluster in which this process runs.
fn load_pod_config(access: &ClusterAccess) -> Result<Config, ClusterError> {
    let searched = access.kubeconfig.missing_reason();
    let is_variable = matches!(access.kubeconfig, KubeconfigFiles::Variable(_));
    // A context is defined in a file, so the pod's own cluster is not the requested one.
    if let Some(context) = access.context.clone() {
        return Err(ClusterError::NoKubeconfig { context, searched, in_pod: access.in_pod });
    }
    if !access.in_pod {
        return Err(ClusterError::NoCluster { searched, is_variable });
    }
    if is_variable {
        tracing::warn!("{searched}: the pod's service account is used");
    }
    Config::incluster().map_err(|error| ClusterError::Account(Box::new(error)))
}

/// The proxy that the context's cluster names. `NO_PROXY` does not apply to it.
fn context_proxy(
    kubeconfig: &Kubeconfig,
    context: Option<&String>,
) -> Result<Option<http::Uri>, ClusterError> {
    let context = context.or(kubeconfig.current_context.as_ref());
    let mut contexts = kubeconfig.contexts.iter();
    let context = contexts.find(|named| Some(&named.name) == context);
    let cluster = context.and_then(|named| Some(&named.context.as_ref()?.cluster));
    let mut clusters = kubeconfig.clusters.iter();
    let cluster = clusters.find(|named| Some(&named.name) == cluster);
    let proxy = cluster.and_then(|named| named.cluster.as_ref()?.proxy_url.as_ref());
    let proxy = proxy.filter(|proxy| !proxy.is_empty()).map(|proxy| proxy.parse());
    proxy.transpose().map_err(|error| kubeconfig_error(None, KubeconfigError::ParseProxyUrl(error)))
}

/// Merges all files, as `kubectl` does; `None` if no file exists.
fn read_kubeconfig(files: &KubeconfigFiles) -> Result<Option<Kubeconfig>, ClusterError> {
    let mut merged: Option<Kubeconfig> = None;
    for path in files.existing() {
        let named = |error| kubeconfig_error(Some(path), error);
        let next = Kubeconfig::read_from(path).map_err(named)?;
        merged = Some(match merged {
            Some(merged) => merged.merge(next).map_err(named)?,
            None => next,
        });
    }
    Ok(merged)
}

/// The error for a file that cannot be used. The message of the library's parser is dropped, because it quotes
/// lines of the file.
fn kubeconfig_error(path: Option<&Path>, error: KubeconfigError) -> ClusterError {
    let path = path.map(Path::to_owned);
    match error {
        KubeconfigError::Parse(problem) => {
            let (line, column) = problem.location().map_or((1, 1), |at| (at.line(), at.column()));
            ClusterError::Unparsable { path: path.unwrap_or_default(), line, column }
        }
        KubeconfigError::ReadConfig(source, path) => ClusterError::Unreadable { path, source },
        error => ClusterError::Kubeconfig { path, source: Box::new(error) },
    }
}
