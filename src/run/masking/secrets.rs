//! Registers the secrets of settings, configuration and variables with the redactor.

use std::collections::BTreeMap;
use std::ffi::OsString;

use secrecy::ExposeSecret;

use super::ambient::{add_environment, add_sensitive_variable, add_variable};
use super::backend_secrets::add_backend;
use super::collected::{CollectedSecrets, SecretEvidence};
use crate::settings::{RunSource, Settings};
use crate::workspace::{AssignedSecrets, Inputs, written_token};
use butler_base::secret::Redactor;
use butler_protocol::spec::{GitCredentials, GitSource, PlanningOptions, RunSpec};
use butler_source::module::Module;

/// Registers the secrets in the settings: the callback token, tokens for git, logins for mirrors, and credentials in the
/// environment that children inherit.
pub fn register_settings(redactor: &Redactor, settings: &Settings) {
    let mut collected = CollectedSecrets::default();
    if let RunSource::Registry { token, .. } = &settings.source {
        collected.add_nameless(token.expose_secret());
    }
    for token in &settings.git.tokens {
        collected.add_nameless(token.token.expose_secret());
    }
    for mirror in settings.tool.sites.urls() {
        collected.add_login(mirror.as_str());
    }
    for secret in settings.tool.sites.secrets() {
        collected.add_nameless(secret.expose_secret());
    }
    add_environment(&mut collected, &settings.environment);
    collected.register(redactor);
}

/// Registers the logins in the run's configuration. Variables are registered after their references are resolved: before
/// that, a value can be the name of a secret, which a hint contains.
pub(in crate::run) fn register_spec(redactor: &Redactor, spec: &RunSpec) {
    let mut collected = CollectedSecrets::default();
    if let Some(source) = spec.source.repository() {
        add_git(&mut collected, source);
    }
    if let Some(backend) = &spec.backend {
        add_backend(&mut collected, backend);
    }
    for (setting, secret) in &spec.setup.secrets {
        collected.add(SecretEvidence::Certain, setting, secret.expose_secret());
    }
    for (_, token) in spec.setup.cli_config.iter().flat_map(|config| &config.credentials) {
        // The same secret in the form of the CLI configuration. It is registered by name above.
        collected.add_nameless(written_token(token).expose_secret());
    }
    collected.register(redactor);
}

/// Registers variables that the run marks as sensitive, and secrets in its other environment variables.
pub(in crate::run) fn register_inputs(redactor: &Redactor, inputs: &Inputs) {
    let mut collected = CollectedSecrets::default();
    for (name, value, _) in inputs.variables.iter().filter(|(.., sensitive)| *sensitive) {
        collected.add_json(SecretEvidence::Certain, name, value.expose_secret());
    }
    for (name, value, sensitive) in &inputs.environment {
        let add = if *sensitive { add_sensitive_variable } else { add_variable };
        add(&mut collected, name, value.expose_secret());
    }
    collected.register(redactor);
}

/// Registers values of variables that only the module declares as sensitive: the run's, and those in the environment of
/// the job, `ambient`.
pub(in crate::run) fn register_declared(
    redactor: &Redactor,
    inputs: &Inputs,
    module: &Module,
    ambient: &BTreeMap<OsString, OsString>,
) {
    let mut collected = CollectedSecrets::default();
    for (name, value, _) in &inputs.variables {
        if module.is_secret(name) {
            collected.add_json(SecretEvidence::Certain, name, value.expose_secret());
        }
    }
    let given = inputs.environment.iter();
    let given = given.map(|(name, value, _)| (name.as_str(), value.expose_secret()));
    let ambient =
        ambient.iter().filter_map(|(name, value)| Some((name.to_str()?, value.to_str()?)));
    for (name, value) in given.chain(ambient) {
        let name = name.strip_prefix("TF_VAR_");
        if let Some(name) = name.filter(|name| module.is_secret(name)) {
            collected.add_text(SecretEvidence::Certain, name, value);
        }
    }
    collected.register(redactor);
}

