//! Errors of requests to a cluster.

use std::path::PathBuf;
use std::time::Duration;

use kube::core::Status;

use crate::{JobFailure, JobName};

/// A request to the cluster, as permissions describe it.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Request {
    /// The verb: `create`.
    pub verb: &'static str,
    /// The resource: `jobs.batch`.
    pub resource: &'static str,
}

/// Errors of requests to a cluster. No message contains parts of a kubeconfig, a login or a proxy's URL.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// No cluster is configured.
    #[error("no cluster is known: {searched}, and this process is not in a pod")]
    NoCluster {
        /// The searched locations.
        searched: String,
        /// Whether `KUBECONFIG` is set.
        is_variable: bool,
    },
    /// A context is requested, but no kubeconfig exists.
    #[error("no context `{context}`: {searched}")]
    NoKubeconfig {
        /// The context.
        context: String,
        /// The searched locations.
        searched: String,
        /// Whether the pod's service account could be used instead.
        in_pod: bool,
    },
    /// The kubeconfig has no such context.
    #[error("the kubeconfig has no context `{context}`{}", list_contexts(known))]
    NoContext {
        /// The context.
        context: String,
        /// The contexts in the kubeconfig.
        known: Vec<String>,
    },
    /// A kubeconfig cannot be read.
    #[error("cannot read the kubeconfig `{}`", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        #[source]
        source: std::io::Error,
    },
    /// A kubeconfig cannot be parsed.
    #[error("cannot parse the kubeconfig `{}`: line {line}, column {column}", path.display())]
    Unparsable {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: u64,
        /// Counted from 1.
        column: u64,
    },
    /// A kubeconfig cannot be used.
    #[error("cannot use the kubeconfig{}", quoted_path(path.as_ref()))]
    Kubeconfig {
        /// The file, if the problem is in a single one.
        path: Option<PathBuf>,
        /// The library's error.
        #[source]
        source: Box<kube::config::KubeconfigError>,
    },
    /// The pod's own account cannot be used.
    #[error("cannot use the pod's service account")]
    Account(#[source] Box<kube::config::InClusterError>),
    /// The client could not be set up.
    #[error("cannot connect to the cluster at `{server}`")]
    Client {
        /// The API server.
        server: String,
        /// The library's error.
        #[source]
        source: Box<kube::Error>,
    },
    /// The login cannot be read or created.
    #[error("cannot log in to the cluster at `{server}`: {why}")]
    Login {
        /// The API server.
        server: String,
        /// The reason.
        why: String,
    },
    /// One side does not trust the other's certificate, or the server does not use TLS.
    #[error("cannot connect securely to the cluster at `{server}`: {why}")]
    Tls {
        /// The API server.
        server: String,
        /// OpenSSL's error.
        why: String,
    },
    /// The host name does not resolve.
    #[error("the cluster's host `{host}` is not known: {why}")]
    UnknownHost {
        /// The API server's host.
        host: String,
        /// The resolver's error.
        why: String,
    },
    /// The proxy requires a login.
    #[error("the proxy before the cluster at `{server}` asks for a login")]
    ProxyLogin {
        /// The API server.
        server: String,
    },
    /// The proxy's protocol is not supported.
    #[error("a proxy with `{scheme}://` is not supported")]
    ProxyProtocol {
        /// The scheme of the proxy's URL.
        scheme: String,
    },
    /// No response, or one that cannot be read.
    #[error("the cluster at `{server}` does not answer: {why}")]
    NoResponse {
        /// The API server.
        server: String,
        /// The error of the connection.
        why: String,
    },
    /// The login was rejected.
    #[error("the cluster at `{server}` does not accept the login: {message}")]
    Unauthorized {
        /// The API server.
        server: String,
        /// The cluster's message.
        message: String,
    },
    /// A permission is missing.
    #[error("no permission to `{}` `{}` in namespace `{namespace}`", request.verb, request.resource)]
    Forbidden {
        /// The request.
        request: Request,
        /// The namespace.
        namespace: String,
    },
    /// The cluster refuses the object because of a policy, a quota or an error in the object.
    #[error("the cluster refuses to `{}` `{}` in namespace `{namespace}`: {message}", request.verb, request.resource)]
    Refused {
        /// The request.
        request: Request,
        /// The namespace.
        namespace: String,
        /// The cluster's message.
        message: String,
    },
    /// A temporary server error, or overload.
    #[error("the cluster fails to `{}` `{}` in namespace `{namespace}`: {message}", request.verb, request.resource)]
    Failing {
        /// The request.
        request: Request,
        /// The namespace.
        namespace: String,
        /// The cluster's message.
        message: String,
        /// The value of `Retry-After`, if any.
        retry_after: Option<Duration>,
    },
    /// Objects that the run needs do not exist.
    #[error("the run would never begin: namespace `{namespace}` has no {}", what.join(", "))]
    MissingObjects {
        /// The namespace.
        namespace: String,
        /// The missing objects, each with its kind.
        what: Vec<String>,
    },
    /// A Job of the same name is still being deleted.
    #[error(
        "the Job `{name}` of an earlier start is still being deleted in namespace `{namespace}`"
    )]
    BeingDeleted {
        /// The Job.
        name: JobName,
        /// The namespace.
        namespace: String,
    },
    /// The object already exists.
    #[error("`{resource}` `{name}` is in namespace `{namespace}` already")]
    Exists {
        /// The resource, as permissions name it.
        resource: &'static str,
        /// The name, which is derived from the run's id.
        name: JobName,
        /// The namespace.
        namespace: String,
    },
    /// The Job does not exist.
    #[error("no Job `{name}` in namespace `{namespace}`")]
    NoJob {
        /// The Job.
        name: JobName,
        /// The namespace.
        namespace: String,
    },
    /// The run's log cannot be written to the terminal.
    #[error("cannot write the run's log")]
    Write(#[source] std::io::Error),
}

