//! Errors of requests to the registry, with hints.

use std::time::Duration;

use reqwest::StatusCode;

use super::AddressError;
use butler_base::error::{FailureClass, is_about_certificate};
use butler_protocol::configuration::ConfigError;
use butler_protocol::spec::RunId;

/// Errors of requests to the registry.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// The registry did not respond.
    #[error("cannot reach the registry to {what}")]
    Unreachable {
        /// The operation, such as `read the run's status`.
        what: String,
        /// The error of the HTTP client.
        #[source]
        source: reqwest::Error,
    },
    /// The response took too long.
    #[error("the registry did not answer within {limit:?} when asked to {what}")]
    Timeout {
        /// The operation, such as `read the run's status`.
        what: String,
        /// The time limit of one attempt.
        limit: Duration,
    },
    /// The registry has ended the run (409).
    #[error("the registry has ended the run")]
    RunOver,
    /// The registry refused the request.
    #[error("the registry refused to {what}: {status}{message}")]
    Refused {
        /// The operation, such as `read the run's status`.
        what: String,
        /// The HTTP status.
        status: StatusCode,
        /// `: ` and the message of the registry, shortened; empty without a message.
        message: String,
        /// The delay that the registry requests.
        retry_after: Option<Duration>,
        /// Where it redirects to. Nothing is ever sent there.
        redirect: Option<Redirect>,
        /// The run's id, if that may be why the registry failed.
        odd_run_id: Option<Box<RunId>>,
    },
    /// The response does not have the format of the API.
    #[error("cannot {what}: the registry's response has an unknown format")]
    UnknownFormat {
        /// The operation, such as `read the run's status`.
        what: String,
    },
    /// A file is too large.
    #[error("{what} is larger than {limit} bytes")]
    FileTooLarge {
        /// The file, such as `the saved plan`.
        what: &'static str,
        /// The limit in bytes.
        limit: u64,
    },
    /// A file cannot be read or stored.
    #[error("cannot {act} {what}")]
    File {
        /// The action: `read` or `store`.
        act: &'static str,
        /// The file, such as `the saved plan`.
        what: &'static str,
        /// The error of the operating system.
        #[source]
        source: std::io::Error,
    },
    /// The configuration cannot be executed.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A URL cannot be formed.
    #[error(transparent)]
    Address(#[from] AddressError),
}

/// Where a redirect leads.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Redirect {
    /// To this path on the registry's own origin.
    Within(String),
    /// To this other origin.
    Away(String),
}

impl RegistryError {
    /// Whether a retry may succeed.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            // A certificate that is not trusted now is not trusted in a second.
            Self::Unreachable { source, .. } => !is_about_certificate(source),
            Self::Timeout { .. } | Self::UnknownFormat { .. } => true,
            Self::Refused { status, .. } => {
                let later = [StatusCode::TOO_MANY_REQUESTS, StatusCode::REQUEST_TIMEOUT];
                status.is_server_error() || later.contains(status)
            }
            Self::Config(_) => self.has_unknown_format(),
            Self::RunOver | Self::Address(_) | Self::FileTooLarge { .. } | Self::File { .. } => {
                false
            }
        }
    }

    /// Whether the registry may have received the request and may still store it.
    pub(super) fn may_be_stored(&self) -> bool {
        match self {
            // Without a connection the registry cannot have seen the request.
            Self::Unreachable { source, .. } => !source.is_connect(),
            Self::Timeout { .. } | Self::UnknownFormat { .. } => true,
            // A gateway sent the response: the registry behind it may still store the request.
            Self::Refused { status, .. } => {
                matches!(*status, StatusCode::BAD_GATEWAY | StatusCode::GATEWAY_TIMEOUT)
            }
            Self::RunOver
            | Self::Config(_)
            | Self::Address(_)
            | Self::FileTooLarge { .. }
            | Self::File { .. } => false,
        }
    }

    /// Whether the response is not from the API: a page or JSON of a proxy, a web site, or a truncated
    /// configuration.
    pub(super) fn has_unknown_format(&self) -> bool {
        match self {
            Self::UnknownFormat { .. } => true,
            Self::Config(error) => matches!(error, ConfigError::Syntax { .. }),
            _ => false,
        }
    }

    /// Whether a few retries show that the same answer will come again: it is not from the API, or the registry fails
    /// for this id of a run.
    pub(super) fn is_lasting(&self) -> bool {
        self.has_unknown_format() || matches!(self, Self::Refused { odd_run_id: Some(_), .. })
    }

    /// The same error, with a hint if the registry failed (500) and `run_id` is not a UUID: registries
    /// that keep runs under UUIDs fail for any other id.
    pub(super) fn with_run_id_hint(mut self, run_id: &RunId) -> Self {
        if let Self::Refused { status: StatusCode::INTERNAL_SERVER_ERROR, odd_run_id, .. } =
            &mut self
            && !run_id.is_uuid()
        {
            *odd_run_id = Some(Box::new(run_id.clone()));
        }
        self
    }

    /// The delay that the registry requests before a retry.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}

impl butler_base::error::Advice for RegistryError {
    fn advice(&self) -> Option<String> {
        match self {
            Self::Unreachable { .. } | Self::Timeout { .. } => {
                Some("check --endpoint (BUTLER_ENDPOINT), the network, the proxy, and --ca-bundle for a private CA".to_owned())
            }
            Self::Refused { redirect: Some(Redirect::Away(origin)), .. } => {
                Some(format!("the endpoint redirects to {origin}: set --endpoint (BUTLER_ENDPOINT) to that"))
            }
            Self::Refused { redirect: Some(Redirect::Within(path)), .. } => {
                Some(format!("the endpoint redirects to `{path}`: check that --endpoint (BUTLER_ENDPOINT) is the registry's API and not behind a sign-in page"))
            }
            Self::Refused { odd_run_id: Some(run_id), .. } => {
                Some(format!("check --run-id (BUTLER_RUN_ID): `{run_id}` is not a UUID, and a registry that expects one fails"))
            }
            Self::Refused { status, .. } if status.is_redirection() => {
                Some("check that --endpoint (BUTLER_ENDPOINT) is the registry's API".to_owned())
            }
            Self::Refused { status: StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, .. } => {
                Some("check --token (BUTLER_TOKEN): it must be the callback token of this run".to_owned())
            }
            Self::Refused { status: StatusCode::NOT_FOUND, .. } => {
                Some("check --run-id (BUTLER_RUN_ID) and the path of --endpoint (BUTLER_ENDPOINT)".to_owned())
            }
            Self::UnknownFormat { .. } => Some("check that --endpoint (BUTLER_ENDPOINT) is the registry's API and not its web page, and that no proxy or sign-in page answers in its place".to_owned()),
            Self::FileTooLarge { .. } => {
                Some("keep large files out of the directories that the module needs".to_owned())
            }
            Self::File { .. } => {
                Some("check that --work-dir is writable and has room".to_owned())
            }
            Self::Config(error) => error.advice(),
            _ => None,
        }
    }

    fn class(&self) -> Option<FailureClass> {
        Some(match self {
            Self::Config(_) | Self::Address(_) => FailureClass::Configuration,
            _ => FailureClass::Network,
        })
    }
}
