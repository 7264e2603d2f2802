//! Turns a run's variables into the files and the environment that Terraform reads.
//!
//! Values stay the text that they came as, so that numbers keep every digit. Files are written to
//! the private directory only. Each value has lines of its own there, because Terraform quotes the
//! lines of a value that it does not like. A module's own variable files are left alone; ours come
//! later on the command line and win.

use std::fmt::Write;
use std::path::PathBuf;

use secrecy::{ExposeSecret, SecretString};
use semver::Version;
use serde_json::value::RawValue;
use zeroize::Zeroizing;

use super::hcl::{self, HclError, Shape, is_identifier, json_string};
use super::references::Lookup;
use super::{Module, ReferenceError, SecretSources, TypeKind};
use crate::secret::{PrivateDirectory, WipeError};
use crate::spec::{EnvironmentVariable, RunSpec, Variable};

/// The inputs of a run with every reference resolved.
#[derive(Debug, Default)]
pub struct Inputs {
    /// Variables in their order: name, JSON text, and whether it is sensitive.
    pub variables: Vec<(String, SecretString, bool)>,
    /// Terraform's additional environment: name, value, and whether it is sensitive.
    pub environment: Vec<(String, SecretString, bool)>,
    /// What the log should say, line by line: `Resolved 3 variables: region, db_password [sensitive]`,
    /// and which variables an upstream output replaced.
    pub messages: Vec<String>,
}

/// The variable files of a run.
#[derive(Debug, Default, Eq, PartialEq)]
pub struct VariableFiles {
    /// Files for `plan` and `test`, in the order in which they must be passed.
    pub plan: Vec<PathBuf>,
    /// Files for the `apply` of a saved plan: ephemeral variables only.
    pub apply: Vec<PathBuf>,
}

/// A secret that could not be found.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Unresolved {
    /// The variable, or the environment variable, that needs it.
    pub name: String,
    /// How the user can supply it, in one line.
    pub ways: String,
}

/// Why variables cannot be given to Terraform.
#[derive(Debug, thiserror::Error)]
pub enum VariableError {
    /// Terraform knows no such names.
    #[error("`{}` is no name of a Terraform variable", .0.escape_debug())]
    Name(String),
    /// The operating system knows no such names.
    #[error("`{}` is no name of an environment variable", .0.escape_debug())]
    EnvironmentName(String),
    /// A value that cannot be passed to a process.
    #[error("the environment variable `{0}` has a value with a NUL character in it")]
    EnvironmentValue(String),
    /// The value is no JSON text.
    #[error("the value of the variable `{0}` is no JSON")]
    Json(String),
    /// The variable's type needs HCL.
    #[error(
        "the variable `{name}` wants a list, map or object, and its text is no such value in HCL"
    )]
    Hcl {
        /// The variable.
        name: String,
        /// Where in the text; none when it is HCL, but no value.
        #[source]
        source: Option<HclError>,
    },
    /// A reference leads to something that cannot be used.
    #[error("cannot resolve the secret of `{name}`")]
    Reference {
        /// The variable.
        name: String,
        /// What is wrong.
        #[source]
        source: ReferenceError,
    },
    /// Secrets that are nowhere.
    #[error("cannot resolve {}", list(.0))]
    Unresolved(Vec<Unresolved>),
    /// A file cannot be written.
    #[error("cannot write the variable files")]
    Write(#[from] WipeError),
}

impl crate::error::Advice for VariableError {
    fn advice(&self) -> Option<String> {
        match self {
            Self::Hcl { .. } => Some("write lists as `[\"a\", \"b\"]`, maps as `{ a = 1 }`".to_owned()),
            Self::Unresolved(_) => Some(
                "where a value is the secret itself and not a reference, use --sensitive-values literal"
                    .to_owned(),
            ),
            _ => None,
        }
    }
}

