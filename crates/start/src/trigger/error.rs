//! Errors of starting and reading runs on a CI system, with hints.

use std::time::Duration;

use reqwest::StatusCode;

use super::config::ConfigError;
use super::credentials::CredentialsError;
use butler_base::error::Advice;
use butler_base::http::HttpError;

/// Why no run was started, or why that is unclear.
#[derive(Debug, thiserror::Error)]
pub enum TriggerError {
    /// The CI configuration is incomplete or not valid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Credentials are missing or unusable.
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    /// The HTTP client cannot be created.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// The connection failed before a response.
    #[error("cannot reach {server} to {what}")]
    Unreachable {
        /// The CI system.
        server: &'static str,
        /// The request, as an infinitive: `start the job`.
        what: String,
        /// The HTTP client's error.
        #[source]
        source: reqwest::Error,
    },
    /// The response took too long.
    #[error("{server} did not answer within {limit:?} when asked to {what}")]
    Timeout {
        /// The CI system.
        server: &'static str,
        /// The request, as an infinitive: `start the job`.
        what: String,
        /// The time limit of one attempt.
        limit: Duration,
    },
    /// The CI system refused the request.
    #[error("{server} refused to {what}: {status}{message}")]
    Refused {
        /// The CI system.
        server: &'static str,
        /// The request, as an infinitive: `start the job`.
        what: String,
        /// The HTTP status.
        status: StatusCode,
        /// `: ` and the CI system's message, cut to a readable length; empty without a message.
        message: String,
        /// The hint.
        advice: Option<String>,
    },
    /// A rate limit lasts longer than the remaining time.
    #[error("{server} refuses requests until {until} ({which})")]
    RateLimited {
        /// The CI system.
        server: &'static str,
        /// When the limit ends.
        until: String,
        /// The kind of limit.
        which: &'static str,
    },
    /// The CI system redirects. The runner does not follow redirects.
    #[error("{server} redirects to `{to}` when asked to {what}")]
    Redirected {
        /// The CI system.
        server: &'static str,
        /// The request, as an infinitive: `start the job`.
        what: String,
        /// The target, without a query.
        to: String,
        /// The hint.
        advice: String,
    },
    /// The response does not have the format of the API.
    #[error("cannot {what}: the response is not from {server}'s API: {seen}")]
    NotTheApi {
        /// The CI system.
        server: &'static str,
        /// The request, as an infinitive: `start the job`.
        what: String,
        /// What the response is instead.
        seen: &'static str,
    },
    /// The CI system accepted the request, but lists no run for it.
    #[error("{server} accepted the request, but lists no matching run within {waited:?}")]
    RunNotListed {
        /// The CI system.
        server: &'static str,
        /// The duration of the search.
        waited: Duration,
        /// Where the user can look for the run, and why it may not be listed.
        advice: String,
    },
    /// The response was lost, and no matching run was found.
    #[error("unclear whether {server} started a run ({why}); no matching run was found")]
    OutcomeUnclear {
        /// The CI system.
        server: &'static str,
        /// Why the response was lost.
        why: String,
        /// Where the user can look for the run.
        advice: String,
    },
    /// The job lacks a parameter that the runner needs.
    #[error("cannot start a run on {server}: {problem}")]
    UnusableJob {
        /// The CI system.
        server: &'static str,
        /// The missing parameter.
        problem: String,
        /// The hint.
        advice: String,
    },
    /// The run was cancelled in the queue.
    #[error("{server} accepted the request, but the run was cancelled in the queue")]
    CancelledInQueue {
        /// The CI system.
        server: &'static str,
    },
}

impl TriggerError {
    /// Whether a run may have been started, so that a repeated request could start a second one.
    #[must_use]
    pub const fn may_have_started(&self) -> bool {
        matches!(
            self,
            Self::RunNotListed { .. } | Self::OutcomeUnclear { .. } | Self::CancelledInQueue { .. }
        )
    }

    /// Whether the input is wrong, so that the exit code is the one of a usage error.
    #[must_use]
    pub const fn is_usage_error(&self) -> bool {
        matches!(self, Self::Config(_) | Self::Credentials(_) | Self::Http(_))
    }
}

impl Advice for TriggerError {
    fn advice(&self) -> Option<String> {
        match self {
            Self::Config(error) => error.advice(),
            Self::Credentials(error) => error.advice(),
            Self::Http(error) => error.advice(),
            Self::Unreachable { .. } | Self::Timeout { .. } => Some(
                "check --url, the network, the proxy, and --ca-bundle for a private CA".to_owned(),
            ),
            Self::Refused { advice, .. } => advice.clone(),
            Self::RateLimited { .. } => Some(
                "the request had no effect; try again after that time, or raise --timeout"
                    .to_owned(),
            ),
            Self::Redirected { advice, .. }
            | Self::UnusableJob { advice, .. }
            | Self::RunNotListed { advice, .. }
            | Self::OutcomeUnclear { advice, .. } => Some(advice.clone()),
            Self::NotTheApi { .. } => Some(
                "check that --url is the address of the API, and that no sign-in page or proxy is in front of it"
                    .to_owned(),
            ),
            Self::CancelledInQueue { .. } => None,
        }
    }
}
