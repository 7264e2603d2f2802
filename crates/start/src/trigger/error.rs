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
    /// The place of the run is not fully described.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Credentials are missing or unusable.
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    /// No HTTP client could be made.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// A read request was not answered.
    #[error("cannot reach {server} to {what}")]
    Unreachable {
        /// Who was asked.
        server: &'static str,
        /// What was tried.
        what: String,
        /// What the HTTP client said.
        #[source]
        source: reqwest::Error,
    },
    /// The answer took too long.
    #[error("{server} did not answer within {limit:?} when asked to {what}")]
    Timeout {
        /// Who was asked.
        server: &'static str,
        /// What was tried.
        what: String,
        /// The time limit of one attempt.
        limit: Duration,
    },
    /// It refused the request.
    #[error("{server} refused to {what}: {status}{message}")]
    Refused {
        /// Who was asked.
        server: &'static str,
        /// What was tried.
        what: String,
        /// The HTTP status.
        status: StatusCode,
        /// `: ` and its own words, cut to a readable length; empty when it had none.
        message: String,
        /// What to do about it.
        advice: Option<String>,
    },
    /// A rate limit lasts longer than the remaining time.
    #[error("{server} refuses requests until {until} ({which})")]
    RateLimited {
        /// Who was asked.
        server: &'static str,
        /// When the limit ends.
        until: String,
        /// Which of its limits it is.
        which: &'static str,
    },
    /// It redirects. The runner does not follow redirects.
    #[error("{server} redirects to `{to}` when asked to {what}")]
    Redirected {
        /// Who was asked.
        server: &'static str,
        /// What was tried.
        what: String,
        /// Where to, without a query.
        to: String,
        /// What to do about it.
        advice: String,
    },
    /// The answer is not what the API promises.
    #[error("cannot {what}: the response is not from {server}'s API: {seen}")]
    NotTheApi {
        /// Who was asked.
        server: &'static str,
        /// What was tried.
        what: String,
        /// What was seen instead.
        seen: &'static str,
    },
    /// It accepted the request, but lists no run for it.
    #[error("{server} accepted the request, but lists no matching run within {waited:?}")]
    NotSeen {
        /// Who was asked.
        server: &'static str,
        /// For how long it was looked for.
        waited: Duration,
        /// Where to look for it, and why it may not be found.
        advice: String,
    },
    /// The response was lost, and no matching run was found.
    #[error("unclear whether {server} started a run ({why}); no matching run was found")]
    Unsure {
        /// Who was asked.
        server: &'static str,
        /// How the answer was lost.
        why: String,
        /// Where to look for it.
        advice: String,
    },
    /// The job lacks a parameter that the runner needs.
    #[error("cannot start a run on {server}: {problem}")]
    Unfit {
        /// Who was asked.
        server: &'static str,
        /// What is missing.
        problem: String,
        /// What to do about it.
        advice: String,
    },
    /// The run was cancelled in the queue.
    #[error("{server} accepted the request, but the run was cancelled in the queue")]
    Withdrawn {
        /// Who was asked.
        server: &'static str,
    },
}

impl TriggerError {
    /// Whether a run may have been started, so that a repeated request could start a second one.
    #[must_use]
    pub const fn may_have_started(&self) -> bool {
        matches!(self, Self::NotSeen { .. } | Self::Unsure { .. } | Self::Withdrawn { .. })
    }

    /// Whether the input is wrong, so that the exit code is the one of a usage error.
    #[must_use]
    pub const fn is_usage(&self) -> bool {
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
            | Self::Unfit { advice, .. }
            | Self::NotSeen { advice, .. }
            | Self::Unsure { advice, .. } => Some(advice.clone()),
            Self::NotTheApi { .. } => Some(
                "check that --url is the address of the API, and that no sign-in page or proxy is in front of it"
                    .to_owned(),
            ),
            Self::Withdrawn { .. } => None,
        }
    }
}
