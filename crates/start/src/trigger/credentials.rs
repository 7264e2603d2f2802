//! Credentials for CI systems: references to them, and their resolution.
//!
//! `ci_config` holds references only (ADR-001, "CI Credential Resolution"). They are resolved like the
//! references of runs: below `--secrets-dir`, then in the environment, never in an argument.

use reqwest::header::HeaderValue;
use secrecy::{ExposeSecret, SecretString};

use butler_base::error::Advice;
use butler_protocol::references::{ReferenceError, SecretSources};
use butler_protocol::spec::SecretReference;

/// The variable that holds the credentials if no reference names them.
const VARIABLE: &str = "BUTLER_CI_TOKEN";

/// The location of credentials: a mounted secret or a variable.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CredentialReference(SecretReference);

/// Errors of resolving credentials.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// The referenced secret does not exist.
    #[error("the credentials for {server} do not exist where the reference says")]
    NotFound {
        /// The provider.
        server: &'static str,
        /// The places where the secret is expected.
        advice: String,
    },
    /// The referenced secret cannot be read.
    #[error("cannot read the credentials for {server}")]
    Unreadable {
        /// The provider.
        server: &'static str,
        /// The reason.
        #[source]
        source: ReferenceError,
    },
    /// Neither a reference nor a variable provides credentials.
    #[error("the credentials for {server} are missing")]
    Missing {
        /// The provider.
        server: &'static str,
        /// The kind of credentials that the provider needs.
        wanted: &'static str,
    },
    /// The credentials cannot be sent.
    #[error("the credentials for {server} {problem}")]
    Unusable {
        /// The provider.
        server: &'static str,
        /// The problem, as a predicate without any part of the credentials.
        problem: &'static str,
    },
}

impl Advice for CredentialsError {
    fn advice(&self) -> Option<String> {
        match self {
            Self::NotFound { advice, .. } => Some(advice.clone()),
            Self::Missing { wanted, .. } => Some(format!(
                "put {wanted} into {VARIABLE}, or name a mounted secret with --credentials NAMESPACE/NAME:KEY and --secrets-dir"
            )),
            Self::Unreadable { .. } | Self::Unusable { .. } => None,
        }
    }
}

impl CredentialReference {
    /// The reference that `ci_config` describes: `source` is `secret`, or `environment` for a variable.
    ///
    /// # Errors
    /// The problem, as a predicate without any part of the reference.
    pub fn from_config(
        source: Option<&str>,
        reference: &str,
        key: Option<String>,
    ) -> Result<Self, String> {
        match source {
            None | Some("secret") => {}
            Some("environment" | "env") if key.is_none() => {}
            Some("environment" | "env") => {
                return Err("has a `key`, which variables do not have".to_owned());
            }
            Some(_) => {
                return Err("has a `source` that is neither `secret` nor `environment`".to_owned());
            }
        }
        let (namespace, name) = match reference.split_once('/') {
            Some((namespace, name)) => (Some(namespace.to_owned()), name.to_owned()),
            None => (None, reference.to_owned()),
        };
        Ok(Self(SecretReference { namespace, name, key }))
    }

    /// Parses `NAMESPACE/NAME:KEY`, `NAME:KEY` or the name of a variable.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let (path, key) = match text.split_once(':') {
            Some((path, key)) => (path, Some(key.to_owned())),
            None => (text, None),
        };
        let (namespace, name) = match path.split_once('/') {
            Some((namespace, name)) => (Some(namespace.to_owned()), name.to_owned()),
            None => (None, path.to_owned()),
        };
        Self(SecretReference { namespace, name, key })
    }

    /// Reads the referenced secret.
    ///
    /// # Errors
    /// If the secret does not exist or cannot be read. The message shows the reference only if it cannot
    /// be a secret that a user entered by mistake.
    pub fn resolve(
        &self,
        server: &'static str,
        sources: &SecretSources,
    ) -> Result<SecretString, CredentialsError> {
        sources
            .find_referred(&self.0)
            .map_err(|source| CredentialsError::Unreadable { server, source })?
            .ok_or_else(|| CredentialsError::NotFound {
                server,
                advice: sources.advice_on_referred(&self.0),
            })
    }
}

/// Checks that a token can be sent in a header: one word of visible ASCII.
pub(super) fn parse_token(
    server: &'static str,
    secret: &SecretString,
) -> Result<SecretString, CredentialsError> {
    let word = secret.expose_secret().trim();
    let unusable = |problem| Err(CredentialsError::Unusable { server, problem });
    if word.is_empty() {
        return unusable("are empty");
    }
    if !word.bytes().all(|byte| byte.is_ascii_graphic()) {
        return unusable("contain whitespace, control or non-ASCII characters");
    }
    if word.starts_with("brce_") || word.starts_with("breg_") {
        return unusable("are a token of the registry, not of a CI system");
    }
    Ok(SecretString::from(word))
}

/// A header's value that its `Debug` output hides.
pub(super) fn sensitive_header(text: &str) -> HeaderValue {
    let mut value = HeaderValue::from_str(text).unwrap_or_else(|_| HeaderValue::from_static(""));
    value.set_sensitive(true);
    value
}

/// For tests only: a reference may be a secret that a user entered by mistake.
#[cfg(test)]
impl std::fmt::Display for CredentialReference {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let SecretReference { namespace, name, key } = &self.0;
        let namespace = namespace.as_ref().map(|it| format!("{it}/")).unwrap_or_default();
        let key = key.as_ref().map(|it| format!(":{it}")).unwrap_or_default();
        write!(formatter, "{namespace}{name}{key}")
    }
}
