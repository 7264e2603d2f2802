//! The schemas that `butler-runner schema` prints agree with the parsers.

use std::collections::BTreeMap;

use butler_protocol::configuration::parse_config;
use butler_protocol::spec::Operation;
use butler_runner::workspace::{
    KEYS, LOG_LEVELS, ONE_WORD, parse_run_settings, read_settings_file, terraform_name,
};
use jsonschema::Validator;
use serde_json::{Value, json};

use butler_testing::documented::assert_documented;
use butler_testing::machine::Machine;

/// The documented settings.
const DOCUMENTATION: &str = include_str!("../../../docs/settings-file.md");

fn schema(document: &str) -> Value {
    Machine::new().run(&["schema", document]).expect_success().json()
}

fn validator(document: &str) -> Validator {
    jsonschema::draft202012::new(&schema(document)).unwrap()
}

/// Parses this settings file.
fn parse_settings(text: &str) -> Result<(), String> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    read_settings_file(file.path()).map(drop).map_err(|error| error.to_string())
}

/// The keys of each object in the schema, by the parser's name of the object.
fn keys(schema: &Value) -> BTreeMap<String, Vec<String>> {
    fn walk<'schema>(
        root: &'schema Value,
        node: &'schema Value,
        place: &str,
        keys: &mut BTreeMap<String, Vec<String>>,
    ) {
        if let Some(reference) = node["$ref"].as_str() {
            let target = root.pointer(reference.strip_prefix('#').unwrap()).unwrap();
            return walk(root, target, place, keys);
        }
        for one in node["anyOf"].as_array().into_iter().flatten() {
            walk(root, one, place, keys);
        }
        if node["additionalProperties"].is_object() && place.ends_with("credentials") {
            walk(root, &node["additionalProperties"], &format!("{place}.HOST"), keys);
        }
        let Some(properties) = node["properties"].as_object() else { return };
        keys.insert(place.to_owned(), properties.keys().cloned().collect());
        assert_eq!(node["additionalProperties"], false, "unknown keys in `{place}`");
        for (key, inner) in properties {
            let inner_place = if place.is_empty() { key.clone() } else { format!("{place}.{key}") };
            walk(root, inner, &inner_place, keys);
        }
    }
    let mut keys = BTreeMap::new();
    walk(schema, schema, "", &mut keys);
    keys
}

#[test]
fn schema_and_parser_of_settings_accept_the_same_keys() {
    let of_reader: BTreeMap<String, Vec<String>> = KEYS
        .iter()
        .map(|(place, keys)| {
            let mut keys: Vec<_> = keys.iter().map(|key| (*key).to_owned()).collect();
            keys.sort();
            ((*place).to_owned(), keys)
        })
        .collect();
    let mut of_schema = keys(&schema("settings"));
    for keys in of_schema.values_mut() {
        keys.sort();
    }
    assert_eq!(of_schema, of_reader);
}

#[test]
fn misspelled_keys_are_rejected_by_both_and_corrected_by_the_parser() {
    let validator = validator("settings");
    for (place, keys) in keys(&schema("settings")) {
        for key in keys {
            let (first, rest) = key.split_at(1);
            for wrong in [format!("{key}x"), format!("{}{rest}", first.to_uppercase())] {
                let mut document = json!({(wrong.clone()): {}});
                for name in place.split('.').rev().filter(|name| !name.is_empty()) {
                    let name = if name == "HOST" { "example.com" } else { name };
                    document = json!({(name): document});
                }
                assert!(!validator.is_valid(&document), "{document}");
                let error = parse_settings(&document.to_string()).unwrap_err();
                let expected = format!("unknown key `{wrong}`");
                assert!(error.contains(&expected), "{document}: {error}");
                assert!(error.contains(&format!("did you mean `{key}`?")), "{document}: {error}");
            }
        }
    }
}

/// The fenced code blocks of the documentation in this language.
fn documented(language: &str) -> Vec<&'static str> {
    let opening = format!("```{language}\n");
    let blocks = DOCUMENTATION.split(&opening).skip(1);
    blocks.map(|block| block.split_once("\n```").unwrap().0).collect()
}

