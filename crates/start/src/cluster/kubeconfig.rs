//! Selects the cluster and the login: kubeconfig files as `kubectl` reads them, else the pod's account.
//!
//! Messages never quote a file's content: it contains tokens and keys.

use std::path::Path;

use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};

use super::access::{Access, Files};
use super::error::ClusterError;

/// How the cluster is spoken to. Starts no helper program.
///
/// # Errors
/// When nothing says which cluster, or what says so cannot be used.
pub(super) async fn config(access: &Access) -> Result<Config, ClusterError> {
    let Some(mut kubeconfig) = read(&access.kubeconfig)? else {
        return of_pod(access);
    };
    for user in &mut kubeconfig.auth_infos {
        if let Some(helper) = user.auth_info.as_mut().and_then(|login| login.exec.as_mut()) {
            helper.drop_env = Some(access.kept_back.clone());
        }
    }
    let own_proxy = own_proxy(&kubeconfig, access.context.as_ref())?;
    let known = kubeconfig.contexts.iter().map(|context| context.name.clone()).collect();
    let options =
        KubeConfigOptions { context: access.context.clone(), ..KubeConfigOptions::default() };
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    let mut config = config.map_err(|error| match error {
        KubeconfigError::LoadContext(context) => ClusterError::NoContext { context, known },
        error => unusable(None, error),
    })?;
    // The library asks NO_PROXY about the proxy, of which `kubectl` asks nothing, and not about the
    // server.
    config.proxy_url = own_proxy.or_else(|| access.proxies.before(&config.cluster_url));
    Ok(config)
}

/// The cluster that this process is in.
fn of_pod(access: &Access) -> Result<Config, ClusterError> {
    let searched = access.kubeconfig.missing();
    let is_variable = matches!(access.kubeconfig, Files::Variable(_));
    // A context is one of a file: the pod's own cluster is not what was asked for.
    if let Some(context) = access.context.clone() {
        return Err(ClusterError::NoKubeconfig { context, searched, in_pod: access.in_pod });
    }
    if !access.in_pod {
        return Err(ClusterError::Unknown { searched, is_variable });
    }
    if is_variable {
        tracing::warn!("{searched}: the pod's service account is used");
    }
    Config::incluster().map_err(|error| ClusterError::Account(Box::new(error)))
}

/// The proxy that the context's cluster names. `NO_PROXY` is not about it.
fn own_proxy(
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
    proxy.transpose().map_err(|error| unusable(None, KubeconfigError::ParseProxyUrl(error)))
}

/// All files as one; none where none of the usual ones is there, as with `kubectl`.
fn read(files: &Files) -> Result<Option<Kubeconfig>, ClusterError> {
    let mut merged: Option<Kubeconfig> = None;
    for path in files.there() {
        let named = |error| unusable(Some(path), error);
        let next = Kubeconfig::read_from(path).map_err(named)?;
        merged = Some(match merged {
            Some(merged) => merged.merge(next).map_err(named)?,
            None => next,
        });
    }
    Ok(merged)
}

/// Why a file is of no use. The library quotes the lines around what it cannot parse.
fn unusable(path: Option<&Path>, error: KubeconfigError) -> ClusterError {
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
