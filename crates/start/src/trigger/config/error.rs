//! Errors in the CI configuration, with hints.

use std::path::PathBuf;

use super::ProviderName;
use butler_base::error::Advice;

/// Errors in the CI configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the CI configuration `{}`", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        #[source]
        source: std::io::Error,
    },
    /// The text is not a JSON object.
    #[error("the CI configuration is not a JSON object")]
    Syntax(#[source] Option<serde_json::Error>),
    /// The value of a key is not valid.
    #[error("`{key}` of the CI configuration {problem}")]
    Value {
        /// The key.
        key: &'static str,
        /// The problem, as a predicate: `is empty`.
        problem: String,
    },
    /// A required setting is missing.
    #[error("{server} needs {what}")]
    Missing {
        /// The provider.
        server: &'static str,
        /// What is missing.
        what: &'static str,
        /// The flag that sets it.
        how: &'static str,
    },
    /// The configuration is for another provider.
    #[error("the CI configuration is for `{given}`, not for `{wanted}`")]
    OtherProvider {
        /// The provider in the configuration.
        given: String,
        /// The provider on the command line.
        wanted: &'static str,
    },
    /// There are more values than the provider accepts.
    #[error("{server} accepts at most {most} values, but {given} are given")]
    TooMany {
        /// The provider.
        server: &'static str,
        /// The provider's limit.
        most: usize,
        /// The number of values.
        given: usize,
    },
}

impl Advice for ConfigError {
    fn advice(&self) -> Option<String> {
        match self {
            Self::Missing { how, .. } => Some((*how).to_owned()),
            Self::OtherProvider { given, .. }
                if ProviderName::ALL.iter().any(|it| it.id() == given) =>
            {
                Some(format!("write `{given}` on the command line"))
            }
            Self::TooMany { .. } => Some("give fewer --input".to_owned()),
            Self::Read { .. }
            | Self::Syntax(_)
            | Self::Value { .. }
            | Self::OtherProvider { .. } => None,
        }
    }
}