impl ClusterError {
    /// The error for an error response of the API server.
    pub(crate) fn from_status(
        status: &Status,
        request: Request,
        namespace: &str,
        server: &str,
        name: &JobName,
    ) -> Self {
        let namespace = namespace.to_owned();
        let message = status.message.clone();
        match status.code {
            401 => Self::Unauthorized { server: server.to_owned(), message },
            // A quota, an admission webhook and a missing permission are all "forbidden".
            403 if message.contains(&format!("cannot {} resource", request.verb)) => {
                Self::Forbidden { request, namespace }
            }
            404 if request.verb == "get" && request.resource == "jobs.batch" => {
                Self::NoJob { name: name.clone(), namespace }
            }
            409 if status.reason == "AlreadyExists" => {
                Self::Exists { resource: request.resource, name: name.clone(), namespace }
            }
            429 | 500.. => {
                let wait = status.details.as_ref().map_or(0, |it| it.retry_after_seconds);
                let wait = Duration::from_secs(wait.into());
                let retry_after = Some(wait).filter(|wait| !wait.is_zero());
                Self::Failing { request, namespace, message, retry_after }
            }
            _ => Self::Refused { request, namespace, message },
        }
    }

    /// Whether the outcome of the request is unknown: the object may have been created.
    #[must_use]
    pub const fn is_outcome_unknown(&self) -> bool {
        matches!(self, Self::NoResponse { .. } | Self::Failing { .. })
    }

    /// Whether only another configuration can help: no request was sent.
    #[must_use]
    pub const fn is_of_configuration(&self) -> bool {
        matches!(
            self,
            Self::NoCluster { .. }
                | Self::NoKubeconfig { .. }
                | Self::NoContext { .. }
                | Self::Unreadable { .. }
                | Self::Unparsable { .. }
                | Self::Kubeconfig { .. }
                | Self::Account(_)
                | Self::Client { .. }
                | Self::ProxyProtocol { .. }
        )
    }

    /// What has failed if a run cannot be started because of this error.
    #[must_use]
    pub fn failure(&self) -> JobFailure {
        match self {
            Self::NoResponse { .. }
            | Self::Failing { .. }
            | Self::UnknownHost { .. }
            | Self::BeingDeleted { .. } => JobFailure::Unreachable,
            Self::Refused { message, .. } if message.contains("exceeded quota") => {
                JobFailure::Quota
            }
            Self::Refused { .. } | Self::Exists { .. } | Self::NoJob { .. } => JobFailure::Refused,
            Self::MissingObjects { .. } => JobFailure::Setup,
            _ => JobFailure::Access,
        }
    }

    /// Whether the cluster itself answered and rejected the request.
    pub(crate) const fn is_rejection(&self) -> bool {
        matches!(
            self,
            Self::Unauthorized { .. }
                | Self::Forbidden { .. }
                | Self::Refused { .. }
                | Self::Exists { .. }
                | Self::NoJob { .. }
        )
    }

    /// Whether the error may be temporary if the cluster accepted the login before.
    pub(crate) const fn may_be_temporary(&self) -> bool {
        matches!(
            self,
            Self::Unauthorized { .. }
                | Self::Forbidden { .. }
                | Self::Refused { .. }
                | Self::Login { .. }
                | Self::Tls { .. }
                | Self::UnknownHost { .. }
                | Self::ProxyLogin { .. }
        )
    }

    /// The value of `Retry-After`, if any.
    pub(crate) const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Failing { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}

fn list_contexts(known: &[String]) -> String {
    let names: Vec<_> = known.iter().map(|name| format!("`{name}`")).collect();
    if names.is_empty() { String::new() } else { format!("; it has {}", names.join(", ")) }
}

fn quoted_path(path: Option<&PathBuf>) -> String {
    path.map(|path| format!(" `{}`", path.display())).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcome_is_unknown_after_server_errors_and_lost_responses() {
        let request = Request { verb: "create", resource: "jobs.batch" };
        let error_for = |code: u16| {
            let status = Status::failure("no", "Reason").with_code(code);
            ClusterError::from_status(&status, request, "runs", "server", &JobName::for_run("7"))
        };
        for (code, is_outcome_unknown) in
            [(401, false), (403, false), (404, false), (422, false), (429, true), (500, true)]
        {
            assert_eq!(error_for(code).is_outcome_unknown(), is_outcome_unknown, "{code}");
        }
        let lost = ClusterError::NoResponse { server: String::new(), why: String::new() };
        assert!(lost.is_outcome_unknown());
    }
}