/// The same for values on the command line.
pub(in crate::run) fn register_typed(
    redactor: &Redactor,
    planning: &PlanningOptions,
    module: &Module,
) {
    let mut collected = CollectedSecrets::default();
    for (name, value) in planning.values() {
        if module.is_secret(name) {
            collected.add_text(SecretEvidence::Certain, name, value);
        }
    }
    collected.register(redactor);
}

/// Registers the values in the module's files and in variable files.
pub(in crate::run) fn register_assigned(redactor: &Redactor, assigned: &AssignedSecrets) {
    let mut collected = CollectedSecrets::default();
    for (name, json) in &assigned.values {
        collected.add_json(SecretEvidence::Certain, name, json.expose_secret());
    }
    for text in &assigned.texts {
        collected.add_nameless(text.expose_secret());
    }
    if assigned.is_incomplete() {
        redactor.hide_everything();
    } else {
        collected.register(redactor);
    }
}

fn add_git(collected: &mut CollectedSecrets<'_>, source: &GitSource) {
    collected.add_git_login(source.repository.expose_secret());
    match &source.credentials {
        GitCredentials::Token { token: secret, .. }
        | GitCredentials::Password { password: secret, .. } => {
            collected.add_nameless(secret.expose_secret());
        }
        GitCredentials::SshKey { private_key, passphrase, .. } => {
            collected.add_nameless(private_key.expose_secret());
            if let Some(passphrase) = passphrase {
                collected.add_nameless(passphrase.expose_secret());
            }
        }
        GitCredentials::None | GitCredentials::GithubApp => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use butler_protocol::spec::Assignment;
    use butler_source::module::VariableDeclaration;

    #[test]
    fn twenty_thousand_variables_are_registered() {
        let list = |prefix: &str| {
            (0..20_000)
                .map(|n| (format!("{prefix}_{n}"), format!("\"hunter-{n}-{prefix}\"").into(), true))
                .collect()
        };
        let inputs = Inputs { variables: list("v"), environment: list("e"), ..Inputs::default() };
        let redactor = Redactor::new();
        register_inputs(&redactor, &inputs);
        assert_eq!(format!("{redactor:?}"), "40000 secrets");
    }

    #[test]
    fn variables_that_the_module_declares_sensitive_are_masked_from_all_sources() {
        let open = VariableDeclaration::default();
        masked_from_all_sources(VariableDeclaration { sensitive: true, ..open });
        masked_from_all_sources(VariableDeclaration { ephemeral: true, ..open });
    }

    fn masked_from_all_sources(secret: VariableDeclaration) {
        let mut module = Module::default();
        let open = VariableDeclaration::default();
        for (name, declared) in [("a", secret), ("b", secret), ("c", secret), ("open", open)] {
            module.variables.insert(name.to_owned(), declared);
        }
        let given = |name: &str, value: &str| (name.to_owned(), value.into(), false);
        let inputs = Inputs {
            variables: vec![given("a", "\"by-variable\""), given("open", "\"open\"")],
            environment: vec![given("TF_VAR_b", "[\"by-environment\"]")],
            ..Inputs::default()
        };
        let ambient = [("TF_VAR_c", "postgres"), ("TF_VAR_open", "opened"), ("c", "another")];
        let ambient = ambient.map(|(name, value)| (name.into(), value.into())).into();
        let redactor = Redactor::new();
        register_declared(&redactor, &inputs, &module, &ambient);
        let typed = ["a=by-flag", "open=typed"].map(|text| Assignment::parse(text).unwrap());
        let typed = PlanningOptions { assignments: typed.into(), ..PlanningOptions::default() };
        register_typed(&redactor, &typed, &module);
        let shown = redactor
            .redact(b"by-variable open by-environment postgres opened another by-flag typed");
        assert_eq!(shown, "*** open *** *** opened another *** typed");
    }
}
