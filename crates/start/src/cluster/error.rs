//! Errors of requests to a cluster.

use std::path::PathBuf;
use std::time::Duration;

use kube::core::Status;

use super::JobName;

/// What was asked of the cluster.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Request {
    /// As permissions name it: `create`.
    pub verb: &'static str,
    /// As permissions name it: `jobs.batch`.
    pub resource: &'static str,
}

/// Errors of requests to a cluster. No message contains parts of a kubeconfig, a login or a proxy's URL.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// Nothing says which cluster.
    #[error("no cluster is known: {searched}, and this process is not in a pod")]
    Unknown {
        /// Where it was looked for.
        searched: String,
        /// Whether KUBECONFIG said so.
        is_variable: bool,
    },
    /// A context is requested, but no kubeconfig exists.
    #[error("no context `{context}`: {searched}")]
    NoKubeconfig {
        /// The context.
        context: String,
        /// Where a kubeconfig was looked for.
        searched: String,
        /// Whether there is a pod's account that could be used instead.
        in_pod: bool,
    },
    /// The kubeconfig has no such context.
    #[error("the kubeconfig has no context `{context}`{}", others(known))]
    NoContext {
        /// The context.
        context: String,
        /// Those that it has.
        known: Vec<String>,
    },
    /// A kubeconfig cannot be read.
    #[error("cannot read the kubeconfig `{}`", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// A kubeconfig cannot be parsed.
    #[error("cannot parse the kubeconfig `{}`: line {line}, column {column}", path.display())]
    Unparsable {
        /// The file.
        path: PathBuf,
        /// Where, from 1.
        line: u64,
        /// Where, from 1.
        column: u64,
    },
    /// A kubeconfig cannot be used.
    #[error("cannot use the kubeconfig{}", place(path.as_ref()))]
    Kubeconfig {
        /// The file, where it is one.
        path: Option<PathBuf>,
        /// What is wrong with it.
        #[source]
        source: Box<kube::config::KubeconfigError>,
    },
    /// The pod's own account cannot be used.
    #[error("cannot use the pod's service account")]
    Account(#[source] Box<kube::config::InClusterError>),
    /// The client could not be set up.
    #[error("cannot connect to the cluster at `{server}`")]
    SetUp {
        /// The API server.
        server: String,
        /// What the library said.
        #[source]
        source: Box<kube::Error>,
    },
    /// The login cannot be read or created.
    #[error("cannot log in to the cluster at `{server}`: {why}")]
    Login {
        /// The API server.
        server: String,
        /// Why not.
        why: String,
    },
    /// One side does not trust the other's certificate, or the server does not use TLS.
    #[error("cannot connect securely to the cluster at `{server}`: {why}")]
    Tls {
        /// The API server.
        server: String,
        /// What OpenSSL said.
        why: String,
    },
    /// The host name does not resolve.
    #[error("the cluster's host `{host}` is not known: {why}")]
    UnknownHost {
        /// The API server's host.
        host: String,
        /// What the resolver said.
        why: String,
    },
    /// The proxy requires a login.
    #[error("the proxy before the cluster at `{server}` asks for a login")]
    ProxyLogin {
        /// The API server.
        server: String,
    },
    /// The proxy is of a kind that is not known here.
    #[error("a proxy with `{scheme}://` is not supported")]
    ProxyProtocol {
        /// Its URL's scheme.
        scheme: String,
    },
    /// No answer, or none that can be read.
    #[error("the cluster at `{server}` does not answer: {why}")]
    Silent {
        /// The API server.
        server: String,
        /// What happened to the connection.
        why: String,
    },
    /// The login was rejected.
    #[error("the cluster at `{server}` does not accept the login: {message}")]
    Unauthorized {
        /// The API server.
        server: String,
        /// What it said.
        message: String,
    },
    /// A permission is missing.
    #[error("no permission to `{}` `{}` in namespace `{namespace}`", request.verb, request.resource)]
    Forbidden {
        /// What was asked.
        request: Request,
        /// Where.
        namespace: String,
    },
    /// It refuses this object: a policy, a quota, a mistake in the object.
    #[error("the cluster refuses to `{}` `{}` in namespace `{namespace}`: {message}", request.verb, request.resource)]
    Refused {
        /// What was asked.
        request: Request,
        /// Where.
        namespace: String,
        /// What it said.
        message: String,
    },
    /// A temporary server error, or overload.
    #[error("the cluster fails to `{}` `{}` in namespace `{namespace}`: {message}", request.verb, request.resource)]
    Failing {
        /// What was asked.
        request: Request,
        /// Where.
        namespace: String,
        /// What it said.
        message: String,
        /// The value of `Retry-After`, if any.
        retry_after: Option<Duration>,
    },
    /// Objects that the run needs do not exist.
    #[error("the run would never begin: namespace `{namespace}` has no {}", what.join(", "))]
    Lacking {
        /// Where.
        namespace: String,
        /// What is missing, each with its kind.
        what: Vec<String>,
    },
    /// A Job of the same name is still being deleted.
    #[error(
        "the Job `{name}` of an earlier start is still being deleted in namespace `{namespace}`"
    )]
    Going {
        /// The Job.
        name: JobName,
        /// Where.
        namespace: String,
    },
    /// There is one already.
    #[error("`{resource}` `{name}` is in namespace `{namespace}` already")]
    Exists {
        /// What kind of object.
        resource: &'static str,
        /// Its name, which is the run's.
        name: JobName,
        /// Where.
        namespace: String,
    },
    /// The Job does not exist.
    #[error("no Job `{name}` in namespace `{namespace}`")]
    Missing {
        /// The Job.
        name: JobName,
        /// Where.
        namespace: String,
    },
    /// The lines of the run can be shown nowhere.
    #[error("cannot write the run's log")]
    Write(#[source] std::io::Error),
}

impl ClusterError {
    /// What an answer means.
    pub(super) fn answer(
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
                Self::Missing { name: name.clone(), namespace }
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
    pub const fn is_undecided(&self) -> bool {
        matches!(self, Self::Silent { .. } | Self::Failing { .. })
    }

    /// Whether the cluster itself has said so, and decided.
    pub(super) const fn is_answer(&self) -> bool {
        matches!(
            self,
            Self::Unauthorized { .. }
                | Self::Forbidden { .. }
                | Self::Refused { .. }
                | Self::Exists { .. }
                | Self::Missing { .. }
        )
    }

    /// Whether a cluster that has let us in before may say so for a moment only.
    pub(super) const fn may_pass(&self) -> bool {
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
    pub(super) const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Failing { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}

fn others(known: &[String]) -> String {
    let names: Vec<_> = known.iter().map(|name| format!("`{name}`")).collect();
    if names.is_empty() { String::new() } else { format!("; it has {}", names.join(", ")) }
}

fn place(path: Option<&PathBuf>) -> String {
    path.map(|path| format!(" `{}`", path.display())).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_answer_that_decides_says_that_nothing_was_started() {
        let request = Request { verb: "create", resource: "jobs.batch" };
        let answered = |code: u16| {
            let status = Status::failure("no", "Reason").with_code(code);
            ClusterError::answer(&status, request, "runs", "server", &JobName::of("7"))
        };
        for (code, is_undecided) in
            [(401, false), (403, false), (404, false), (422, false), (429, true), (500, true)]
        {
            assert_eq!(answered(code).is_undecided(), is_undecided, "{code}");
        }
        let lost = ClusterError::Silent { server: String::new(), why: String::new() };
        assert!(lost.is_undecided());
    }
}
