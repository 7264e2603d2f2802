//! The configuration of the server agrees with its JSON Schema and its documentation.

use std::path::PathBuf;
use std::process::Output;

use butler_server::config::{RemoteLimits, parse, parse_included};
use serde_json::{Value, json};

use butler_testing::documented::assert_documented;
use butler_testing::machine::Machine;
use butler_testing::runner;

const DOCUMENTATION: &str = include_str!("../../../docs/server-configuration.md");

/// Each key that there is.
const COMPLETE: &str = r#"
repositories:
  infra:
    url: https://git.example.com/infra.git
    credentials: {token-file: /run/secrets/git}
    poll: 1m
    webhook: {provider: github, secret-file: /run/secrets/hook}
    concurrency: 4
include:
  - {repository: infra, ref: main, path: ops/butler}
defaults:
  tool: 1.11.4
  strategy: approve
  drift: {every: 4h}
layers:
  dns-prod: {repository: infra, path: envs/prod/dns}
  network-prod:
    repository: infra
    ref: main
    path: envs/prod/network
    triggers: ["modules/network/**"]
    checkout: full
    module-credentials: {host: git.example.com, token-file: /run/secrets/modules}
    after: [dns-prod]
    variables: {region: eu-west-1}
    secrets: {db_password: {file: /run/secrets/db}}
    env: {AWS_PROFILE: prod, AWS_SECRET_ACCESS_KEY: {file: /run/secrets/aws}}
    backend: {type: s3, config: {bucket: tf, key: network, secret_key: {env: S3_SECRET}}}
    workspace: default
    drift: {every: 1h, repair: false, ignore: ["terraform_data.x.triggers_replace"]}
    destroy-limit: 5
    retries: {max: 5}
    timeout: {plan: 1h, apply: 4h}
    history: {runs: 10, days: 90}
    max-log: 64MiB
    isolation: {read: [/srv/read], write: [/srv/write]}
    plan-lifetime: 7d
    formerly: net-prod
  apps: {repository: infra, paths: ["envs/*/apps/*"], max-layers: 200}
windows:
  - {deny: [apply], layers: ["*-prod"], schedule: "0 18 * * FRI", for: 62h, timezone: Europe/Berlin}
notifications:
  - {url-file: /run/secrets/slack, format: slack, on: [failed, waiting, drift, resolved]}
  - name: audit
    url-file: /run/secrets/audit-url
    format: generic
    secret-file: /run/secrets/audit-key
    on: [applied, breaker]
    layers: ["*-prod", apps]
"#;

fn schema() -> Value {
    Machine::new().run(&["schema", "server"]).expect_success().json()
}

/// The object that `node` describes, behind references and beside `null`.
fn object<'schema>(root: &'schema Value, node: &'schema Value) -> Option<&'schema Value> {
    if let Some(reference) = node["$ref"].as_str() {
        return object(root, root.pointer(reference.strip_prefix('#').unwrap()).unwrap());
    }
    let mut choices = node["anyOf"].as_array().into_iter().flatten();
    let object_of_choice = choices.find_map(|one| object(root, one));
    object_of_choice.or_else(|| node["properties"].is_object().then_some(node))
}

/// A row for each key of `node`, and of the objects in it. Asserts that it has no other keys.
fn rows(root: &Value, node: &Value, place: &str, rows_so_far: &mut Vec<String>) {
    assert_eq!(node["additionalProperties"], false, "unknown keys in `{place}`");
    for (key, property) in node["properties"].as_object().unwrap() {
        let key = format!("{place}{key}");
        let description = property["description"].as_str().unwrap_or_default().replace('\n', " ");
        assert!(!description.is_empty(), "`{key}` has a description");
        rows_so_far.push(format!("| `{key}` | {description} |"));
        if let Some(inner) = object(root, property) {
            rows(root, inner, &format!("{key}."), rows_so_far);
        }
    }
}

#[test]
fn documentation_has_all_keys_of_the_server_configuration() {
    let schema = schema();
    for (marker, definition) in [
        ("configuration keys", ""),
        ("repository keys", "/$defs/RepositoryEntry"),
        ("layer keys", "/$defs/LayerEntry"),
        ("window keys", "/$defs/WindowEntry"),
        ("notification keys", "/$defs/NotificationEntry"),
        ("include keys", "/$defs/IncludeEntry"),
    ] {
        let mut found = Vec::new();
        rows(&schema, schema.pointer(definition).unwrap(), "", &mut found);
        if definition.is_empty() {
            // Those of layers have a table of their own.
            found.retain(|row| !row.starts_with("| `defaults."));
        }
        assert_documented("docs/server-configuration.md", marker, &found);
    }
}

#[test]
fn documentation_has_all_keys_of_the_registry_of_followers() {
    let schema: Value = Machine::new().run(&["schema", "followers"]).expect_success().json();
    for (marker, definition) in [
        ("follower registry keys", ""),
        ("follower keys", "/$defs/FollowerEntry"),
        ("stage keys", "/$defs/StageEntry"),
        ("check keys", "/$defs/CheckEntry"),
    ] {
        let mut found = Vec::new();
        rows(&schema, schema.pointer(definition).unwrap(), "", &mut found);
        assert_documented("docs/followers.md", marker, &found);
    }
}

