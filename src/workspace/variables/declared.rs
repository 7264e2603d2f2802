//! Applies the module's declarations to the inputs: whether a sensitive variable needs a value, and which undeclared
//! variables are environment variables.
//!
//! A registry sends environment variables of a module among its variables, without a category. An undeclared name such as
//! `AWS_REGION` is an environment variable. Other undeclared variables are passed to Terraform, which warns about them.

use std::collections::HashSet;

use secrecy::{ExposeSecret, SecretString};

use super::{Inputs, Unresolved, VariableError, names};
use butler_protocol::references::INPUT_PREFIX;
use butler_protocol::spec::RunSpec;
use butler_source::hcl::json_string;
use butler_source::module::Module;

/// Applies the declarations of `module` to `inputs`. Returns lines for the log.
///
/// # Errors
/// Names every sensitive variable that has neither a value nor a default in the module. Fails as
/// [`resolve`](super::resolve) does if a name or value cannot be an environment variable.
pub fn apply_declarations(
    inputs: &mut Inputs,
    spec: &RunSpec,
    module: &Module,
) -> Result<Vec<String>, VariableError> {
    let mut messages = Vec::new();
    let mut unresolved = Vec::new();
    for name in std::mem::take(&mut inputs.without_value) {
        let variable = name.strip_prefix(INPUT_PREFIX).unwrap_or(&name);
        if module.variables.get(variable).is_some_and(|declared| declared.has_default) {
            messages.push(format!("`{name}` has no value: the module's default counts"));
        } else if module.is_incomplete {
            // Terraform reports a variable without a value and without a default.
            messages.push(format!("`{name}` has no value: what the module says counts"));
        } else {
            unresolved.push(Unresolved::without_value(name));
        }
    }
    if !unresolved.is_empty() {
        return Err(VariableError::Unresolved(unresolved));
    }
    export_undeclared(inputs, spec, module, &mut messages)?;
    Ok(messages)
}

/// Moves undeclared variables with names of environment variables to the environment.
fn export_undeclared(
    inputs: &mut Inputs,
    spec: &RunSpec,
    module: &Module,
    messages: &mut Vec<String>,
) -> Result<(), VariableError> {
    // Outputs of other modules are never environment variables.
    let sent: HashSet<&str> = spec.variables.iter().map(|(name, _)| name.as_str()).collect();
    let given: HashSet<String> = inputs.environment.iter().map(|(name, ..)| name.clone()).collect();
    let mut kept = Vec::new();
    for (name, value, sensitive) in std::mem::take(&mut inputs.variables) {
        let is_meant = sent.contains(name.as_str())
            && is_upper_case(&name)
            && !module.variables.contains_key(&name);
        let Some(text) = is_meant.then(|| text(&value)).flatten() else {
            kept.push((name, value, sensitive));
            continue;
        };
        if given.contains(&name) {
            messages.push(format!(
                "not declared by the module: {name}; the run's environment variable of that name counts"
            ));
        } else if let Some(message) = names::check_name(&name, text.expose_secret())? {
            messages.push(message);
        } else if text.expose_secret().contains('\0') {
            return Err(VariableError::EnvironmentValue(name));
        } else {
            messages.push(format!(
                "not declared by the module: {name}; exported as an environment variable"
            ));
            inputs.environment.push((name.clone(), text, sensitive));
        }
        if module.is_incomplete {
            // A file that could not be parsed may declare it.
            kept.push((name, value, sensitive));
        }
    }
    inputs.variables = kept;
    Ok(())
}

/// Whether a name has the usual form of environment variables: `AWS_REGION`, `DEBUG`.
fn is_upper_case(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_uppercase())
        && name.bytes().all(|byte| matches!(byte, b'A'..=b'Z' | b'0'..=b'9' | b'_'))
}

