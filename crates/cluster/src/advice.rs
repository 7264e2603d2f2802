//! Hints for errors of a cluster.

use crate::error::{ClusterError, Request};
use butler_base::error::Advice;

impl Advice for ClusterError {
    fn advice(&self) -> Option<String> {
        Some(match self {
            Self::NoCluster { is_variable: true, .. } => {
                "correct KUBECONFIG, or name a file with --kubeconfig".to_owned()
            }
            Self::NoCluster { .. } => "set KUBECONFIG, or name a file with --kubeconfig".to_owned(),
            Self::NoKubeconfig { in_pod: true, .. } => {
                "name its file with --kubeconfig, or leave out --context to use the pod's service account".to_owned()
            }
            Self::NoKubeconfig { .. } => "name its file with --kubeconfig".to_owned(),
            Self::NoContext { .. } | Self::Unreadable { .. } | Self::Kubeconfig { .. } => {
                "check KUBECONFIG, --kubeconfig and --context".to_owned()
            }
            Self::Unparsable { path, .. } => format!(
                "`kubectl config view --kubeconfig {}` reads it without showing its secrets",
                path.display()
            ),
            Self::Tls { .. } => {
                "check `certificate-authority-data` of its entry in the kubeconfig, and the proxies between this machine and the cluster".to_owned()
            }
            Self::UnknownHost { .. } => {
                "check the server's address in the kubeconfig, and this machine's DNS".to_owned()
            }
            Self::ProxyLogin { .. } => {
                "put a user name and a password into the proxy's URL".to_owned()
            }
            Self::ProxyProtocol { .. } => "name a proxy with http:// or https://".to_owned(),
            Self::MissingObjects { .. } => {
                "create what is missing, or correct the option that names it".to_owned()
            }
            Self::Forbidden { request, namespace } => {
                let Request { verb, resource } = request;
                format!(
                    "ask an administrator to grant it: kubectl create role butler-runner --verb={verb} --resource={resource} -n {namespace}"
                )
            }
            Self::Unauthorized { .. } | Self::Login { .. } => {
                "log in again; `kubectl auth whoami` says who you are".to_owned()
            }
            Self::Exists { resource, name, namespace } => format!(
                "a run has one: look at it with `kubectl -n {namespace} describe {resource} {name}`, or delete it to start the run again"
            ),
            Self::NoResponse { server, .. } | Self::Client { server, .. } => {
                format!(
                    "check that `{server}` can be reached from here, its certificate, and HTTPS_PROXY"
                )
            }
            Self::BeingDeleted { name, namespace } => format!(
                "its run may be ending: try again when `kubectl -n {namespace} get job {name}` finds nothing"
            ),
            Self::Refused { message, .. }
                if message.starts_with("namespaces ") && message.contains("not found") =>
            {
                "create the namespace first, or name another with --namespace".to_owned()
            }
            _ => return None,
        })
    }
}