#[test]
fn documented_settings_are_valid_for_schema_and_parser() {
    let validator = validator("settings");
    let examples = documented("json");
    assert!(!examples.is_empty());
    for example in examples {
        let document: Value = serde_json::from_str(example).unwrap();
        let errors: Vec<_> = validator.iter_errors(&document).map(|it| it.to_string()).collect();
        assert!(errors.is_empty(), "{example}: {errors:?}");
        parse_settings(example).unwrap();
        let mut run = a_run();
        run["terraformSettings"] = document;
        assert!(self::validator("run").is_valid(&run), "{example}");
    }
    let examples = documented("yaml");
    assert!(!examples.is_empty());
    for example in examples {
        parse_settings(example).unwrap();
    }
}

#[test]
fn schema_and_parser_reject_the_same_documents() {
    let validator = validator("settings");
    for document in [
        json!({"terraformrc": {"credentials": {"a.example": {"token": "hunter22"}}}}),
        json!({"terraformrc": {"credentials": {"a.example": {}}}}),
        json!({"terraformrc": {"credentials": {"a.example": {"token": {"key": "a"}}}}}),
        json!({"terraformrc": {"providerInstallation": {"networkMirror": {"url": "http://a/"}}}}),
        json!({"terraformrc": {"providerInstallation": {"networkMirror": {}}}}),
        json!({"terraformrc": {"providerInstallation": {"filesystemMirror": {"path": "a"}}}}),
        json!({"terraformrc": {"providerInstallation": {"direct": {"include": "*"}}}}),
        json!({"terraformrc": {"providerInstallation": {"direct": {"include": ["a"]}}}}),
        json!({"terraformrc": {"providerInstallation": {"direct": []}}}),
        json!({"backend": {"config": {}}}),
        json!({"backend": {"type": ""}}),
        json!({"backend": "s3"}),
        json!({"env": {"A": [1]}}),
        json!({"logging": {"level": "loud"}}),
        json!({"logging": {"path": ""}}),
        json!([]),
    ] {
        assert!(!validator.is_valid(&document), "{document}");
        assert!(parse_settings(&document.to_string()).is_err(), "{document}");
    }
    for level in LOG_LEVELS {
        for level in [level.to_owned(), level.to_lowercase()] {
            let document = json!({"logging": {"level": level}});
            assert!(validator.is_valid(&document), "{document}");
            parse_settings(&document.to_string()).unwrap();
        }
    }
}

/// Settings with a mirror at `url`.
fn mirror(url: &str) -> Value {
    json!({"terraformrc": {"providerInstallation": {"networkMirror": {"url": url}}}})
}

#[test]
fn schema_and_parser_agree_on_edge_cases() {
    let validator = validator("settings");
    let token = |host: &str, token: Value| json!({"terraformrc": {"credentials": {(host): {"token": token}}}});
    let backend = |config: Value| json!({"backend": {"type": "s3", "config": config}});
    for (document, is_right) in [
        (json!({"terraformrc": null, "backend": null, "env": null, "logging": null}), true),
        (json!({"terraformrc": {"providerInstallation": null, "credentials": null}}), true),
        (json!({"env": {"A": null}}), true),
        (json!({"logging": {"level": null, "path": null}}), true),
        (json!({"backend": {"type": "S3", "config": null}}), true),
        (token("a.example:8443", json!({"secretId": "x", "key": null})), true),
        (mirror("HTTPS://mirror.example/"), true),
        (mirror("https://mirror.example:8443/a/b"), true),
        (backend(json!({"a": {"b": [{"c": null}]}, "d": {"secretId": "x"}})), true),
        (
            json!({"env": {"GIT_AUTHOR_NAME": "x", "TF_LOG": "info", "PATHS": "x", "BUTLER_X": "x"}}),
            true,
        ),
        (json!({"env": {"PATH": "x"}}), false),
        (json!({"env": {"LD_PRELOAD": "x"}}), false),
        (json!({"env": {"GIT_SSH": "x"}}), false),
        (json!({"env": {"TF_LOG_PATH": "x"}}), false),
        (json!({"env": {"TF_TOKEN_x_y": "x"}}), false),
        (json!({"env": {"": "x"}}), false),
        (json!({"env": {"A=": "x"}}), false),
        (mirror("https://u:p@mirror.example/"), false),
        (mirror("https://mirror.example/?a"), false),
        (mirror("https://mirror.example/#a"), false),
        (mirror("https://"), false),
        (token("a b", json!({"secretId": "x"})), false),
        (token("https://a.example", json!({"secretId": "x"})), false),
        (token("a.example", json!({"secretId": "x/"})), false),
        (token("a.example", json!({"secretId": "x", "foo": 1})), false),
        (token("a.example", json!({"secretId": null})), false),
        (json!({"backend": {"type": "3"}}), false),
        (json!({"backend": {"type": null}}), false),
        (backend(json!({"a b": 1})), false),
        (backend(json!({"a": {"b": {"secretId": "x"}}})), false),
        (backend(json!({"a": [{"secretId": "x"}]})), false),
        (backend(json!({"a": {"secretId": "x", "foo": 1}})), false),
    ] {
        assert_eq!(validator.is_valid(&document), is_right, "the schema on {document}");
        let answer = parse_settings(&document.to_string());
        assert_eq!(answer.is_ok(), is_right, "the reader on {document}: {answer:?}");
    }
}

