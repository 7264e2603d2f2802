//! The values of a run's variables: references, words, secrets, and missing values.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::*;
use butler_base::error::Advice;
use butler_protocol::backend::StateReport;
use butler_protocol::references::ReferenceError;
use butler_protocol::spec::{
    Operation, PlanFile, PlanPurpose, SecretReference, Source, TerraformSetup,
};

fn spec(variables: &[(&str, Variable)]) -> RunSpec {
    RunSpec {
        operation: Operation::Plan,
        tool: None,
        source: Source::Directory(PathBuf::new()),
        variables: variables.iter().map(|(name, one)| ((*name).to_owned(), copy(one))).collect(),
        sensitive_values: SensitiveValues::Auto,
        upstream_outputs: Vec::new(),
        environment: Vec::new(),
        backend: None,
        setup: TerraformSetup::default(),
        work_directory: None,
        plan_file: PlanFile::default(),
        plan_purpose: PlanPurpose::default(),
        force_unlock: None,
        state_report: StateReport::Omit,
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
    spec.upstream_outputs = vec![("c".to_owned(), "3".into()), ("a".to_owned(), "[1.10]".into())];
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
fn twenty_thousand_variables_are_resolved_and_the_last_of_a_name_wins() {
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
        json_string(inputs.variables[0].1.expose_secret()).unwrap()
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
fn only_texts_in_the_form_of_a_reference_are_references() {
    let sources = environment(&[("DB_PW", "found"), ("BUTLER_TOKEN", "brce_x"), ("word", "x")]);
    let literal = SecretSources { values: SensitiveValues::Literal, ..sources.clone() };
    for value in [
        "\"Ab:cd\"",
        "\"a/b/c:d\"",
        "\"a:b:c\"",
        "\"-a:b\"",
        "\"postgres://user:pw@host/db\"",
        "\"wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY\"",
        "12",
        "[\"DB_PW\"]",
    ] {
        let inputs = resolve(&spec(&[("x", secret(value))]), &sources).unwrap();
        assert_eq!(exposed(&inputs.variables), [("x", value, true)]);
        assert!(inputs.warnings.is_empty(), "{:?}", inputs.warnings);
    }
    for value in ["\"ns/db:pw\"", "\"ns/db\"", "\"db:pw\"", "\"DB_PW\"", "\"word\"", "\"\"", "null"]
    {
        let literally =
            RunSpec { sensitive_values: SensitiveValues::Literal, ..spec(&[("x", secret(value))]) };
        for (spec, sources) in [(&literally, &sources), (&spec(&[("x", secret(value))]), &literal)]
        {
            let inputs = resolve(spec, sources).unwrap();
            assert_eq!(exposed(&inputs.variables), [("x", value, true)]);
            assert!(inputs.warnings.is_empty() && inputs.without_value.is_empty());
        }
        let inputs = resolve(&spec(&[("x", plain(value))]), &sources).unwrap();
        assert_eq!(exposed(&inputs.variables), [("x", value, false)]);
    }
}

/// How the user can supply the secret of a reference that the runner cannot read.
const OTHER_SYSTEM: &str =
    "its value is a reference of another system, which the runner does not read: set `TF_VAR_x`";

#[test]
fn name_of_a_missing_secret_is_never_used_as_the_secret() {
    let all = environment(&[("PASSWORD", ""), ("BUTLER_TOKEN", "brce_x")]);
    for (value, way) in [
        ("DB_PASSWORD", "set `TF_VAR_x` or set `DB_PASSWORD`"),
        ("DB_PASSWORD:", "set `TF_VAR_x` or set `DB_PASSWORD`"),
        ("A1_B2C3D4E5", "set `TF_VAR_x` or set the variable that its value names"),
        ("prod/db", "set `TF_VAR_x` or add the key in that secret, as in `namespace/name:key`"),
        ("db:password", "set `TF_VAR_x` or mount the secret that it names below --secrets-dir"),
        ("PASSWORD", "set `TF_VAR_x` or set `PASSWORD`"),
        ("db-password", "set `TF_VAR_x` or set the variable that its value names"),
        (" db-password\n", "set `TF_VAR_x` or set the variable that its value names"),
        (
            "my-secret:DB_PASSWORD",
            "set `TF_VAR_x` or mount the secret that it names below --secrets-dir",
        ),
        (
            "prod/db:tls.key",
            "set `TF_VAR_x` or mount `<secrets-dir>/prod/db/tls.key` for --secrets-dir",
        ),
        ("prod/db/password", OTHER_SYSTEM),
        ("vault:secret/data/db#password", OTHER_SYSTEM),
        ("projects/p/secrets/db/versions/1", OTHER_SYSTEM),
        ("op://vault/db/password", OTHER_SYSTEM),
        ("arn:aws:secretsmanager:eu-west-1:123456789012:secret:db", OTHER_SYSTEM),
        ("$DB_PASSWORD", OTHER_SYSTEM),
        ("${{ secrets.DB_PASSWORD }}", OTHER_SYSTEM),
        ("BUTLER_TOKEN", "set `TF_VAR_x` or call it something else (`BUTLER_*` is reserved)"),
    ] {
        let mut run = spec(&[("x", secret(&serde_json::to_string(value).unwrap()))]);
        let value = SecretString::from(value);
        let error = resolve(&run, &all).unwrap_err().to_string();
        assert_eq!(error, format!("cannot resolve 1 secret: `x` ({way})"));
        run.variables.clear();
        let variable = EnvironmentVariable { value, sensitive: true };
        run.environment = vec![("TF_VAR_x".to_owned(), variable)];
        let error = resolve(&run, &all).unwrap_err().to_string();
        assert_eq!(error, format!("cannot resolve 1 secret: `TF_VAR_x` ({way})"));
        let given = environment(&[("TF_VAR_x", "given")]);
        let inputs = resolve(&run, &given).unwrap();
        assert_eq!(exposed(&inputs.environment), [("TF_VAR_x", "given", true)]);
    }
}

#[test]
fn word_without_a_variable_is_used_as_the_secret_with_a_warning() {
    let words = spec(&[
        ("a", secret("\"hunter2\"")),
        ("b", secret("\"found\"")),
        ("c", secret("\"correct-horse\"")),
    ]);
    let sources = environment(&[("found", "it")]);
    let inputs = resolve(&words, &sources).unwrap();
    assert_eq!(
        exposed(&inputs.variables),
        [("a", "\"hunter2\"", true), ("b", "\"it\"", true), ("c", "\"correct-horse\"", true)]
    );
    assert_eq!(
        inputs.warnings,
        [
            "`a`, `c`: each value is used as the secret itself, but it may be the name of a secret that is not set. \
          If it is a name, set the environment variable of that name or `TF_VAR_NAME`; \
          if it is the secret itself, --sensitive-values literal silences this warning"
        ]
    );
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(directory.path().join("correct-horse")).unwrap();
    std::fs::write(directory.path().join("correct-horse/c"), "mounted").unwrap();
    let mut sources = environment(&[("TF_VAR_a", "given")]);
    sources.directory = Some(directory.path().to_owned());
    let mut two = words;
    two.variables.remove(1);
    let inputs = resolve(&two, &sources).unwrap();
    assert_eq!(exposed(&inputs.variables), [("a", "\"given\"", true), ("c", "\"mounted\"", true)]);
    assert!(inputs.warnings.is_empty(), "{:?}", inputs.warnings);
}

#[test]
fn empty_sensitive_variable_is_left_out_and_recorded() {
    let mut run = spec(&[
        ("nothing", Variable { value: None, ..secret("") }),
        ("null", secret("null")),
        ("empty", secret("\"\"")),
        ("given", secret("\"\"")),
        ("by_set", secret("\"\"")),
        ("plain", plain("\"\"")),
        ("has_one", secret("\"s e c\"")),
    ]);
    let variable =
        |text: &str| EnvironmentVariable { value: SecretString::from(text), sensitive: true };
    run.environment = vec![
        ("TF_VAR_set".to_owned(), variable("")),
        ("TF_VAR_by_set".to_owned(), variable("s e c")),
        ("TF_VAR_has_one".to_owned(), variable("")),
        ("AWS_SESSION_TOKEN".to_owned(), variable("")),
    ];
    let inputs = resolve(&run, &environment(&[("TF_VAR_given", "it")])).unwrap();
    assert_eq!(
        exposed(&inputs.variables),
        [("given", "\"it\"", true), ("plain", "\"\"", false), ("has_one", "\"s e c\"", true)]
    );
    assert_eq!(
        exposed(&inputs.environment),
        [("TF_VAR_by_set", "s e c", true), ("AWS_SESSION_TOKEN", "", true)]
    );
    assert_eq!(inputs.without_value, ["nothing", "null", "empty", "TF_VAR_set"]);
}

#[test]
fn logins_of_cloud_integrations_are_never_references() {
    let mut run = spec(&[]);
    let logins = [
        ("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE"),
        ("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
        ("AWS_SESSION_TOKEN", "FwoGZXIvYXdzEBYaDA=="),
        ("GOOGLE_CREDENTIALS", "{\"type\": \"service_account\"}"),
        ("ARM_CLIENT_SECRET", "abc8Q~defghijk_lmnop"),
        ("CUSTOM_TOKEN", "hunter22secret"),
        ("CUSTOM_PASSWORD", "p@ssw0rd two"),
    ];
    run.environment = logins
        .map(|(name, value)| {
            let variable = EnvironmentVariable { value: value.into(), sensitive: true };
            (name.to_owned(), variable)
        })
        .into();
    let inputs = resolve(&run, &SecretSources::default()).unwrap();
    assert_eq!(exposed(&inputs.environment), logins.map(|(name, value)| (name, value, true)));
    assert!(inputs.warnings.is_empty(), "{:?}", inputs.warnings);
}

#[test]
fn name_in_an_environment_variable_is_looked_up_and_else_used_with_a_warning() {
    let names = [
        ("A", "HUNTER_TWO"),
        ("B", "team/secret"),
        ("C", "db-password"),
        ("D", "db-credentials:DB_PASSWORD"),
        ("E", "vault:secret/data/db#password"),
        ("F", "admin:Hunter2"),
    ];
    let mut run = spec(&[]);
    run.environment = names
        .map(|(name, value)| {
            let variable = EnvironmentVariable { value: value.into(), sensitive: true };
            (name.to_owned(), variable)
        })
        .into();
    let empty = EnvironmentVariable { value: "".into(), sensitive: true };
    run.environment.push(("G".to_owned(), empty));
    let inputs = resolve(&run, &SecretSources::default()).unwrap();
    let expected: Vec<_> =
        names.iter().chain(&[("G", "")]).map(|(name, value)| (*name, *value, true)).collect();
    assert_eq!(exposed(&inputs.environment), expected);
    let [words, empty] = inputs.warnings.try_into().unwrap();
    assert!(words.starts_with("`A`, `B`, `C`, `D`, `E`, `F`: each value is used"), "{words}");
    assert!(empty.starts_with("`G`: sensitive in the run, but the value is empty"), "{empty}");

    let directory = tempfile::tempdir().unwrap();
    for path in ["team/secret/B", "db-password/C", "db-credentials/DB_PASSWORD"] {
        let path = directory.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "mounted\n").unwrap();
    }
    let mut sources =
        environment(&[("HUNTER_TWO", "set"), ("TF_VAR_E", "given"), ("TF_VAR_F", "given")]);
    sources.directory = Some(directory.path().to_owned());
    run.environment.pop();
    let inputs = resolve(&run, &sources).unwrap();
    let values: Vec<_> = exposed(&inputs.environment).iter().map(|(_, value, _)| *value).collect();
    assert_eq!(values, ["set", "mounted", "mounted", "mounted", "given", "given"]);
    assert!(inputs.warnings.is_empty(), "{:?}", inputs.warnings);
}

#[test]
fn name_without_a_key_means_the_key_with_the_name_of_the_variable() {
    let directory = tempfile::tempdir().unwrap();
    for name in ["password", "DB_PW", "db-creds", "prod/db", "word"] {
        std::fs::create_dir_all(directory.path().join(name)).unwrap();
        std::fs::write(directory.path().join(name).join("x"), format!("of {name}")).unwrap();
    }
    let sources =
        SecretSources { directory: Some(directory.path().to_owned()), ..SecretSources::default() };
    for (variable, expected) in [
        (secret("\"DB_PW\""), "of DB_PW"),
        (secret("\"db-creds\""), "of db-creds"),
        (secret("\"prod/db\""), "of prod/db"),
        (secret("\"word\""), "of word"),
        (referring(None, "password", None), "of password"),
        (referring(Some("prod"), "db", None), "of prod/db"),
    ] {
        let inputs = resolve(&spec(&[("x", variable)]), &sources).unwrap();
        assert_eq!(json_string(inputs.variables[0].1.expose_secret()).unwrap(), expected);
        assert!(inputs.warnings.is_empty(), "{:?}", inputs.warnings);
    }
    // The name of an environment variable is not always the name of a file.
    let mut run = spec(&[]);
    let value = SecretString::from("db-creds");
    run.environment = vec![("../x".to_owned(), EnvironmentVariable { value, sensitive: true })];
    let inputs = resolve(&run, &sources).unwrap();
    assert_eq!(exposed(&inputs.environment), [("../x", "db-creds", true)]);
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
    spec.environment = vec![("AWS_KEY".to_owned(), EnvironmentVariable { value, sensitive: true })];
    let directory = PathBuf::from("/secrets");
    let sources = SecretSources { directory: Some(directory), ..SecretSources::default() };
    let error = resolve(&spec, &sources).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot resolve 5 secrets: `ci` (set `TF_VAR_ci` or set `DB_PW`), \
         `kube` (set `TF_VAR_kube` or mount `/secrets/ns/db/pw`), \
         `doubtful` (set `TF_VAR_doubtful` or mount the secret that it names below --secrets-dir), \
         `AWS_KEY` (set `TF_VAR_AWS_KEY` or mount `/secrets/ns/aws/key`), \
         `by_name` (it has no value: set `TF_VAR_by_name`, name a secret in the registry, or declare a default in the module)"
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
        let refused =
            matches!(result, Err(VariableError::Reference { source: ReferenceError::Part, .. }));
        assert!(refused, "{name}/{key}");
    }
}

#[test]
fn environment_variables_can_be_references_and_need_valid_names() {
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
