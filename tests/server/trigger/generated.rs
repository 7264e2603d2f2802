//! Files of `generate` work with `trigger`: events, inputs, variables and parameters have the same
//! names, and the job executes the run that was passed.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::Command;

use serde_json::{Map, Value, json};

use super::{RUN_ID, TOKEN, machine, run_with_server};
use butler_testing::ci_server::{CiServer, Received, Reply};
use butler_testing::linters::yaml;
use butler_testing::machine::Machine;

/// The registry of the triggered run.
const ENDPOINT: &str = "https://portal.example.com/api/registry";

/// The registry in the settings of the CI system.
const SETTING: &str = "https://setting.example.com/api/registry";

fn generated(target: &str) -> String {
    Machine::new().run(&["generate", target]).expect_success().stdout
}

/// The command line and environment of the runner that `script` starts at its end.
fn runner_environment(script: &str, variables: &Map<String, Value>) -> BTreeMap<String, String> {
    let shown = script.replace("exec butler-runner execute", "exec env");
    assert_ne!(shown, script, "the runner is not started:\n{script}");
    // No runner is installed here, so that it cannot be started before.
    let shown = shown.replace("butler-runner -V ", "true ");
    let variables = variables.iter().map(|(name, value)| (name, value.as_str().unwrap()));
    let mut command = Command::new("/bin/sh");
    command.args(["-e", "-c", &shown]).env_clear().envs(variables).env("PATH", "/usr/bin:/bin");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// Asserts that the runner gets the run and its endpoint.
fn assert_runner_environment(environment: &BTreeMap<String, String>, endpoint: &str) {
    let told = ["BUTLER_ENDPOINT", "BUTLER_RUN_ID", "BUTLER_TOKEN"].map(|name| &*environment[name]);
    assert_eq!(told, [endpoint, RUN_ID, TOKEN]);
}

/// Evaluates the expressions in `text` as GitHub does; they are names joined by `||`.
fn evaluated(text: &str, contexts: &Value) -> String {
    let mut parts = text.split("${{");
    let mut read = parts.next().unwrap().to_owned();
    for part in parts {
        let (expression, rest) = part.split_once("}}").unwrap();
        let value = |name: &str| {
            let value = contexts.pointer(&format!("/{}", name.trim().replace('.', "/")));
            value.and_then(Value::as_str).filter(|it| !it.is_empty()).map(str::to_owned)
        };
        read.push_str(&expression.split("||").find_map(value).unwrap_or_default());
        read.push_str(rest);
    }
    read
}

/// The event that a workflow gets from this request, if the request starts one.
fn contexts_of(workflow: &Value, request: &Received) -> Value {
    let body = request.json();
    let mut contexts = json!({"secrets": {"BUTLER_REGISTRY_URL": SETTING}});
    if request.path.ends_with("/actions/workflows/butler-run.yml/dispatches") {
        let declared = workflow["on"]["workflow_dispatch"]["inputs"].as_object().unwrap();
        let sent = body["inputs"].as_object().unwrap();
        let names = |inputs: &Map<String, Value>| inputs.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(declared), names(sent), "GitHub refuses what is not declared");
        contexts["inputs"] = body["inputs"].clone();
        contexts["github"] = json!({"event": {"inputs": body["inputs"]}});
    } else {
        assert!(request.path.ends_with("/infra/dispatches"), "{}", request.path);
        let types = workflow["on"]["repository_dispatch"]["types"].as_array().unwrap();
        assert!(types.contains(&body["event_type"]), "{types:?}: {body}");
        contexts["github"] = json!({
            "event": {"action": body["event_type"], "client_payload": body["client_payload"]},
        });
    }
    contexts
}

#[test]
fn generated_workflow_accepts_both_events_and_its_run_is_found_by_name() {
    let text = generated("github-actions");
    assert!(text.contains("for .github/workflows/butler-run.yml"), "the name in `START`");
    let workflow = yaml(&text).remove(0);
    for (event, endpoint) in [("workflow_dispatch", SETTING), ("repository_dispatch", ENDPOINT)] {
        let (shared, mut runs) = (workflow.clone(), Vec::new());
        let server = CiServer::start(move |request| {
            if request.method == "GET" {
                return Reply::json(200, &json!({"workflow_runs": runs}));
            }
            let contexts = contexts_of(&shared, request);
            let title = evaluated(shared["run-name"].as_str().unwrap(), &contexts);
            let path = ".github/workflows/butler-run.yml@refs/heads/main";
            runs.push(json!({"id": 7, "display_title": title, "path": path, "status": "queued"}));
            Reply::empty(204)
        });
        let words = [super::github::START, &["--event", event, "--timeout", "3s"]].concat();
        let said = run_with_server(&machine(&server), &server, &words).expect_success();
        assert_eq!(said.json()["externalRunId"], "7");

        let orders = server.received_by("POST");
        let contexts = contexts_of(&workflow, &orders[0]);
        let steps = workflow["jobs"]["run"]["steps"].as_array().unwrap();
        let told = |(name, value): (&String, &Value)| {
            (name.clone(), evaluated(value.as_str().unwrap(), &contexts))
        };
        let run = steps.iter().find(|step| step["id"] == "execute").unwrap();
        let environment = run["env"].as_object().unwrap().iter().map(told);
        assert_runner_environment(&environment.collect(), endpoint);
        // The token is masked in every form of the event.
        let event = tempfile::NamedTempFile::new().unwrap();
        let content = serde_json::to_string_pretty(&contexts["github"]["event"]).unwrap();
        event.as_file().write_all(content.as_bytes()).unwrap();
        let mut mask = Command::new("bash");
        mask.args(["-e", "-c", steps[0]["run"].as_str().unwrap()]);
        let output = mask.env("GITHUB_EVENT_PATH", event.path()).output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("::add-mask::{TOKEN}\n"));
    }
}

