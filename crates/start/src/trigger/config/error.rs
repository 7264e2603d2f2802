//! Errors in the CI configuration, with hints.

use std::path::PathBuf;

use super::ProviderName;
use butler_base::error::Advice;

/// Errors in the CI configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// It cannot be read.
    #[error("cannot read the CI configuration `{}`", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        #[source]
        source: std::io::Error,
    },
    /// It is not a JSON object.
    #[error("the CI configuration is not a JSON object")]
    Syntax(#[source] Option<serde_json::Error>),
    /// A value that cannot be.
    #[error("`{key}` of the CI configuration {problem}")]
    Value {
        /// The key.
        key: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// What a provider cannot do without.
    #[error("{server} needs {what}")]
    Missing {
        /// The provider.
        server: &'static str,
        /// What is missing.
        what: &'static str,
        /// How to give it.
        how: &'static str,
    },
    /// It is about another provider.
    #[error("the CI configuration is for `{given}`, not for `{wanted}`")]
    OtherProvider {
        /// What it names.
        given: String,
        /// What was asked for.
        wanted: &'static str,
    },
    /// More than GitHub takes.
    #[error("{server} accepts at most {most} values, but {given} are given")]
    TooMany {
        /// The provider.
        server: &'static str,
        /// Its limit.
        most: usize,
        /// How many there are.
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
