//! The settings of `trigger` and `ci-status`: the run that a CI system should start, and credentials for the system.

use std::path::Path;

use secrecy::SecretString;
use url::Url;

use super::reader::{Reader, required};
use super::resolve::REQUEST_TIMEOUT_DEFAULT;
use super::setting::{ENDPOINT, REQUEST_TIMEOUT, RUN_ID, SECRETS_DIR, TOKEN};
use super::tool_settings::ca_bundle;
use super::{Arguments, Environment, SettingsError, Variable, parse, token, variable};
use butler_protocol::references::SecretSources;
use butler_protocol::spec::{RunId, SensitiveValues};
use butler_start::trigger::TriggerSettings;

/// The run for which a CI system or a cluster should start the runner.
pub struct TriggeredRun {
    /// The URL of the registry.
    pub endpoint: Url,
    /// The id of the run.
    pub run_id: RunId,
    /// The callback token of the run.
    pub token: SecretString,
    /// Probable mistakes.
    pub warnings: Vec<String>,
}

/// Reads and checks the settings for requests to a CI system.
///
/// # Errors
/// If one of them is not usable.
pub fn trigger_settings(
    arguments: &Arguments,
    environment: &Environment,
) -> Result<TriggerSettings, SettingsError> {
    let reader = Reader { arguments, environment };
    Ok(TriggerSettings {
        ca_bundle: ca_bundle(&reader)?,
        request_timeout: reader
            .parsed(&REQUEST_TIMEOUT, parse::interval)?
            .unwrap_or(REQUEST_TIMEOUT_DEFAULT),
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

impl TriggeredRun {
    /// Reads and checks the run's settings.
    ///
    /// # Errors
    /// If one of them is missing or not usable.
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
    let text = value.to_str().ok_or_else(|| SettingsError::InVariable {
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
    fn registry_token_is_refused() {
        assert!(TriggeredRun::resolve(&Arguments::default(), &environment(&RUN)).is_ok());
        let other = [RUN[0], RUN[1], ("BUTLER_TOKEN", "breg_hunter2")];
        let error =
            TriggeredRun::resolve(&Arguments::default(), &environment(&other)).err().unwrap();
        assert!(error.to_string().contains("`breg_`") && !error.to_string().contains("hunter2"));
    }

    #[test]
    fn token_can_be_in_a_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "brce_file\n").unwrap();
        let arguments = Arguments::default().with(&TOKEN_FILE, file.path());
        assert!(TriggeredRun::resolve(&arguments, &environment(&RUN[..2])).is_ok());
        let missing = TriggeredRun::resolve(&Arguments::default(), &environment(&RUN[..2]));
        assert!(matches!(missing, Err(SettingsError::Missing { .. })));
    }
}
