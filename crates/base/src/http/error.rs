//! The errors of building an HTTP client.

use std::path::PathBuf;

/// A failure to set up an HTTP client.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// The CA bundle could not be read.
    #[error("cannot read the CA bundle `{}`", path.display())]
    ReadBundle {
        /// The file that `--ca-bundle` names.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: std::io::Error,
    },
    /// The CA bundle does not contain a certificate.
    #[error("the CA bundle `{}` does not contain a PEM certificate", path.display())]
    EmptyBundle {
        /// The file that `--ca-bundle` names.
        path: PathBuf,
    },
    /// The TLS library rejected its configuration.
    #[error("cannot set up TLS")]
    Tls(#[source] rustls::Error),
    /// The HTTP library rejected its configuration.
    #[error("cannot set up the HTTP client")]
    Build(#[source] reqwest::Error),
}

impl crate::error::Advice for HttpError {
    fn advice(&self) -> Option<String> {
        Some("check --ca-bundle (BUTLER_CA_BUNDLE)".to_owned())
    }
}