fn list(unresolved: &[Unresolved]) -> String {
    let secrets = if unresolved.len() == 1 { "secret" } else { "secrets" };
    let each = unresolved.iter().map(|one| format!("`{}` ({})", one.name, one.ways));
    format!("{} {secrets}: {}", unresolved.len(), each.collect::<Vec<_>>().join(", "))
}

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
    let upstream = |name: &str| spec.upstream_outputs.iter().rfind(|(output, _)| output == name);
    let mut replaced = Vec::new();
    for (name, variable) in &spec.variables {
        if !is_identifier(name) {
            return Err(VariableError::Name(name.clone()));
        }
        if let Some((_, value)) = upstream(name) {
            put(&mut inputs.variables, name, value.clone(), variable.sensitive);
            replaced.push(name);
        } else if let Some((value, sensitive)) = resolver.variable(name, variable)? {
            put(&mut inputs.variables, name, value, sensitive);
        }
    }
    for (name, value) in &spec.upstream_outputs {
        if !is_identifier(name) {
            return Err(VariableError::Name(name.clone()));
        }
        if !replaced.contains(&name) {
            put(&mut inputs.variables, name, value.clone(), false);
        }
    }
    for (name, value, _) in &inputs.variables {
        if serde_json::from_str::<&RawValue>(value.expose_secret()).is_err() {
            return Err(VariableError::Json(name.clone()));
        }
    }
    for (name, variable) in &spec.environment {
        let value = resolver.environment_variable(name, variable)?;
        if let Some(value) = value {
            put(&mut inputs.environment, name, value, variable.sensitive);
        }
    }
    if !resolver.unresolved.is_empty() {
        return Err(VariableError::Unresolved(resolver.unresolved));
    }
    for name in replaced {
        inputs.messages.push(format!("Variable `{name}` is taken from an upstream output"));
    }
    inputs.messages.extend(summary(&inputs.variables, "variable"));
    inputs.messages.extend(summary(&inputs.environment, "environment variable"));
    Ok(inputs)
}