#[test]
fn error_of_a_mirror_url_names_the_problem() {
    for (url, expected) in [
        ("http://a/", "must be an https URL"),
        ("https://u:p@a/", "must have no login in it; give `terraformrc.credentials` a reference"),
        ("https://a/?b", "must end in a path, without `?` or `#`"),
    ] {
        let error = parse_settings(&mirror(url).to_string()).unwrap_err();
        let expected = format!("`terraformrc.providerInstallation.networkMirror.url` {expected}");
        assert!(error.contains(&expected), "{error}");
    }
}

#[test]
fn first_errors_are_listed_and_the_others_counted() {
    let members = (0..50_000).map(|index| (format!("a{index}"), json!(1)));
    let document = json!({"backend": {"type": "s3", "config": Value::Object(members.collect())}});
    parse_settings(&document.to_string()).unwrap();
    let members = (0..30_000).map(|index| (format!("A={index}"), json!(1)));
    let document = json!({"env": Value::Object(members.collect())});
    let error = parse_settings(&document.to_string()).unwrap_err();
    assert!(error.ends_with("; and 29980 more"), "{}", error.len());
    let large = json!({"env": {"A": "x".repeat(1024 * 1024)}}).to_string();
    let error = parse_run_settings(&large.into()).map(drop).unwrap_err().to_string();
    assert_eq!(error, "`terraformSettings` of the run is larger than 1 MiB");
}

fn a_run() -> Value {
    let source = json!({"gitRepo": "https://git.example.com/a.git", "gitRef": "main"});
    json!({"operation": "plan", "source": source})
}

#[test]
fn schema_and_parser_of_a_run_accept_the_same_fields() {
    let full = json!({
        "runId": "7", "operation": "apply", "terraformVersion": "1.9.0",
        "source": {"type": "git", "gitRepo": "https://git.example.com/a.git", "gitRef": "main",
            "url": "/source", "commit": "4f2a", "workingDirectory": "a",
            "credentials": {"type": "ssh-key", "username": "git",
                "token": "a", "password": "b", "privateKey": "c", "passphrase": "d",
                "knownHosts": "e"}},
        "variables": {"a": {"value": [1], "sensitive": true, "source": "secret", "ref": "b/c",
            "key": "d"}, "b": null},
        "sensitiveValues": "literal",
        "finalStatuses": ["succeeded", "failed", "cancelled"],
        "workDirectory": "/data/work/a",
        "planFile": {"url": "/p", "sha256": "0123456789abcdef".repeat(4)},
        "planPurpose": "destroy",
        "forceUnlock": null,
        "envVars": {"A": {"value": "x", "sensitive": false}},
        "upstreamOutputs": {"a": {"b": 1}},
        "stateBackend": {"type": "pg", "config": {"conn_str": "a"}},
        "terraformSettings": {"env": {"A": 1}, "future": {"x": 1}},
        "callbacks": {"statusUrl": "/a", "logsUrl": "/b", "planUrl": "/c", "outputsUrl": "/d",
            "planFileUrl": "/e"},
        "future": {"x": 1},
    });
    let (schema, validator) = (schema("run"), validator("run"));
    let errors: Vec<_> = validator.iter_errors(&full).map(|it| it.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?}");
    parse_config(full.to_string().as_bytes()).unwrap();
    // The document above has each field of the schema; with a wrong type, both must reject it.
    let mut places = vec![(String::new(), &schema)];
    let mut fields = 0;
    while let Some((place, node)) = places.pop() {
        for (key, inner) in node["properties"].as_object().into_iter().flatten() {
            let pointer = format!("{place}/{key}");
            assert!(full.pointer(&pointer).is_some(), "{pointer} is in the example");
            let anything = key == "value" || pointer == "/terraformSettings";
            if !anything {
                let mut broken = full.clone();
                // Not a string, number, boolean, null or object.
                *broken.pointer_mut(&pointer).unwrap() = json!([[]]);
                assert!(!validator.is_valid(&broken), "{pointer}");
                assert!(parse_config(broken.to_string().as_bytes()).is_err(), "{pointer}");
                fields += 1;
            }
            places.push((pointer, inner));
        }
        let example = match place.as_str() {
            "/variables" => "a",
            "/envVars" => "A",
            _ => continue,
        };
        places.push((format!("{place}/{example}"), &node["additionalProperties"]));
    }
    assert!(fields > 25, "{fields}");
    let operations = Operation::ALL.map(Operation::name).to_vec();
    assert_eq!(schema["properties"]["operation"]["enum"], json!(operations));
}

