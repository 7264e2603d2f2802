//! Secrets of the CI system that a job passes to its run as environment variables.
//!
//! A wrapper only contains their names. In some systems a job gets only mapped secrets (GitHub, Jenkins, Azure,
//! Tekton). In the others each secret is in the job's environment, under its own name.

/// A secret of the CI system, and the environment variable through which a run gets it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Secret {
    /// The environment variable: `DB_PASSWORD`.
    pub variable: String,
    /// The name of the secret in the CI system.
    pub name: String,
}

/// The runner's own variables that can be secrets.
const RUNNER_SECRETS: [&str; 4] =
    ["BUTLER_GIT_TOKEN", "BUTLER_MIRROR_USER", "BUTLER_MIRROR_PASSWORD", "BUTLER_MIRROR_TOKEN"];

impl Secret {
    /// Parses `NAME`, or `VARIABLE=NAME` if the names differ.
    ///
    /// # Errors
    /// If the name of the variable is not valid, or the variable is a setting of the runner.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (variable, name) = text.split_once('=').unwrap_or((text, text));
        if !is_variable(variable) {
            return Err("it must begin with the name of an environment variable".to_owned());
        }
        if name.is_empty() {
            return Err("the name of the secret is missing after `=`".to_owned());
        }
        if variable.starts_with("BUTLER_") && !RUNNER_SECRETS.contains(&variable) {
            return Err(format!(
                "`{variable}` is a setting of the runner and not a secret of runs"
            ));
        }
        Ok(Self { variable: variable.to_owned(), name: name.to_owned() })
    }

    /// Whether the secret and the variable have different names.
    #[must_use]
    pub fn is_renamed(&self) -> bool {
        self.variable != self.name
    }

    /// A description for the comment at the beginning of a file.
    #[must_use]
    pub fn description(&self) -> String {
        if self.is_renamed() {
            format!("a secret of runs, in the variable {}", self.variable)
        } else {
            "a secret of runs".to_owned()
        }
    }
}

pub(super) fn is_variable(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    !text.is_empty()
        && text.bytes().all(is_part)
        && !text.starts_with(|it: char| it.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_is_parsed_from_a_name_or_a_variable_and_a_name() {
        let read = |text: &str| Secret::parse(text).map(|secret| (secret.variable, secret.name));
        let pair = |variable: &str, name: &str| Ok((variable.to_owned(), name.to_owned()));
        assert_eq!(read("DB_PASSWORD"), pair("DB_PASSWORD", "DB_PASSWORD"));
        assert_eq!(read("TF_VAR_password=db/pass"), pair("TF_VAR_password", "db/pass"));
        assert_eq!(read("BUTLER_GIT_TOKEN=BOT"), pair("BUTLER_GIT_TOKEN", "BOT"));
        for wrong in ["", "=A", "A=", "1A", "A B", "db-password", "BUTLER_TOKEN", "BUTLER_TOKEN=A"]
        {
            read(wrong).unwrap_err();
        }
    }
}