#[test]
fn generated_gitlab_job_runs_in_a_triggered_pipeline() {
    let job = yaml(&generated("gitlab-ci")).remove(0)["butler-run"].take();
    let server = CiServer::start(|_| Reply::json(201, &json!({"id": 257, "status": "created"})));
    let words = ["trigger", "gitlab-ci", "--repository", "group/infra", "--ref", "main"];
    run_with_server(&machine(&server), &server, &words).expect_success();
    let order = server.received_by("POST").remove(0).json();
    let mut variables = order["variables"].as_object().unwrap().clone();

    let rules = job["rules"].as_array().unwrap();
    let condition = rules[0]["if"].as_str().unwrap();
    for name in condition.split(" && ") {
        let value = &variables[name.strip_prefix('$').unwrap()];
        assert!(value.as_str().is_some_and(|it| !it.is_empty()), "{condition}: {name}");
    }
    let entries = job["script"].as_array().unwrap().iter().map(|entry| entry.as_str().unwrap());
    let without_download = entries.filter(|entry| !entry.contains("curl --fail"));
    let script = &without_download.collect::<Vec<_>>().join("\n");
    let project = tempfile::tempdir().unwrap();
    variables.insert("CI_PROJECT_DIR".to_owned(), json!(project.path()));
    variables.insert("CI_SERVER_HOST".to_owned(), json!("gitlab.example.com"));
    assert_runner_environment(&runner_environment(script, &variables), ENDPOINT);
    // A job started by other means need not name the registry.
    variables.insert("BUTLER_REGISTRY_URL".to_owned(), json!(SETTING));
    variables.remove("BUTLER_ENDPOINT").unwrap();
    assert_runner_environment(&runner_environment(script, &variables), SETTING);
}

/// The parameters of a Jenkinsfile in the form of the job's API: name and type.
fn parameters(pipeline: &str) -> Vec<Value> {
    let (_, block) = pipeline.split_once("    parameters {\n").unwrap();
    let (block, _) = block.split_once("\n    }\n").unwrap();
    let declared = block.lines().map(str::trim).filter_map(|line| line.split_once("(name: '"));
    let parameter = |(kind, rest): (&str, &str)| {
        let kind = match kind {
            "string" => "StringParameterDefinition",
            "password" => "PasswordParameterDefinition",
            other => panic!("{other}"),
        };
        json!({"name": rest.split('\'').next().unwrap(), "type": kind})
    };
    declared.map(parameter).collect()
}

#[test]
fn generated_jenkinsfile_declares_the_parameters_of_the_trigger() {
    let pipeline = generated("jenkins");
    let declared = parameters(&pipeline);
    let properties = json!({"property": [{"parameterDefinitions": declared}]});
    let server = CiServer::start(move |request| match request.path.as_str() {
        "/job/infra/api/json" => Reply::json(200, &properties),
        "/job/infra/buildWithParameters" => Reply::empty(201).with("location", "/queue/item/39/"),
        "/queue/item/39/api/json" => Reply::json(200, &json!({"executable": {"number": 35}})),
        _ => Reply::empty(404),
    });
    let mut machine = machine(&server);
    machine.set("BUTLER_LOG", "warn");
    let said = run_with_server(
        &machine,
        &server,
        &["trigger", "jenkins", "--job", "infra", "--user", "bot"],
    );
    assert_eq!(said.expect_success().stderr, "", "the token is in a password parameter");
    let sent = server.received_by("POST").remove(0).form();

    // Jenkins passes declared parameters and drops the others.
    let mut variables: Map<String, Value> = declared
        .iter()
        .map(|it| it["name"].as_str().unwrap())
        .map(|name| (name.to_owned(), json!(sent[name])))
        .collect();
    assert_eq!(variables.keys().collect::<Vec<_>>(), ["CALLBACK_TOKEN", "RUN_ID"]);
    variables.insert("BUTLER_ENDPOINT".to_owned(), json!(SETTING));
    let told = "export BUTLER_ENDPOINT BUTLER_RUN_ID=";
    let line = pipeline.lines().find(|line| line.trim().starts_with(told)).unwrap();
    let script = format!("{line}\nexec butler-runner execute");
    assert_runner_environment(&runner_environment(&script, &variables), SETTING);
}
