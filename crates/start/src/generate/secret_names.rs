//! Checks the names of secrets against the rules of a CI system.

use super::error::GenerateError;
use super::options::Options;
use super::secret::{Secret, is_variable};

/// Variables that wrappers set, in addition to those for the network and for clouds.
const WRAPPER_VARIABLES: [&str; 5] = ["CALLBACK_TOKEN", "CI", "GITHUB_TOKEN", "HOME", "PATH"];

/// The naming rule of a CI system for secrets.
#[derive(Clone, Copy)]
pub(super) struct SecretNames {
    /// Whether the name is valid for a secret.
    pub(super) allowed: fn(&str) -> bool,
    /// The rule for names, for the hint.
    pub(super) rule: &'static str,
}

impl SecretNames {
    /// The rule of systems whose secrets are environment variables.
    pub(super) const VARIABLES: Self = Self {
        allowed: is_variable,
        rule: "it must consist of letters, digits and `_`, without a digit at the beginning",
    };
}

impl Options {
    /// Refuses names of secrets that are not valid for `target`, and variables that are set twice.
    ///
    /// # Errors
    /// If there is such a name or variable.
    pub(super) fn check_secrets(
        &self,
        target: &'static str,
        names: SecretNames,
    ) -> Result<(), GenerateError> {
        let mut taken: Vec<&str> = WRAPPER_VARIABLES.to_vec();
        taken.extend(self.network_variables().iter().map(|(name, _)| *name));
        taken.extend(self.identity_variables());
        for Secret { variable, name } in &self.secrets {
            if !(names.allowed)(name) {
                let (name, rule) = (name.clone(), names.rule);
                return Err(GenerateError::SecretName { target, name, rule });
            }
            if taken.contains(&variable.as_str()) {
                return Err(GenerateError::VariableTaken { variable: variable.clone() });
            }
            taken.push(variable);
        }
        Ok(())
    }

    /// Secrets whose name in the CI system differs from the variable.
    #[must_use]
    pub fn renamed_secrets(&self) -> Vec<&Secret> {
        self.secrets.iter().filter(|secret| secret.is_renamed()).collect()
    }
}
