//! The settings that `doctor` checks: those of a run, as far as they are given.
//!
//! Outside of a run there is no run id and no token, so a missing setting is not an error here. A setting with an
//! unusable value is an error, which is reported with the other findings.

use std::path::Path;

use secrecy::SecretString;
use url::Url;

use super::reader::Reader;
use super::setting::{ENDPOINT, RUN_ID};
use super::{
    Arguments, Environment, RunSource, Settings, SettingsError, parse, source, token, variable,
};
use crate::ci::System;
use butler_protocol::spec::{Operation, RunId};

/// The settings that are known before a run.
#[derive(Debug)]
pub struct DoctorSettings {
    /// The settings of a run, or the reason why it would not begin.
    pub run: Result<Settings, SettingsError>,
    /// The registry, or the setting of it that is not usable.
    pub registry: Result<RegistryAccess, SettingsError>,
    /// The systems that started this process, the innermost first.
    pub systems: Vec<&'static str>,
}

/// The settings for the registry.
#[derive(Debug, Default)]
pub struct RegistryAccess {
    /// The address, as in [`RunSource::Registry`].
    pub endpoint: Option<Url>,
    /// The id of a run.
    pub run_id: Option<RunId>,
    /// The token of that run.
    pub token: Option<SecretString>,
}

impl DoctorSettings {
    /// Reads and checks the given settings. Has the same effects as [`Settings::resolve`].
    #[must_use]
    pub fn resolve(arguments: &Arguments, environment: &Environment) -> Self {
        let reader = Reader { arguments, environment };
        let mut warnings = Vec::new();
        let source = match source::source(&reader, &mut warnings) {
            Err(SettingsError::Missing { .. }) => Ok(placeholder_run()),
            source => source,
        };
        Self {
            run: source.and_then(|source| Settings::resolve_for_source(source, warnings, &reader)),
            registry: RegistryAccess::read(&reader),
            systems: systems(environment, |path| Path::new(path).exists()),
        }
    }
}

impl RegistryAccess {
    fn read(reader: &Reader<'_>) -> Result<Self, SettingsError> {
        Ok(Self {
            endpoint: reader.parsed(&ENDPOINT, parse::endpoint)?,
            run_id: reader.parsed(&RUN_ID, parse::run_id)?,
            token: match token::token(reader.arguments, reader.environment, &mut Vec::new()) {
                Err(SettingsError::Missing { .. }) => None,
                token => Some(token?),
            },
        })
    }
}

/// A run that is never started, so that the other settings can be checked.
fn placeholder_run() -> RunSource {
    RunSource::Local {
        module_dir: "/".into(),
        operation: Operation::Plan,
        tool: None,
        options: Box::default(),
    }
}

fn systems(environment: &Environment, exists: impl Fn(&str) -> bool) -> Vec<&'static str> {
    let is_set = |name: &str| environment.value(name).is_some_and(|value| value != "false");
    let known = System::ALL.into_iter();
    let known = known.filter(|system| !matches!(system, System::Plain | System::None));
    let known = known.filter(|system| system.is_here(is_set, &exists));
    let mut systems: Vec<_> = known.map(System::title).collect();
    if is_set(variable::KUBERNETES_SERVICE_HOST.name) {
        systems.push("Kubernetes");
    }
    systems
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::setting::{CA_BUNDLE, CACHE_DIR, LOCAL};

    fn environment(variables: &[(&str, &str)]) -> Environment {
        let variables = variables.iter().map(|(name, value)| (name.into(), value.into()));
        Environment::new(variables.collect(), "/butler-runner".into())
    }

    fn arguments() -> Arguments {
        Arguments::default().with(&CACHE_DIR, "/proc/nonexistent")
    }

    #[test]
    fn missing_setting_is_allowed_and_unusable_setting_is_an_error() {
        let settings = DoctorSettings::resolve(&arguments(), &environment(&[]));
        assert!(settings.run.is_ok() && settings.registry.unwrap().endpoint.is_none());
        let local = arguments().with(&LOCAL, "true");
        assert!(DoctorSettings::resolve(&local, &environment(&[])).run.is_ok());
        let bundle = arguments().with(&CA_BUNDLE, "/proc/nonexistent/bundle");
        let settings = DoctorSettings::resolve(&bundle, &environment(&[]));
        assert!(settings.run.unwrap_err().to_string().contains("--ca-bundle"));
        let wrong = environment(&[("BUTLER_ENDPOINT", "no url")]);
        let settings = DoctorSettings::resolve(&arguments(), &wrong);
        assert!(settings.registry.unwrap_err().to_string().contains("--endpoint"));
    }

    #[test]
    fn settings_do_not_show_the_token() {
        let variables = [("BUTLER_ENDPOINT", "http://a"), ("BUTLER_TOKEN", "brce_hunter2")];
        let settings = DoctorSettings::resolve(&arguments(), &environment(&variables));
        assert!(settings.registry.as_ref().unwrap().token.is_some());
        assert!(!format!("{settings:?}").contains("hunter2"));
    }

    #[test]
    fn system_is_recognised_by_its_variable() {
        let nowhere = |_: &str| false;
        for system in System::ALL {
            let Some(name) = system.variable() else { continue };
            assert_eq!(systems(&environment(&[(name, "true")]), nowhere), [system.title()]);
        }
        let both = environment(&[("GITLAB_CI", "true"), ("KUBERNETES_SERVICE_HOST", "10.0.0.1")]);
        assert_eq!(systems(&both, nowhere), ["GitLab CI", "Kubernetes"]);
        let off = environment(&[("GITHUB_ACTIONS", "false")]);
        assert_eq!(systems(&off, nowhere), [""; 0]);
        assert_eq!(systems(&off, |_| true), ["Tekton"]);
    }
}