#[test]
fn schema_of_a_run_requires_the_fields_of_the_parser_and_accepts_null() {
    let validator = validator("run");
    let mut run = a_run();
    assert!(validator.is_valid(&run));
    for (field, wrong) in [
        ("operation", json!("explode")),
        ("source", json!({"gitRepo": "https://git.example.com/a.git"})),
        ("sensitiveValues", json!("hunter22")),
        ("workDirectory", json!("a")),
        ("planFile", json!({"url": "/p"})),
        ("planPurpose", json!("drift")),
        ("forceUnlock", json!("-lock=false")),
        ("stateBackend", json!({"config": {}})),
        ("terraformSettings", json!({"logging": {"level": "loud"}})),
    ] {
        let mut broken = run.clone();
        broken[field] = wrong;
        assert!(!validator.is_valid(&broken), "{broken}");
    }
    for field in [
        "variables",
        "sensitiveValues",
        "finalStatuses",
        "workDirectory",
        "planFile",
        "planPurpose",
        "forceUnlock",
        "envVars",
        "stateBackend",
        "terraformSettings",
        "callbacks",
    ] {
        run[field] = Value::Null;
    }
    assert!(validator.is_valid(&run));
}

/// Typical settings by backend.
const EXAMPLES: &[(&str, &[&str])] = &[
    (
        "kubernetes",
        &["secretSuffix", "namespace", "inClusterConfig", "configPath", "clusterCACertificate"],
    ),
    (
        "s3",
        &[
            "bucket",
            "region",
            "kmsKeyId",
            "dynamodbTable",
            "useLockfile",
            "usePathStyle",
            "skipS3Checksum",
            "assumeRole.roleArn",
            "endpoints.s3",
        ],
    ),
    (
        "azurerm",
        &[
            "storageAccountName",
            "containerName",
            "accessKey",
            "sasToken",
            "useOidc",
            "useMSI",
            "useAzureadAuth",
        ],
    ),
    (
        "gcs",
        &["bucket", "prefix", "encryptionKey", "kmsEncryptionKey", "impersonateServiceAccount"],
    ),
    ("pg", &["connStr", "schemaName", "skipSchemaCreation"]),
    (
        "http",
        &[
            "address",
            "lockAddress",
            "unlockMethod",
            "skipCertVerification",
            "retryMax",
            "clientCertificatePem",
        ],
    ),
    ("local", &["path", "workspaceDir"]),
];

#[test]
fn documentation_lists_the_backend_setting_names_of_terraform() {
    let translated = |setting: &str| {
        let parts: Vec<_> = setting.split('.').map(terraform_name).collect();
        parts.join(".")
    };
    let rows: Vec<String> = EXAMPLES
        .iter()
        .flat_map(|(backend, settings)| settings.iter().map(move |setting| (backend, setting)))
        .map(|(backend, setting)| {
            format!("| {backend} | `{setting}` | `{}` |", translated(setting))
        })
        .collect();
    assert_documented("docs/settings-file.md", "translation", &rows);
    let rows: Vec<String> =
        ONE_WORD.iter().map(|(here, there)| format!("| `{here}` | `{there}` |")).collect();
    assert_documented("docs/settings-file.md", "one-word", &rows);
}
