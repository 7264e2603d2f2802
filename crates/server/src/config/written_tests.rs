//! Scalars of YAML 1.1 in keys that are texts, and in keys of any type.

use std::path::PathBuf;

use serde_json::json;

use super::load::parse;
use super::{Config, EnvironmentValue, LayerEntry};

/// Scalars that one version of YAML or another reads as something else than a text.
const SCALARS: [&str; 36] = [
    "y",
    "Y",
    "yes",
    "YES",
    "n",
    "N",
    "no",
    "No",
    "on",
    "On",
    "off",
    "OFF",
    "true",
    "True",
    "false",
    "FALSE",
    "010",
    "0o10",
    "0x1F",
    "0b101",
    "1_000",
    "+1",
    "-0",
    "1.10",
    "1.",
    ".5",
    "1e3",
    "1E+3",
    ".inf",
    "-.INF",
    ".NaN",
    "190:20:30",
    "2001-12-14",
    "12345678901234567890",
    "123456789012345678901234567890",
    "=",
];

const REST: &str = "repositories: {r: {url: https://git.example.com/r}}\n";

fn config(text: &str) -> Result<Config, Vec<super::ConfigError>> {
    parse(&[(PathBuf::from("butler.yaml"), text.to_owned())])
}

fn layer(keys: &str) -> Result<LayerEntry, Vec<super::ConfigError>> {
    let text = format!("{REST}layers:\n  l: {{repository: r, {keys}}}\n");
    config(&text).map(|mut config| config.layers.remove("l").unwrap().entry)
}

#[test]
fn key_that_is_a_text_has_the_text_that_is_written_or_is_refused_with_its_place() {
    type Read = fn(LayerEntry) -> Option<String>;
    let keys: [(&str, Read); 12] = [
        ("path: TEXT", |it| Some(it.path?.value)),
        ("path: a, ref: TEXT", |it| it.reference),
        ("path: a, workspace: TEXT", |it| it.workspace),
        ("path: a, env: {A: TEXT}", |mut it| match it.env.remove("A")? {
            EnvironmentValue::Text(text) => Some(text),
            EnvironmentValue::Secret(_) => None,
        }),
        ("path: a, env: {TEXT: a}", |mut it| it.env.pop_first().map(|(name, _)| name)),
        ("path: a, triggers: [TEXT]", |mut it| Some(it.triggers.pop()?.value)),
        ("paths: [TEXT]", |mut it| Some(it.paths.pop()?.value)),
        ("path: a, pass-env: [TEXT]", |mut it| Some(it.pass_env.pop()?.value)),
        ("path: a, backend: {type: TEXT}", |it| Some(it.backend?.kind.value)),
        ("path: a, drift: {ignore: [TEXT]}", |it| it.drift?.ignore.pop()),
        ("path: a, job: {node-selector: {a: TEXT}}", |it| {
            it.job?.node_selector.pop_first().map(|it| it.1)
        }),
        ("path: a, tool: TEXT", |it| Some(it.tool?.value)),
    ];
    let mut taken = 0;
    for (key, read) in keys {
        for scalar in SCALARS {
            match layer(&key.replace("TEXT", scalar)) {
                Ok(entry) => {
                    assert_eq!(read(entry).as_deref(), Some(scalar), "{key}");
                    taken += 1;
                }
                Err(errors) => {
                    assert!(errors.iter().all(|it| it.at.is_some()), "{key} {scalar}: {errors:?}");
                }
            }
        }
        for missing in ["~", "null", "Null", ""] {
            let errors = layer(&key.replace("TEXT", missing)).map(read);
            match errors {
                // An empty list, and the name of a variable.
                Ok(read) => assert!(
                    key.contains("{TEXT:") || (missing.is_empty() && key.contains("[TEXT]")),
                    "{key} {missing}: {read:?}"
                ),
                Err(errors) => {
                    assert!(errors.iter().all(|it| it.at.is_some()), "{key} {missing}: {errors:?}");
                }
            }
        }
    }
    assert!(taken > 300, "{taken}");
    let errors = layer("path: a, workspace: ~").unwrap_err();
    assert_eq!(
        errors[0].to_string(),
        "butler.yaml:3:42: the text is missing; write one, in quotes if it is `null` or `~`, or leave out the key"
    );
}

#[test]
fn names_are_the_texts_that_are_written() {
    for scalar in ["no", "010", "1.10", "1e3", "true", "0x1F"] {
        let text = format!(
            "repositories: {{{scalar}: {{url: https://git.example.com/r}}}}\nlayers: {{{scalar}: {{repository: {scalar}, path: a, \
             env: {{A: {scalar}}}}}, b: {{repository: {scalar}, path: b, after: [{scalar}]}}}}\n"
        );
        let config = config(&text).unwrap();
        assert!(
            config.repositories.contains_key(scalar) && config.layers.contains_key(scalar),
            "{scalar}"
        );
        assert_eq!(config.layers["b"].entry.after[0].value, scalar);
        assert_eq!(config.layers[scalar].entry.env["A"], EnvironmentValue::Text(scalar.to_owned()));
    }
}

#[test]
fn values_of_any_type_keep_what_is_written() {
    let keys = "path: a, variables: {a: no, b: 1.10, c: 010, d: 3, e: true, f: {g: [1.0, 0.5, '3']}, h: ~}, backend: {type: s3, \
                config: {bucket: 012345678901, key: on, encrypt: true}}, env: {A: True, B: {file: /a}, C: &c 1.10, D: *c}";
    let check = |entry: &LayerEntry| {
        let variables = json!(entry.variables);
        let expected = json!({"a": "no", "b": "1.10", "c": "010", "d": 3, "e": true, "f": {"g": ["1.0", 0.5, "3"]}, "h": null});
        assert_eq!(variables, expected);
        let backend = json!(entry.backend.as_ref().unwrap().config);
        assert_eq!(backend, json!({"bucket": "012345678901", "key": "on", "encrypt": true}));
        assert_eq!(
            json!(entry.env),
            json!({"A": "True", "B": {"file": "/a"}, "C": "1.10", "D": "1.10"})
        );
    };
    check(&layer(keys).unwrap());
    let defaults = keys.replace("path: a, ", "");
    let text =
        format!("{REST}defaults: {{{defaults}}}\nlayers: {{l: {{repository: r, path: a}}}}\n");
    check(&config(&text).unwrap().layers["l"].entry);
    // A layer can take keys of another one.
    let text =
        format!("{REST}layers:\n  a: &a {{repository: r, {keys}}}\n  l: {{<<: *a, path: b}}\n");
    check(&config(&text).unwrap().layers["l"].entry);
}

#[test]
fn environment_value_that_is_neither_a_text_nor_a_secret_is_refused() {
    for value in ["[a]", "{files: /a}", "{}"] {
        let errors = layer(&format!("path: a, env: {{A: {value}}}")).unwrap_err();
        assert!(errors[0].at.is_some(), "{value}: {errors:?}");
    }
}
