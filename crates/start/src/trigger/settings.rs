//! Connection settings for a CI system; the caller resolves them from flags and environment.

use std::path::PathBuf;
use std::time::Duration;

use butler_protocol::references::SecretSources;
use secrecy::SecretString;

/// Settings of the connection and the credentials.
pub struct TriggerSettings {
    /// Additional trusted certificates.
    pub ca_bundle: Option<PathBuf>,
    /// The timeout of one attempt of a request.
    pub request_timeout: Duration,
    /// The sources in which references to credentials are resolved.
    pub secrets: SecretSources,
    /// The credentials if no reference names them (`BUTLER_CI_TOKEN`).
    pub ci_token: Option<SecretString>,
    /// GitLab's access token, if the other token can only start pipelines (`BUTLER_CI_API_TOKEN`).
    pub ci_api_token: Option<SecretString>,
}
