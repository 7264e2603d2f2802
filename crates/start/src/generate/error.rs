//! Errors of generating a wrapper.

use butler_base::error::Advice;

/// Errors of generating a wrapper.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
pub enum GenerateError {
    /// The target does not support an option.
    #[error("`{target}` does not support `{option}`")]
    Unsupported {
        /// The target.
        target: &'static str,
        /// The option.
        option: &'static str,
        /// The alternative, for the hint.
        instead: &'static str,
    },
    /// The target would evaluate a part of the text as an expression.
    #[error("`{target}` would evaluate the `{mark}` in `{text}` of `{option}`")]
    Evaluated {
        /// The target.
        target: &'static str,
        /// The option.
        option: &'static str,
        /// The text that the user entered.
        text: String,
        /// The beginning of an expression.
        mark: String,
    },
    /// The name is not valid for a secret of the target.
    #[error("a secret of `{target}` cannot be called `{name}`")]
    SecretName {
        /// The target.
        target: &'static str,
        /// The text that the user entered.
        name: String,
        /// The rule for names.
        rule: &'static str,
    },
    /// A variable would be set twice.
    #[error("`--secret {variable}` sets a variable that is set already")]
    VariableTaken {
        /// The variable.
        variable: String,
    },
    /// The text contains a line break, an escape sequence, or a character that hides text.
    #[error("`{option}` contains an invisible character: {text:?}")]
    Invisible {
        /// The option.
        option: &'static str,
        /// The text that the user entered.
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
