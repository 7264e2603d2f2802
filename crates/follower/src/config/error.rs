//! What is wrong in a registry file.

/// An error in a registry file of followers.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The text is not YAML, or has an unknown key or a value of another type.
    #[error("cannot parse the registry of followers{}: {message}", position(*at))]
    Parse {
        /// Line and column, from 1, if known.
        at: Option<(u64, u64)>,
        /// The parser's message, without lines of the file.
        message: String,
    },
    /// The controller's settings contradict each other or are out of range.
    #[error("cannot use the controller's settings: {message}")]
    Controller {
        /// What is wrong, and what to write instead.
        message: String,
    },
    /// A follower cannot be used.
    #[error("cannot use the follower `{follower}`: {message}")]
    Follower {
        /// Its id.
        follower: String,
        /// What is wrong, and what to write instead.
        message: String,
    },
    /// A stage cannot be used.
    #[error("cannot use the stage `{stage}` of the follower `{follower}`: {message}")]
    Stage {
        /// The follower's id.
        follower: String,
        /// The stage's name.
        stage: String,
        /// What is wrong, and what to write instead.
        message: String,
    },
}

impl ConfigError {
    /// What is wrong, without the name of the follower.
    #[must_use]
    pub fn within_follower(&self) -> String {
        match self {
            Self::Stage { stage, message, .. } => format!("stage `{stage}`: {message}"),
            Self::Parse { message, .. }
            | Self::Controller { message }
            | Self::Follower { message, .. } => message.clone(),
        }
    }

    /// The error of the YAML parser. Its own text would quote lines of the file.
    pub(super) fn parsing(error: &serde_saphyr::Error) -> Self {
        let at = error.location().map(|location| (location.line(), location.column()));
        Self::Parse { at, message: error.without_snippet().to_string() }
    }
}

fn position(at: Option<(u64, u64)>) -> String {
    at.map(|(line, column)| format!(" at line {line}, column {column}")).unwrap_or_default()
}
