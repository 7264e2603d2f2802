//! What can go wrong between the runner and a CI system, and what to do about it.

use std::time::Duration;

use reqwest::StatusCode;

use super::{ConfigError, CredentialsError, HttpError};
use butler_base::error::Advice;

/// Why nothing was started, or nobody knows whether something was.
#[derive(Debug, thiserror::Error)]
pub enum TriggerError {
    /// The place of the run is not fully described.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// There is nothing to log in with.
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    /// No HTTP client could be made.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// No answer came, to a question that changes nothing.
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
    /// It said no.
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
    /// It wants to be left alone for longer than there is time.
    #[error("{server} takes no more requests until {until} ({which})")]
    RateLimited {
        /// Who was asked.
        server: &'static str,
        /// When the limit ends.
        until: String,
        /// Which of its limits it is.
        which: &'static str,
    },
    /// It sends elsewhere. Nothing is ever sent there.
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
    #[error("what answers when asked to {what} is not {server}'s API: {seen}")]
    NotTheApi {
        /// Who was asked.
        server: &'static str,
        /// What was tried.
        what: String,
        /// What was seen instead.
        seen: &'static str,
    },
    /// It took the order, but shows no run of it.
    #[error("{server} took the order, but shows no run of it within {waited:?}")]
    NotSeen {
        /// Who was asked.
        server: &'static str,
        /// For how long it was looked for.
        waited: Duration,
        /// Where to look for it, and why it may not be found.
        advice: String,
    },
    /// The answer to the order was lost, and no run of it was found.
    #[error("nobody knows whether {server} took the order ({why}), and no run of it was found")]
    Unsure {
        /// Who was asked.
        server: &'static str,
        /// How the answer was lost.
        why: String,
        /// Where to look for it.
        advice: String,
    },
    /// It would not hand on to the job what the runner needs.
    #[error("{server} has nothing to start there: {problem}")]
    Unfit {
        /// Who was asked.
        server: &'static str,
        /// What is missing.
        problem: String,
        /// What to do about it.
        advice: String,
    },
    /// It took the run out of its queue again.
    #[error("{server} took the order, but somebody cancelled it before it began")]
    Withdrawn {
        /// Who was asked.
        server: &'static str,
    },
}

impl TriggerError {
    /// Whether a run may have been started all the same, so that ordering it again could start a
    /// second one.
    #[must_use]
    pub const fn may_have_started(&self) -> bool {
        matches!(self, Self::NotSeen { .. } | Self::Unsure { .. } | Self::Withdrawn { .. })
    }

    /// Whether it is what was typed in that cannot be.
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
                "nothing of it was carried out; try again then, or wait for it with a longer --timeout"
                    .to_owned(),
            ),
            Self::Redirected { advice, .. }
            | Self::Unfit { advice, .. }
            | Self::NotSeen { advice, .. }
            | Self::Unsure { advice, .. } => Some(advice.clone()),
            Self::NotTheApi { .. } => Some(
                "check that --url is the API's address and that no sign-in page or proxy stands before it"
                    .to_owned(),
            ),
            Self::Withdrawn { .. } => None,
        }
    }
}
