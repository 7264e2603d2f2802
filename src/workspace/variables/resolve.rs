//! Resolves a run's references and settles which value a variable has.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use secrecy::{ExposeSecret, SecretString};
use serde_json::value::RawValue;

use super::{Inputs, Unresolved, VariableError, names};
use crate::spec::{EnvironmentVariable, RunSpec, Variable};
use crate::workspace::SecretSources;
use crate::workspace::hcl::{is_identifier, json_string, nests_too_deep};
use crate::workspace::references::Lookup;

/// Resolves every reference of the run; the secrets never leave the returned value.
///
/// A sensitive variable without a value, or with the value `null`, goes by its name alone. A
/// variable that is not sensitive and has no value is left to the module's default; `null` is a
/// value for it, as in Terraform. Of several entries of one name the last counts.
///
/// # Errors
/// Names every variable that cannot be resolved, and how to supply it.
pub fn resolve(spec: &RunSpec, sources: &SecretSources) -> Result<Inputs, VariableError> {
    let mut resolver = Resolver { sources, unresolved: Vec::new() };
    let mut inputs = Inputs::default();
    // Of several outputs of one name the last counts.
    let upstream: HashMap<&str, &SecretString> =
        spec.upstream_outputs.iter().map(|(name, value)| (name.as_str(), value)).collect();
    let mut variables = Entries::default();
    let mut environment = Entries::default();
    let mut replaced = Vec::new();
    let mut left_out = Vec::new();
    for (name, variable) in &spec.variables {
        if !is_identifier(name) {
            return Err(VariableError::Name(name.clone()));
        }
        if let Some(value) = upstream.get(name.as_str()) {
            variables.put(name, (*value).clone(), variable.sensitive);
            replaced.push(name);
        } else if let Some((value, sensitive)) = resolver.variable(name, variable)? {
            variables.put(name, value, sensitive);
        }
    }
    let is_replaced: HashSet<&String> = replaced.iter().copied().collect();
    for (name, value) in &spec.upstream_outputs {
        if !is_identifier(name) {
            return Err(VariableError::Name(name.clone()));
        }
        if !is_replaced.contains(name) {
            variables.put(name, value.clone(), false);
        }
    }
    inputs.variables = variables.list;
    for (name, value, _) in &inputs.variables {
        let json = value.expose_secret();
        if serde_json::from_str::<&RawValue>(json).is_err() {
            return Err(VariableError::Json(name.clone()));
        }
        if nests_too_deep(json) {
            return Err(VariableError::TooDeep(name.clone()));
        }
    }
    for (name, variable) in &spec.environment {
        if let Some(message) = judge(name, variable)? {
            left_out.push(message);
            continue;
        }
        let value = resolver.environment_variable(name, variable)?;
        if let Some(value) = value {
            environment.put(name, value, variable.sensitive);
        }
    }
    inputs.environment = environment.list;
    if !resolver.unresolved.is_empty() {
        return Err(VariableError::Unresolved(resolver.unresolved));
    }
    for name in replaced {
        inputs.messages.push(format!("Variable `{name}` is taken from an upstream output"));
    }
    inputs.messages.extend(left_out);
    inputs.messages.extend(summary(&inputs.variables, "variable"));
    inputs.messages.extend(summary(&inputs.environment, "environment variable"));
    Ok(inputs)
}

/// Names with their values, each once, in the order in which they came.
#[derive(Default)]
struct Entries<'names> {
    list: Vec<(String, SecretString, bool)>,
    places: HashMap<&'names str, usize>,
}

impl<'names> Entries<'names> {
    /// Adds an entry, in the place of an earlier one of that name.
    fn put(&mut self, name: &'names str, value: SecretString, sensitive: bool) {
        match self.places.entry(name) {
            Entry::Occupied(place) => {
                let entry = &mut self.list[*place.get()];
                (entry.1, entry.2) = (value, sensitive);
            }
            Entry::Vacant(place) => {
                place.insert(self.list.len());
                self.list.push((name.to_owned(), value, sensitive));
            }
        }
    }
}

fn summary(list: &[(String, SecretString, bool)], what: &str) -> Option<String> {
    let plural = if list.len() == 1 { "" } else { "s" };
    let mut text = format!("Resolved {} {what}{plural}: ", list.len());
    for (index, (name, _, sensitive)) in list.iter().enumerate() {
        text.push_str(if index == 0 { "" } else { ", " });
        text.push_str(name);
        text.push_str(if *sensitive { " [sensitive]" } else { "" });
    }
    (!list.is_empty()).then_some(text)
}

