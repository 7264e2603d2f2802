//! Why the cluster was of no use, and what to do about it.

use std::path::PathBuf;

use kube::core::Status;

use super::JobName;
use crate::error::Advice;

/// What was asked of the cluster.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Request {
    /// As permissions name it: `create`.
    pub verb: &'static str,
    /// As permissions name it: `jobs.batch`.
    pub resource: &'static str,
}

/// Why the cluster was of no use.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// Nothing says which cluster.
    #[error("no cluster is known: there is neither a kubeconfig nor a pod's service account")]
    Unknown,
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
    /// The login or TLS could not be set up.
    #[error("cannot connect to the cluster at `{server}`")]
    SetUp {
        /// The API server.
        server: String,
        /// What the library said.
        #[source]
        source: Box<kube::Error>,
    },
    /// No answer, or none that can be read.
    #[error("the cluster at `{server}` does not answer to `{} {}`", request.verb, request.resource)]
    Silent {
        /// The API server.
        server: String,
        /// What it was asked.
        request: Request,
        /// What the library said; none where it only took too long.
        #[source]
        source: Option<Box<kube::Error>>,
    },
    /// It does not know who asks.
    #[error("the cluster at `{server}` does not accept the login: {message}")]
    Unauthorized {
        /// The API server.
        server: String,
        /// What it said.
        message: String,
    },
    /// Who asks may not.
    #[error("no permission to `{}` `{}` in namespace `{namespace}`", request.verb, request.resource)]
    Forbidden {
        /// What was asked.
        request: Request,
        /// Where.
        namespace: String,
    },
    /// It does not want this object: a policy, a quota, a mistake in it.
    #[error("the cluster refuses to `{}` `{}` in namespace `{namespace}`: {message}", request.verb, request.resource)]
    Refused {
        /// What was asked.
        request: Request,
        /// Where.
        namespace: String,
        /// What it said.
        message: String,
    },
    /// It cannot at the moment: an error of its own, or too much to do.
    #[error("the cluster fails to `{}` `{}` in namespace `{namespace}`: {message}", request.verb, request.resource)]
    Failing {
        /// What was asked.
        request: Request,
        /// Where.
        namespace: String,
        /// What it said.
        message: String,
    },
    /// One of the same name is still on its way out.
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
    /// There is none.
    #[error("there is no Job `{name}` in namespace `{namespace}`")]
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
            429 | 500.. => Self::Failing { request, namespace, message },
            _ => Self::Refused { request, namespace, message },
        }
    }

    /// Whether nobody knows what became of the request: it may be answered later, and what was to be
    /// created may be there all the same.
    #[must_use]
    pub const fn is_undecided(&self) -> bool {
        matches!(self, Self::Silent { .. } | Self::Failing { .. })
    }
}

impl Advice for ClusterError {
    fn advice(&self) -> Option<String> {
        Some(match self {
            Self::Unknown => "set KUBECONFIG, or name a file with --kubeconfig".to_owned(),
            Self::Kubeconfig { .. } => "check KUBECONFIG, --kubeconfig and --context".to_owned(),
            Self::Forbidden { request, namespace } => {
                let Request { verb, resource } = request;
                format!(
                    "have somebody grant it: kubectl create role butler-runner --verb={verb} --resource={resource} -n {namespace}"
                )
            }
            Self::Unauthorized { .. } => {
                "log in again; `kubectl auth whoami` says who you are".to_owned()
            }
            Self::Exists { resource, name, namespace } => format!(
                "a run has one: look at it with `kubectl -n {namespace} describe {resource} {name}`, or delete it to start the run again"
            ),
            Self::Silent { server, .. } | Self::SetUp { server, .. } => {
                format!(
                    "check that `{server}` can be reached from here, its certificate, and HTTPS_PROXY"
                )
            }
            Self::Going { name, namespace } => format!(
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
        let lost = ClusterError::Silent { server: String::new(), request, source: None };
        assert!(lost.is_undecided());
    }
}
