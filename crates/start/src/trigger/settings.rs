//! Connection settings for a CI system; the caller resolves them from flags and environment.

use std::path::PathBuf;
use std::time::Duration;

use butler_protocol::references::SecretSources;
use secrecy::SecretString;

/// How a CI system is spoken to.
pub struct TriggerSettings {
    /// Additional trusted certificates.
    pub ca_bundle: Option<PathBuf>,
    /// How long one attempt of a request may take.
    pub request_timeout: Duration,
    /// Where credentials that are referred to are looked for.
    pub secrets: SecretSources,
    /// What the runner logs in with where no reference says so (`BUTLER_CI_TOKEN`).
    pub ci_token: Option<SecretString>,
    /// The token that reads, where another one starts runs (`BUTLER_CI_API_TOKEN`).
    pub ci_api_token: Option<SecretString>,
}
