//! Errors of generating a wrapper.

use butler_base::error::Advice;

/// Errors of generating a wrapper.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
pub enum GenerateError {
    /// The target has no such thing.
    #[error("`{target}` does not support `{option}`")]
    Unsupported {
        /// The target.
        target: &'static str,
        /// The option that it was asked for with.
        option: &'static str,
        /// What to do instead.
        instead: &'static str,
    },
    /// The target would put something else in the place of what was typed in.
    #[error("`{target}` would evaluate the `{mark}` in `{text}` of `{option}`")]
    Evaluated {
        /// The target.
        target: &'static str,
        /// The option.
        option: &'static str,
        /// What was typed in.
        text: String,
        /// What it would evaluate.
        mark: String,
    },
    /// The target has no secrets of such a name.
    #[error("a secret of `{target}` cannot be called `{name}`")]
    SecretName {
        /// The target.
        target: &'static str,
        /// What was typed in.
        name: String,
        /// What a name has to be.
        rule: &'static str,
    },
    /// A variable would be set twice.
    #[error("`--secret {variable}` sets a variable that is set already")]
    VariableTaken {
        /// The variable.
        variable: String,
    },
    /// A line break, a colour, or what hides other text.
    #[error("`{option}` contains an invisible character: {text:?}")]
    Invisible {
        /// The option.
        option: &'static str,
        /// What was typed in.
        text: String,
    },
}

impl Advice for GenerateError {
    fn advice(&self) -> Option<String> {
        match self {
            Self::Unsupported { instead, .. } => Some((*instead).to_owned()),
            Self::Evaluated { .. } => Some(
                "leave the option out: the file then names a variable of the CI system's own"
                    .to_owned(),
            ),
            Self::SecretName { rule, .. } => Some((*rule).to_owned()),
            Self::VariableTaken { .. } => Some(
                "name each variable once, and none that the wrapper itself sets for the job"
                    .to_owned(),
            ),
            Self::Invisible { .. } => None,
        }
    }
}