/// The value for an environment variable: a text without quotes, other values as JSON; `None` for `null`.
fn text(json: &SecretString) -> Option<SecretString> {
    let json = json.expose_secret().trim();
    if json == "null" {
        return None;
    }
    let text = json_string(json);
    Some(SecretString::from(text.as_deref().unwrap_or(json)))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use butler_protocol::spec::{
        Operation, PlanFile, PlanPurpose, SensitiveValues, Source, TerraformSetup, Variable,
    };
    use butler_source::module::VariableDeclaration;

    fn module(variables: &[(&str, bool)]) -> Module {
        let mut module = Module::default();
        for (name, has_default) in variables {
            let declared =
                VariableDeclaration { has_default: *has_default, ..VariableDeclaration::default() };
            module.variables.insert((*name).to_owned(), declared);
        }
        module
    }

    fn run(variables: &[(&str, &str)]) -> (Inputs, RunSpec) {
        let spec = RunSpec {
            operation: Operation::Plan,
            tool: None,
            source: Source::Directory(PathBuf::new()),
            variables: variables
                .iter()
                .map(|(name, json)| {
                    let value = Some(SecretString::from(*json));
                    ((*name).to_owned(), Variable { value, sensitive: false, reference: None })
                })
                .collect(),
            sensitive_values: SensitiveValues::Auto,
            upstream_outputs: Vec::new(),
            environment: Vec::new(),
            backend: None,
            setup: TerraformSetup::default(),
            work_directory: None,
            plan_file: PlanFile::default(),
            plan_purpose: PlanPurpose::default(),
            force_unlock: None,
            state_report: butler_protocol::backend::StateReport::Omit,
        };
        let inputs =
            super::super::resolve(&spec, &butler_protocol::references::SecretSources::default());
        (inputs.unwrap(), spec)
    }

    fn shown(list: &[(String, SecretString, bool)]) -> Vec<(&str, &str)> {
        list.iter().map(|(name, value, _)| (name.as_str(), value.expose_secret())).collect()
    }

    #[test]
    fn undeclared_names_in_capitals_become_environment_variables() {
        let (mut inputs, spec) = run(&[
            ("AWS_REGION", "\"eu-central-1\""),
            ("COUNT", "3"),
            ("DECLARED", "\"variable\""),
            ("LIST", "[\"a\", 1]"),
            ("NOTHING", "null"),
            ("TAKEN", "\"lost\""),
            ("BUTLER_TOKEN", "\"lost\""),
            ("region", "\"eu\""),
            ("Mixed_Case", "\"m\""),
        ]);
        inputs.environment.push(("TAKEN".to_owned(), "given".into(), false));
        inputs.variables.push(("UPSTREAM".to_owned(), "\"output\"".into(), false));
        let messages =
            apply_declarations(&mut inputs, &spec, &module(&[("DECLARED", false)])).unwrap();
        assert_eq!(
            messages,
            [
                "not declared by the module: AWS_REGION; exported as an environment variable",
                "not declared by the module: COUNT; exported as an environment variable",
                "not declared by the module: LIST; exported as an environment variable",
                "not declared by the module: TAKEN; the run's environment variable of that name counts",
                "The environment variable `BUTLER_TOKEN` of the run is ignored: it is a setting of the runner, which reads none from the run",
            ]
        );
        assert_eq!(
            shown(&inputs.environment),
            [
                ("TAKEN", "given"),
                ("AWS_REGION", "eu-central-1"),
                ("COUNT", "3"),
                ("LIST", "[\"a\", 1]")
            ]
        );
        assert_eq!(
            shown(&inputs.variables),
            [
                ("DECLARED", "\"variable\""),
                ("NOTHING", "null"),
                ("region", "\"eu\""),
                ("Mixed_Case", "\"m\""),
                ("UPSTREAM", "\"output\""),
            ]
        );
    }

    #[test]
    fn forbidden_environment_variables_are_also_refused_among_variables() {
        for (name, value) in
            [("LD_PRELOAD", "\"/x.so\""), ("PATH", "\"/x\""), ("A", "\"a\\u0000\"")]
        {
            let (mut inputs, spec) = run(&[(name, value)]);
            let error = apply_declarations(&mut inputs, &spec, &Module::default()).unwrap_err();
            assert!(error.to_string().contains(name), "{error}");
        }
    }

    #[test]
    fn incomplete_module_gets_the_variable_in_both_places() {
        let (mut inputs, spec) = run(&[("AWS_REGION", "\"eu\"")]);
        let module = Module { is_incomplete: true, ..Module::default() };
        apply_declarations(&mut inputs, &spec, &module).unwrap();
        assert_eq!(shown(&inputs.environment), [("AWS_REGION", "eu")]);
        assert_eq!(shown(&inputs.variables), [("AWS_REGION", "\"eu\"")]);
    }

    #[test]
    fn sensitive_variable_without_a_value_needs_a_default_in_the_module() {
        let without = |names: &[&str]| {
            let (mut inputs, spec) = run(&[]);
            inputs.without_value = names.iter().map(|name| (*name).to_owned()).collect();
            (inputs, spec)
        };
        let declared = module(&[("a", true), ("b", true), ("c", false)]);
        let (mut inputs, spec) = without(&["a", "TF_VAR_b"]);
        assert_eq!(
            apply_declarations(&mut inputs, &spec, &declared).unwrap(),
            [
                "`a` has no value: the module's default counts",
                "`TF_VAR_b` has no value: the module's default counts"
            ]
        );
        let (mut inputs, spec) = without(&["a", "c", "d"]);
        let error = apply_declarations(&mut inputs, &spec, &declared).unwrap_err().to_string();
        assert_eq!(
            error,
            "cannot resolve 2 secrets: \
             `c` (it has no value: set `TF_VAR_c`, name a secret in the registry, or declare a default in the module), \
             `d` (it has no value: set `TF_VAR_d`, name a secret in the registry, or declare a default in the module)"
        );
        let (mut inputs, spec) = without(&["c", "d"]);
        let unknown = Module { is_incomplete: true, ..declared };
        assert_eq!(apply_declarations(&mut inputs, &spec, &unknown).unwrap().len(), 2);
    }
}