#[test]
fn documented_server_configurations_are_valid_for_schema_and_parser() {
    let validator = jsonschema::draft202012::new(&schema()).unwrap();
    let examples = DOCUMENTATION.split("```yaml\n").skip(1);
    let examples: Vec<&str> = examples.map(|it| it.split_once("\n```").unwrap().0).collect();
    assert!(!examples.is_empty());
    for example in examples.into_iter().chain([COMPLETE]) {
        let document: Value = serde_saphyr::from_str(example).unwrap();
        let errors: Vec<_> = validator.iter_errors(&document).map(|it| it.to_string()).collect();
        assert!(errors.is_empty(), "{example}: {errors:?}");
        let files = [(PathBuf::from("butler.yaml"), example.to_owned())];
        let parsed = if example.starts_with("# in the repository `infra`") {
            let git_hosts = vec!["*.example.com".to_owned()];
            let secrets = Some("/run/secrets/butler".into());
            parse_included(&files, &RemoteLimits { secrets, data: None, git_hosts }, "infra", None)
        } else {
            parse(&files)
        };
        assert!(parsed.is_ok(), "{example}: {:?}", parsed.unwrap_err());
    }
}

#[test]
fn schema_of_the_server_configuration_rejects_what_the_parser_rejects() {
    let validator = jsonschema::draft202012::new(&schema()).unwrap();
    let valid: Value = serde_saphyr::from_str(COMPLETE).unwrap();
    for (place, value) in [
        ("/layers/network-prod", json!({"repositry": "infra"})),
        ("/defaults/strategy", json!("aprove")),
        ("/layers/network-prod/timeout/plan", json!("soon")),
        ("/layers/network-prod/retries/max", json!(101)),
        ("/layers/apps/max-layers", json!(0)),
        ("/layers/network-prod/max-log", json!("64 bags")),
        ("/layers/network-prod/secrets/db_password", json!("hunter22")),
        ("/layers/network-prod/secrets", json!({"no=name": {"env": "A"}})),
        ("/layers/network-prod/backend/type", json!("")),
        ("/repositories/infra/url", json!("git.example.com")),
        ("/repositories", json!({"a b": valid["repositories"]["infra"]})),
        ("/windows/0/schedule", json!("0 18 * *")),
        ("/windows/0/deny/0", json!("aply")),
        ("/notifications/0/on", json!([])),
        ("/notifications/0/on/0", json!("fialed")),
        ("/notifications/1/name", json!("a b")),
        ("/notifications/1/layers/0", json!("")),
        ("/include/0", json!({"repository": "infra"})),
    ] {
        let mut document = valid.clone();
        *document.pointer_mut(place).expect(place) = value.clone();
        assert!(!validator.is_valid(&document), "{place} = {value}");
        // JSON is YAML.
        let parsed = parse(&[(PathBuf::from("butler.yaml"), document.to_string())]);
        assert!(parsed.is_err(), "{place} = {value}");
    }
}

/// `config check` with these arguments.
fn check(directory: &std::path::Path, arguments: &[&str]) -> Output {
    runner().args(["config", "check"]).args(arguments).current_dir(directory).output().unwrap()
}

#[test]
fn check_of_a_configuration_prints_numbers_or_all_errors() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(directory.path().join(name), text).unwrap();
    write("good.yaml", COMPLETE);
    std::fs::create_dir(directory.path().join("butler.d")).unwrap();
    write("butler.d/1.yaml", "layers: {a: {repository: infra, path: b, tool: new}}");
    write("butler.d/2.yaml", "repositories: {infra: {url: 'https://example.com/a', pol: 1m}}");
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();

    let good = check(directory.path(), &["good.yaml"]);
    assert_eq!(
        text(&good.stdout),
        "good.yaml: 1 repository, 2 layers, 1 layer set; the include is not read\n"
    );
    assert!(good.status.success() && good.stderr.is_empty(), "{good:?}");
    let good = check(directory.path(), &["--json", "good.yaml"]);
    let printed: Value = serde_json::from_slice(&good.stdout).unwrap();
    assert_eq!(
        printed,
        json!({"repositories": 1, "layers": 2, "layerSets": 1, "unreadIncludes": 1, "errors": []})
    );

    let bad = check(directory.path(), &["butler.d"]);
    assert_eq!(bad.status.code(), Some(1));
    let errors = text(&bad.stdout);
    assert!(errors.contains("butler.d/1.yaml:1:48: `new` is neither a version"), "{errors}");
    let unknown = "butler.d/2.yaml:1:54: unknown key `pol`; did you mean `poll`?";
    assert!(errors.contains(unknown), "{errors}");
    let bad = check(directory.path(), &["--json", "butler.d"]);
    assert_eq!(bad.status.code(), Some(1));
    let printed: Value = serde_json::from_slice(&bad.stdout).unwrap();
    let errors = printed["errors"].as_array().unwrap();
    let unknown = errors.iter().find(|error| error["file"] == "butler.d/2.yaml").unwrap();
    assert_eq!((&unknown["line"], &unknown["column"]), (&json!(1), &json!(54)));
    assert!(unknown["message"].as_str().unwrap().contains("did you mean `poll`?"), "{unknown}");
}