/// Whether Terraform may get the variable; if not, `Ok` says what the log has to tell.
fn judge(name: &str, variable: &EnvironmentVariable) -> Result<Option<String>, VariableError> {
    if !is_environment_name(name) {
        return Err(VariableError::EnvironmentName(name.to_owned()));
    }
    names::judge(name, variable.value.expose_secret())
}

/// Whether the operating system and people can tell such a name from others.
pub(in crate::workspace) fn is_environment_name(name: &str) -> bool {
    !name.is_empty() && !name.contains('=') && !name.contains(char::is_control)
}

struct Resolver<'sources> {
    sources: &'sources SecretSources,
    unresolved: Vec<Unresolved>,
}

impl Resolver<'_> {
    /// The value as JSON text and whether it is sensitive; none when there is none, which for a
    /// secret is also noted as unresolved.
    fn variable(
        &mut self,
        name: &str,
        variable: &Variable,
    ) -> Result<Option<(SecretString, bool)>, VariableError> {
        let given = variable.value.as_ref();
        let lookup = match (&variable.reference, given) {
            (Some(reference), _) => Lookup { reference: Some(reference.clone()), showable: true },
            (None, value) if !variable.sensitive => {
                return Ok(value.map(|value| (value.clone(), false)));
            }
            (None, Some(value)) if value.expose_secret().trim() != "null" => {
                let text = json_string(value.expose_secret());
                match text.and_then(|text| self.sources.guess(&text)) {
                    Some(lookup) => lookup,
                    None => return Ok(Some((value.clone(), true))),
                }
            }
            (None, _) => Lookup { reference: None, showable: true },
        };
        let secret = self.look_up(name, &lookup)?;
        secret
            .map(|secret| {
                serde_json::to_string(secret.expose_secret())
                    .map(|json| (SecretString::from(json), true))
                    .map_err(|_| VariableError::Json(name.to_owned()))
            })
            .transpose()
    }

    fn environment_variable(
        &mut self,
        name: &str,
        variable: &EnvironmentVariable,
    ) -> Result<Option<SecretString>, VariableError> {
        let text = variable.value.expose_secret();
        let lookup = if variable.sensitive { self.sources.guess(text) } else { None };
        let value = match lookup {
            Some(lookup) => self.look_up(name, &lookup)?,
            None => Some(variable.value.clone()),
        };
        match value {
            Some(value) if value.expose_secret().contains('\0') => {
                Err(VariableError::EnvironmentValue(name.to_owned()))
            }
            value => Ok(value),
        }
    }

    fn look_up(
        &mut self,
        name: &str,
        lookup: &Lookup,
    ) -> Result<Option<SecretString>, VariableError> {
        let secret = self
            .sources
            .find(name, lookup)
            .map_err(|source| VariableError::Reference { name: name.to_owned(), source })?;
        if secret.is_none() {
            let ways = self.sources.advice(name, lookup);
            self.unresolved.push(Unresolved { name: name.to_owned(), ways });
        }
        Ok(secret)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::PathBuf;

    use super::*;
    use crate::error::Advice;
    use crate::spec::{Operation, SecretReference, Source, TerraformSetup};
    use crate::workspace::{ReferenceError, SensitiveValues};

    fn spec(variables: &[(&str, Variable)]) -> RunSpec {
        RunSpec {
            operation: Operation::Plan,
            tool: None,
            source: Source::Directory(PathBuf::new()),
            variables: variables
                .iter()
                .map(|(name, one)| ((*name).to_owned(), copy(one)))
                .collect(),
            upstream_outputs: Vec::new(),
            environment: Vec::new(),
            backend: None,
            setup: TerraformSetup::default(),
        }
    }

    fn copy(variable: &Variable) -> Variable {
        let Variable { value, sensitive, reference } = variable;
        Variable { value: value.clone(), sensitive: *sensitive, reference: reference.clone() }
    }

    fn plain(json: &str) -> Variable {
        Variable { value: Some(json.into()), sensitive: false, reference: None }
    }

    fn secret(json: &str) -> Variable {
        Variable { sensitive: true, ..plain(json) }
    }

    fn referring(namespace: Option<&str>, name: &str, key: Option<&str>) -> Variable {
        let reference = SecretReference {
            namespace: namespace.map(str::to_owned),
            name: name.to_owned(),
            key: key.map(str::to_owned),
        };
        Variable { value: None, sensitive: true, reference: Some(reference) }
    }

    fn environment(variables: &[(&str, &str)]) -> SecretSources {
        let environment: BTreeMap<_, _> =
            variables.iter().map(|(name, value)| (name.into(), value.into())).collect();
        SecretSources { environment, ..SecretSources::default() }
    }

    fn exposed(list: &[(String, SecretString, bool)]) -> Vec<(&str, &str, bool)> {
        list.iter()
            .map(|(name, value, sensitive)| (name.as_str(), value.expose_secret(), *sensitive))
            .collect()
    }

    #[test]
    fn log_names_variables_and_marks_the_sensitive_ones() {
        let spec = spec(&[
            ("region", plain("\"eu\"")),
            ("vpc_cidr", plain("\"10.0.0.0/16\"")),
            ("absent", Variable { value: None, sensitive: false, reference: None }),
            ("db_password", secret("\"hunter2!\"")),
        ]);
        let inputs = resolve(&spec, &SecretSources::default()).unwrap();
        assert_eq!(
            inputs.messages,
            ["Resolved 3 variables: region, vpc_cidr, db_password [sensitive]"]
        );
    }

    #[test]
    fn upstream_output_wins_and_needs_no_secret() {
        let mut spec = spec(&[("a", referring(None, "X", None)), ("b", plain("1"))]);
        spec.upstream_outputs =
            vec![("c".to_owned(), "3".into()), ("a".to_owned(), "[1.10]".into())];
        let inputs = resolve(&spec, &SecretSources::default()).unwrap();
        assert_eq!(
            exposed(&inputs.variables),
            [("a", "[1.10]", true), ("b", "1", false), ("c", "3", false)]
        );
        assert_eq!(
            inputs.messages,
            [
                "Variable `a` is taken from an upstream output",
                "Resolved 3 variables: a [sensitive], b, c"
            ]
        );
    }

    #[test]
    fn twenty_thousand_variables_are_resolved_and_the_last_of_a_name_counts() {
        let mut run = spec(&[]);
        for n in 0..20_000 {
            let value = |round: usize| SecretString::from(format!("{}", n + round));
            for round in 0..2 {
                let variable = Variable { value: Some(value(round)), ..plain("") };
                run.variables.push((format!("v{n}"), variable));
                let variable = EnvironmentVariable { value: value(round), sensitive: false };
                run.environment.push((format!("E{n}"), variable));
                run.upstream_outputs.push((format!("v{}", n + 10_000), value(round)));
            }
        }
        let inputs = resolve(&run, &SecretSources::default()).unwrap();
        assert_eq!((inputs.variables.len(), inputs.environment.len()), (30_000, 20_000));
        let all = exposed(&inputs.variables);
        assert_eq!(all[7], ("v7", "8", false));
        assert_eq!(all[10_007], ("v10007", "8", false), "upstream output {}", all[10_007].0);
        assert_eq!(exposed(&inputs.environment)[19_999], ("E19999", "20000", false));
    }

    #[test]
    fn reference_is_looked_up_in_order() {
        let directory = tempfile::tempdir().unwrap();
        for (path, text) in [("ns/db/pw", "exact\n\n"), ("db/pw", "short\r\n")] {
            let path = directory.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let found = |variables: &[(&str, &str)], variable| {
            let mut sources = environment(variables);
            sources.directory = Some(directory.path().to_owned());
            let inputs = resolve(&spec(&[("x", variable)]), &sources).unwrap();
            assert!(inputs.variables[0].2);
            json_string(inputs.variables[0].1.expose_secret()).unwrap().to_string()
        };
        let all = [("TF_VAR_x", "first"), ("db", "second")];
        assert_eq!(found(&all, referring(None, "db", Some("pw"))), "first");
        assert_eq!(found(&all[1..], referring(None, "db", Some("pw"))), "second");
        assert_eq!(found(&[("TF_VAR_x", "")], referring(Some("ns"), "db", Some("pw"))), "exact\n");
        assert_eq!(found(&[("db", "second")], referring(Some("ns"), "db", Some("pw"))), "exact\n");
        assert_eq!(found(&[], referring(Some("other"), "db", Some("pw"))), "short");
        assert_eq!(found(&[], secret("\"ns/db:pw\"")), "exact\n");
        assert_eq!(found(&[], secret("\"db:pw\"")), "short");
        assert_eq!(found(&[("DB_PW", "env")], secret("\"DB_PW\"")), "env");
        assert_eq!(found(&all, secret("null")), "first");
    }

    #[test]
    fn only_what_looks_like_a_reference_is_one() {
        let sources = environment(&[("DB_PW", "found"), ("BUTLER_TOKEN", "brce_x")]);
        let literal = SecretSources { values: SensitiveValues::Literal, ..sources.clone() };
        for value in [
            "\"Ab:cd\"",
            "\"a/b/c:d\"",
            "\"a:b:c\"",
            "\"-a:b\"",
            "\"a\"",
            "\"\"",
            "12",
            "\"BUTLER_TOKEN\"",
        ] {
            let inputs = resolve(&spec(&[("x", secret(value))]), &sources).unwrap();
            assert_eq!(exposed(&inputs.variables), [("x", value, true)]);
        }
        for value in ["\"ns/db:pw\"", "\"db:pw\"", "\"DB_PW\""] {
            let inputs = resolve(&spec(&[("x", secret(value))]), &literal).unwrap();
            assert_eq!(exposed(&inputs.variables), [("x", value, true)]);
            let inputs = resolve(&spec(&[("x", plain(value))]), &sources).unwrap();
            assert_eq!(exposed(&inputs.variables), [("x", value, false)]);
        }
    }

    #[test]
    fn every_unresolved_secret_is_named_with_the_ways_to_supply_it() {
        let mut spec = spec(&[
            ("by_name", Variable { value: None, sensitive: true, reference: None }),
            ("fine", secret("\"x y\"")),
            ("ci", referring(None, "DB_PW", None)),
            ("kube", secret("\"ns/db:pw\"")),
            ("doubtful", secret("\"admin:hunter2\"")),
        ]);
        let value = SecretString::from("ns/aws:key");
        spec.environment =
            vec![("AWS_KEY".to_owned(), EnvironmentVariable { value, sensitive: true })];
        let directory = PathBuf::from("/secrets");
        let sources = SecretSources { directory: Some(directory), ..SecretSources::default() };
        let error = resolve(&spec, &sources).unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot resolve 5 secrets: `by_name` (set `TF_VAR_by_name`), \
             `ci` (set `TF_VAR_ci` or set `DB_PW`), \
             `kube` (set `TF_VAR_kube` or mount `/secrets/ns/db/pw`), \
             `doubtful` (set `TF_VAR_doubtful` or mount the secret that it names below --secrets-dir), \
             `AWS_KEY` (set `TF_VAR_AWS_KEY` or mount `/secrets/ns/aws/key`)"
        );
        assert!(error.advice().unwrap().contains("--sensitive-values literal"));
    }

    #[test]
    fn reference_cannot_leave_the_secrets_directory() {
        for (namespace, name, key) in [
            (Some(".."), "a", "b"),
            (None, "..", "b"),
            (None, "a", "../b"),
            (None, "a", ""),
            (None, "/", "b"),
        ] {
            let spec = spec(&[("x", referring(namespace, name, Some(key)))]);
            let result = resolve(&spec, &SecretSources::default());
            let refused = matches!(
                result,
                Err(VariableError::Reference { source: ReferenceError::Part, .. })
            );
            assert!(refused, "{name}/{key}");
        }
    }

    #[test]
    fn environment_takes_references_and_refuses_what_is_no_name() {
        let mut run = spec(&[]);
        let mut give = |name: &str, value: &str, sensitive| {
            let value = SecretString::from(value);
            run.environment = vec![(name.to_owned(), EnvironmentVariable { value, sensitive })];
            resolve(&run, &environment(&[("CI_AWS", "AKIA"), ("TF_VAR_pw", "pw")]))
        };
        let inputs = give("AWS_KEY", "CI_AWS", true).unwrap();
        assert_eq!(exposed(&inputs.environment), [("AWS_KEY", "AKIA", true)]);
        assert_eq!(inputs.messages, ["Resolved 1 environment variable: AWS_KEY [sensitive]"]);
        let inputs = give("TF_VAR_pw", "ns/db:pw", true).unwrap();
        assert_eq!(exposed(&inputs.environment), [("TF_VAR_pw", "pw", true)]);
        let inputs = give("AWS_KEY", "CI_AWS", false).unwrap();
        assert_eq!(exposed(&inputs.environment), [("AWS_KEY", "CI_AWS", false)]);
        for name in ["", "A=B", "A\0", "A\nB"] {
            assert!(matches!(give(name, "", false), Err(VariableError::EnvironmentName(_))));
        }
        assert!(matches!(give("A", "a\0", false), Err(VariableError::EnvironmentValue(_))));
    }

    #[test]
    fn name_or_value_that_would_break_the_file_is_refused() {
        for name in ["", "a b", "a\"", "1a", "a=b", "//", "a.b"] {
            let result = resolve(&spec(&[(name, plain("1"))]), &SecretSources::default());
            assert!(matches!(result, Err(VariableError::Name(_))), "{name}");
        }
        for value in ["1,\"b\":2", "", "x"] {
            let result = resolve(&spec(&[("a", plain(value))]), &SecretSources::default());
            assert!(matches!(result, Err(VariableError::Json(_))), "{value}");
        }
        for (depth, fits) in [(64, true), (65, false), (100_000, false)] {
            let value = format!("{}\"]]\"{}", "[".repeat(depth), "]".repeat(depth));
            let result = resolve(&spec(&[("a", plain(&value))]), &SecretSources::default());
            assert_eq!(result.is_ok(), fits, "{depth}");
        }
    }
}
