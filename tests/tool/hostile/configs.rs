//! Malicious configurations.

use serde_json::{Value, json};

use super::THREAT_MODEL;
use butler_testing::documented::assert_documented;
use butler_testing::git_server::GitServer;
use butler_testing::world::{MODULE, RunEnd, World, merge, sequence};

/// A secret in every configuration, which no output may contain.
const SECRET: &str = "hunter22-hidden";

/// The file that a command in a configuration would create. It is replaced by a path in the test's
/// own directory.
const CANARY: &str = "CANARY";

/// A configuration that is refused.
struct Case {
    /// The problem, for the table.
    what: &'static str,
    /// The changes to a valid configuration, as JSON.
    changes: &'static str,
    /// The phase that fails.
    phase: &'static str,
    /// A part of the reason.
    reason: &'static str,
}

const fn case(
    what: &'static str,
    changes: &'static str,
    phase: &'static str,
    reason: &'static str,
) -> Case {
    Case { what, changes, phase, reason }
}

const SHAPES: [Case; 8] = [
    case("a number as operation", r#"{"operation":7}"#, "config", "cannot be read"),
    case("a list of variables", r#"{"variables":[]}"#, "config", "cannot be read"),
    case("text in place of the source", r#"{"source":"x"}"#, "config", "cannot be read"),
    case(
        "a version that is a path",
        r#"{"terraformVersion":"../1.9.0"}"#,
        "config",
        "`terraformVersion` cannot be used",
    ),
    case("a backend without a type", r#"{"stateBackend":{"type":""}}"#, "config", "no type"),
    case(
        "a backend type that is a path",
        r#"{"stateBackend":{"type":"../pg"}}"#,
        "variables",
        "is not a type of a state backend",
    ),
    case(
        "a backend setting with a second one in it",
        r#"{"stateBackend":{"config":{"a = 1\nb":"x"}}}"#,
        "variables",
        "is not a setting of a state backend",
    ),
    case(
        "credentials of an unknown type",
        r#"{"source":{"credentials":{"type":"magic"}}}"#,
        "config",
        "the type is unknown",
    ),
];

const SOURCES: [Case; 14] = [
    case(
        "a reference that is an option",
        r#"{"source":{"gitRef":"--upload-pack=touch CANARY"}}"#,
        "source",
        "begins with `-`",
    ),
    case(
        "a reference with a line break",
        r#"{"source":{"gitRef":"main\nx"}}"#,
        "source",
        "contains a character",
    ),
    case(
        "a reference with an expression",
        r#"{"source":{"gitRef":"main@{1}"}}"#,
        "source",
        "contains a character",
    ),
    case(
        "an `ext::` address",
        r#"{"source":{"gitRepo":"ext::sh -c 'touch CANARY'"}}"#,
        "source",
        "neither a URL nor",
    ),
    case("an `fd::` address", r#"{"source":{"gitRepo":"fd::7"}}"#, "source", "neither a URL nor"),
    case(
        "an address that is an option",
        r#"{"source":{"gitRepo":"--upload-pack=touch CANARY"}}"#,
        "source",
        "neither a URL nor",
    ),
    case(
        "an ssh host that is an option",
        r#"{"source":{"gitRepo":"ssh://-oProxyCommand=x/repo"}}"#,
        "source",
        "names no host",
    ),
    case(
        "an ssh user that hides a host",
        r#"{"source":{"gitRepo":"ssh://evil.org%2F@git.example.com/repo"}}"#,
        "source",
        "user name is not plain",
    ),
    case(
        "a file URL of another host",
        r#"{"source":{"gitRepo":"file://elsewhere/etc"}}"#,
        "source",
        "cannot name a host",
    ),
    case(
        "an absolute working directory",
        r#"{"source":{"workingDirectory":"/etc"}}"#,
        "source",
        "it is absolute",
    ),
    case(
        "a working directory with `..`",
        r#"{"source":{"workingDirectory":"a/../../x"}}"#,
        "source",
        "contains `..`",
    ),
    case(
        "a working directory that is a link out of the clone",
        r#"{"source":{"workingDirectory":"link"}}"#,
        "source",
        "leads out of the repository",
    ),
    case(
        "a working directory with NUL",
        r#"{"source":{"workingDirectory":"a\u0000b"}}"#,
        "source",
        "NUL",
    ),
    case(
        "a working directory in `.git`",
        r#"{"source":{"workingDirectory":".git/hooks"}}"#,
        "source",
        "the repository's own data",
    ),
];

const INPUTS: [Case; 8] = [
    case(
        "a variable that is an option",
        r#"{"variables":{"-destroy":{"value":"x"}}}"#,
        "variables",
        "is not a valid name of a Terraform variable",
    ),
    case(
        "a variable with a setting in it",
        r#"{"variables":{"a = 1\nb":{"value":"x"}}}"#,
        "variables",
        "is not a valid name of a Terraform variable",
    ),
    case(
        "a secret reference that is a path",
        r#"{"variables":{"name":{"source":"secret","ref":"../..","key":"etc"}}}"#,
        "variables",
        "cannot be the name of a secret",
    ),
    case(
        "an environment variable without a name",
        r#"{"envVars":{"":{"value":"x"}}}"#,
        "variables",
        "is not a valid name of an environment variable",
    ),
    case(
        "an environment variable with `=` in its name",
        r#"{"envVars":{"A=B":{"value":"x"}}}"#,
        "variables",
        "is not a valid name of an environment variable",
    ),
    case(
        "an environment variable with NUL in its name",
        r#"{"envVars":{"A\u0000B":{"value":"x"}}}"#,
        "variables",
        "is not a valid name of an environment variable",
    ),
    case(
        "an environment variable with NUL in its value",
        r#"{"envVars":{"A":{"value":"x\u0000"}}}"#,
        "variables",
        "NUL",
    ),
    case(
        "a list as an environment variable",
        r#"{"envVars":{"A":{"value":["x"]}}}"#,
        "config",
        "neither text nor a number",
    ),
];

async fn world() -> World {
    let world = World::new(&[("main.tf", MODULE)]).await;
    std::os::unix::fs::symlink("/etc", world.path("repository/link")).unwrap();
    world.commit(&[]);
    world
}

fn config(world: &World, changes: &Value) -> Value {
    let mut config = world.config("plan");
    config["variables"] = json!({"password": {"value": SECRET, "sensitive": true}});
    merge(&mut config, changes);
    config
}

/// Asserts that the run failed in `phase` with a reason that contains `reason`, was reported once,
/// left no files and printed no secret.
fn assert_refused(world: &World, end: &RunEnd, (what, phase, reason): (&str, &str, &str)) {
    assert_eq!(end.code, Some(1), "{what}: {}", end.stderr);
    let statuses = world.statuses();
    let finals = statuses.iter().filter(|status| *status != "running").count();
    assert_eq!((finals, statuses.last().map(String::as_str)), (1, Some("failed")), "{what}");
    let error = world.last_status()["error"].clone();
    assert_eq!(error["phase"], phase, "{what}: {error}");
    let message = error["message"].as_str().unwrap();
    assert!(message.contains(reason), "{what}: {message}");
    assert!(!message.contains(char::is_control), "{what}: {message:?}");
    assert!(
        !world.reports_and_output(end).contains(SECRET),
        "{what}: {}",
        world.reports_and_output(end)
    );
    assert!(!world.path(CANARY).exists(), "{what}");
}

async fn assert_all_refused(cases: &[Case]) {
    let world = world().await;
    for Case { what, changes, phase, reason } in cases {
        let canary = world.path(CANARY);
        let changes = changes.replace(CANARY, canary.to_str().unwrap());
        let end = world.run(config(&world, &serde_json::from_str(&changes).unwrap())).await;
        assert_refused(&world, &end, (what, phase, reason));
    }
}

#[tokio::test]
async fn configuration_with_wrong_types_fails_with_a_reason() {
    assert_all_refused(&SHAPES).await;
}

#[tokio::test]
async fn ambiguous_source_fails_with_a_reason() {
    assert_all_refused(&SOURCES).await;
}

#[tokio::test]
async fn malformed_input_fails_with_a_reason() {
    assert_all_refused(&INPUTS).await;
}

#[test]
fn threat_model_lists_the_refused_configurations() {
    let rows: Vec<String> = SHAPES
        .iter()
        .chain(&SOURCES)
        .chain(&INPUTS)
        .map(|case| format!("| {} | {} | {} |", case.what, case.phase, case.reason))
        .collect();
    assert_documented(THREAT_MODEL, "configurations", &rows);
}

#[tokio::test]
async fn too_deeply_nested_value_fails_with_a_reason() {
    let world = world().await;
    let mut value = json!(SECRET);
    for _ in 0..100 {
        value = json!([value]);
    }
    let changes = json!({"variables": {"name": {"value": value, "sensitive": true}}});
    let end = world.run(config(&world, &changes)).await;
    assert_refused(&world, &end, ("depth", "variables", "nested too deeply"));
}

#[tokio::test]
async fn huge_configuration_is_executed() {
    let world = world().await;
    let mut changes = json!({"variables": {"name": {"value": "x".repeat(2_000_000)}}});
    for number in 0..2000 {
        changes["variables"][format!("v{number}")] = json!({"value": number});
    }
    changes["operation"] = json!("validate");
    let end = world.run(config(&world, &changes)).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
}

#[tokio::test]
async fn run_file_with_duplicate_keys_is_refused() {
    let world = world().await;
    let text = config(&world, &json!({})).to_string();
    let inner = text.replace("\"variables\":{", "\"variables\":{\"password\":{},");
    let outer = text.replacen('{', "{\"operation\":\"destroy\",", 1);
    let deep = format!("{}{}", "[".repeat(200_000), "]".repeat(200_000));
    for content in [inner, outer, deep] {
        std::fs::write(world.path("run.json"), &content).unwrap();
        let file = world.path("run.json");
        let arguments = ["execute", "--config", file.to_str().unwrap()];
        let output = world.command(&arguments).output().await.unwrap();
        let end = world.end(&output);
        assert_eq!(end.code, Some(2), "{}", end.stderr);
        assert!(!end.stderr.contains(SECRET), "{}", end.stderr);
    }
}

#[tokio::test]
async fn reports_go_to_the_registry_despite_other_callback_urls() {
    let world = world().await;
    let elsewhere = GitServer::start();
    let url = elsewhere.url_on("localhost", &butler_testing::git_server::Repository::create(&[]));
    for callback in [url.as_str(), "/../../elsewhere", "/v1/%2e%2E%2F..\\elsewhere"] {
        let changes = json!({
            "operation": "validate",
            "callbacks": {
                "statusUrl": callback, "logsUrl": callback, "planUrl": callback, "outputsUrl": callback,
            },
        });
        let end = world.run(config(&world, &changes)).await;
        assert_eq!(end.code, Some(0), "{}", end.stderr);
        assert!(
            end.stderr.contains("is not a URL below the registry's endpoint"),
            "{}",
            end.stderr
        );
        assert_eq!(world.received().request_names(), sequence(&[]));
    }
    assert!(elsewhere.requests().is_empty(), "{:?}", elsewhere.requests());
}
