//! What `trigger` and `ci-status` need: the run that is handed on, and where credentials are.

use std::path::Path;

use secrecy::SecretString;
use url::Url;

use super::reader::{Reader, required};
use super::resolve::{REQUEST_LIMIT, ca_bundle};
use super::setting::{ENDPOINT, REQUEST_TIMEOUT, RUN_ID, SECRETS_DIR, TOKEN};
use super::{Arguments, Environment, SettingsError, Variable, parse, token, variable};
use butler_protocol::references::SecretSources;
use butler_protocol::spec::{RunId, SensitiveValues};
use butler_start::trigger::TriggerSettings;

/// The run that the CI system is to start the runner for.
pub struct HandedOn {
    /// The registry.
    pub endpoint: Url,
    /// Which run.
    pub run_id: RunId,
    /// Its callback token.
    pub token: SecretString,
    /// What looks like a mistake.
    pub warnings: Vec<String>,
}

/// Decides how a CI system is spoken to.
///
/// # Errors
/// When one of these settings cannot be.
pub fn trigger_settings(
    arguments: &Arguments,
    environment: &Environment,
) -> Result<TriggerSettings, SettingsError> {
    let reader = Reader { arguments, environment };
    Ok(TriggerSettings {
        ca_bundle: ca_bundle(&reader)?,
        request_timeout: reader.parsed(&REQUEST_TIMEOUT, parse::interval)?.unwrap_or(REQUEST_LIMIT),
        secrets: SecretSources {
            // The runner's own variables are never looked up as references.
            environment: environment.variables().clone(),
            directory: reader.existing(&SECRETS_DIR, Path::is_dir)?,
            values: SensitiveValues::Auto,
        },
        ci_token: secret(environment, &variable::CI_TOKEN)?,
        ci_api_token: secret(environment, &variable::CI_API_TOKEN)?,
    })
}

impl HandedOn {
    /// Decides which run it is.
    ///
    /// # Errors
    /// When something of it is missing or cannot be.
    pub fn resolve(
        arguments: &Arguments,
        environment: &Environment,
    ) -> Result<Self, SettingsError> {
        let reader = Reader { arguments, environment };
        let mut warnings = Vec::new();
        debug_assert!(arguments.value(&TOKEN).is_none(), "`trigger` has no such flag");
        Ok(Self {
            endpoint: required(&ENDPOINT, reader.parsed(&ENDPOINT, parse::endpoint)?)?,
            run_id: required(&RUN_ID, reader.parsed(&RUN_ID, parse::run_id)?)?,
            token: token::token(arguments, environment, &mut warnings)?,
            warnings,
        })
    }
}

fn secret(
    environment: &Environment,
    variable: &'static Variable,
) -> Result<Option<SecretString>, SettingsError> {
    let Some(value) = environment.value(variable.name) else { return Ok(None) };
    let text = value.to_str().ok_or_else(|| SettingsError::Foreign {
        variable,
        problem: "the value is not UTF-8".to_owned(),
    })?;
    Ok(Some(SecretString::from(text)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::setting::TOKEN_FILE;

    fn environment(variables: &[(&str, &str)]) -> Environment {
        let variables = variables.iter().map(|(name, value)| (name.into(), value.into()));
        Environment::new(variables.collect(), "/butler-runner".into())
    }

    const RUN: [(&str, &str); 3] = [
        ("BUTLER_ENDPOINT", "https://portal.example.com/api/registry"),
        ("BUTLER_RUN_ID", "7"),
        ("BUTLER_TOKEN", "brce_hunter2"),
    ];

    #[test]
    fn a_registry_token_is_not_handed_on() {
        assert!(HandedOn::resolve(&Arguments::default(), &environment(&RUN)).is_ok());
        let other = [RUN[0], RUN[1], ("BUTLER_TOKEN", "breg_hunter2")];
        let error = HandedOn::resolve(&Arguments::default(), &environment(&other)).err().unwrap();
        assert!(error.to_string().contains("`breg_`") && !error.to_string().contains("hunter2"));
    }

    #[test]
    fn the_token_comes_from_a_file_as_well() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "brce_file\n").unwrap();
        let arguments = Arguments::default().with(&TOKEN_FILE, file.path());
        assert!(HandedOn::resolve(&arguments, &environment(&RUN[..2])).is_ok());
        let missing = HandedOn::resolve(&Arguments::default(), &environment(&RUN[..2]));
        assert!(matches!(missing, Err(SettingsError::Missing { .. })));
    }
}