/// Adds an entry, in the place of an earlier one of that name.
fn put(
    list: &mut Vec<(String, SecretString, bool)>,
    name: &str,
    value: SecretString,
    sensitive: bool,
) {
    match list.iter_mut().find(|(known, ..)| known == name) {
        Some(entry) => (entry.1, entry.2) = (value, sensitive),
        None => list.push((name.to_owned(), value, sensitive)),
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
        if name.is_empty() || name.contains(['=', '\0']) {
            return Err(VariableError::EnvironmentName(name.to_owned()));
        }
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

/// Writes the variable files (mode 0600) into `private`.
///
/// # Errors
/// When a value does not fit its declared type's syntax, or a file cannot be written.
pub fn write_variable_files(
    inputs: &Inputs,
    module: &Module,
    tool: &Version,
    private: &PrivateDirectory,
) -> Result<VariableFiles, VariableError> {
    let ephemeral = |name: &str| module.variables.get(name).is_some_and(|found| found.ephemeral);
    // Before 1.10 there are no ephemeral variables, and apply refuses the flag for a saved plan.
    let applies = (tool.major, tool.minor) >= (1, 10);
    let all: Vec<_> = inputs.variables.iter().collect();
    let again: Vec<_> =
        all.iter().copied().filter(|(name, ..)| applies && ephemeral(name)).collect();
    Ok(VariableFiles {
        plan: write_files("variables", &all, module, private)?,
        apply: write_files("ephemeral", &again, module, private)?,
    })
}

/// Writes `variables` to `<name>.tfvars.json` and, where text is read as HCL, to `<name>.tfvars`;
/// no file without a variable.
fn write_files(
    name: &str,
    variables: &[&(String, SecretString, bool)],
    module: &Module,
    private: &PrivateDirectory,
) -> Result<Vec<PathBuf>, VariableError> {
    // Room for everything at once: a buffer that grows leaves copies behind.
    let room: usize = variables
        .iter()
        .map(|(name, value, _)| name.len() + value.expose_secret().len() + 16)
        .sum();
    let mut json = Zeroizing::new(String::with_capacity(room + 16));
    let mut hcl = Zeroizing::new(String::with_capacity(room));
    for (name, value, _) in variables {
        let value = value.expose_secret();
        let kind = module.variables.get(name).map_or(TypeKind::Undeclared, |found| found.kind);
        if let Some(text) = hcl_text(name, value, kind)? {
            // The parentheses let the text have lines before, in and after the value.
            let _ = write!(hcl, "{name} = (\n{}\n)\n", *text);
        } else {
            let start = if json.is_empty() { "{\n" } else { ",\n" };
            let _ = write!(json, "{start}\"{name}\":\n{value}");
        }
    }
    let mut files = Vec::new();
    if !json.is_empty() {
        json.push_str("\n}\n");
        files.push(private.write(&format!("{name}.tfvars.json"), json.as_bytes())?);
    }
    if !hcl.is_empty() {
        files.push(private.write(&format!("{name}.tfvars"), hcl.as_bytes())?);
    }
    Ok(files)
}

/// The value's text, where it is to be read as HCL: text for a variable whose type is no
/// primitive (Terraform's own rule for `-var` and `TF_VAR_` values). For `any`, text that is no
/// written-out HCL value is taken as it is.
fn hcl_text(
    name: &str,
    value: &str,
    kind: TypeKind,
) -> Result<Option<Zeroizing<String>>, VariableError> {
    if !matches!(kind, TypeKind::Any | TypeKind::Complex) {
        return Ok(None);
    }
    let Some(text) = json_string(value) else {
        return Ok(None);
    };
    let failed = |source| VariableError::Hcl { name: name.to_owned(), source };
    match (hcl::shape(&text), kind) {
        (Ok(Shape::Literal), _) | (Ok(Shape::Computed), TypeKind::Complex) => Ok(Some(text)),
        (_, TypeKind::Any) => Ok(None),
        (Ok(_), _) => Err(failed(None)),
        (Err(source), _) => Err(failed(Some(source))),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::error::Advice;
    use crate::spec::{Operation, SecretReference, Source};
    use crate::workspace::{SensitiveValues, VariableDeclaration};

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
        for name in ["", "A=B", "A\0"] {
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
    }

    fn written(kind: TypeKind, json: &str) -> Result<Vec<(String, String)>, VariableError> {
        let base = tempfile::tempdir().unwrap();
        let private = PrivateDirectory::create(base.path(), "run-").unwrap();
        let mut module = Module::default();
        let declaration = VariableDeclaration { kind, ..VariableDeclaration::default() };
        module.variables.insert("x".to_owned(), declaration);
        let inputs =
            Inputs { variables: vec![("x".to_owned(), json.into(), false)], ..Inputs::default() };
        let files = write_variable_files(&inputs, &module, &Version::new(1, 11, 4), &private)?;
        assert!(files.apply.is_empty());
        let content = files.plan.iter().map(|path| {
            let mode = std::fs::metadata(path).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            (name, std::fs::read_to_string(path).unwrap())
        });
        Ok(content.collect())
    }

    #[test]
    fn text_is_read_as_hcl_only_where_the_type_is_no_primitive() {
        let json = |json: &str| {
            vec![("variables.tfvars.json".to_owned(), format!("{{\n\"x\":\n{json}\n}}\n"))]
        };
        let hcl = |hcl: &str| vec![("variables.tfvars".to_owned(), format!("x = (\n{hcl}\n)\n"))];
        let map = r#""{ a = 1 }""#;
        assert_eq!(written(TypeKind::Primitive, map).unwrap(), json(map));
        assert_eq!(written(TypeKind::Undeclared, map).unwrap(), json(map));
        assert_eq!(written(TypeKind::Any, map).unwrap(), hcl("{ a = 1 }"));
        assert_eq!(written(TypeKind::Complex, map).unwrap(), hcl("{ a = 1 }"));
        assert_eq!(written(TypeKind::Complex, "[1.10]").unwrap(), json("[1.10]"));
        for text in [r#""a-b""#, r#""555-1234""#, r#""no hcl at all""#, r#""file(\"x\")""#] {
            assert_eq!(written(TypeKind::Any, text).unwrap(), json(text));
        }
        for text in ["hunter2", "a, b", "[1]\nb = 2", "[1])\nb = (2", "", "file(\"x\")", "[var.a]"]
        {
            let text = serde_json::to_string(text).unwrap();
            let error = written(TypeKind::Complex, &text).unwrap_err();
            assert!(matches!(error, VariableError::Hcl { .. }), "{text}");
            assert!(!crate::error::chain(&error).contains("hunter2"));
        }
    }

    #[test]
    fn apply_gets_ephemeral_variables_where_it_takes_them() {
        let base = tempfile::tempdir().unwrap();
        let mut module = Module::default();
        let ephemeral = VariableDeclaration { ephemeral: true, ..VariableDeclaration::default() };
        module.variables.insert("token".to_owned(), ephemeral);
        let inputs = Inputs {
            variables: vec![
                ("token".to_owned(), "1".into(), true),
                ("other".to_owned(), "2".into(), false),
            ],
            ..Inputs::default()
        };
        for (version, expected) in [("1.9.8", 0), ("1.10.0-rc1", 1), ("1.10.0", 1), ("2.0.0", 1)] {
            let private = PrivateDirectory::create(base.path(), "run-").unwrap();
            let version = version.parse().unwrap();
            let files = write_variable_files(&inputs, &module, &version, &private).unwrap();
            assert_eq!(files.apply.len(), expected, "{version}");
            for path in files.apply {
                let text = std::fs::read_to_string(path).unwrap();
                assert_eq!(text, "{\n\"token\":\n1\n}\n");
            }
        }
    }
}
