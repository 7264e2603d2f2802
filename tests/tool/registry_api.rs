//! The examples in `docs/registry-api.md` match what a registry accepts and what a real run sends.

use std::collections::BTreeMap;

use butler_base::http::{self, Redirects};
use butler_protocol::configuration::parse_config;
use serde_json::{Value, json};

use butler_testing::world::{MODULE, RUN_ID, TOKEN, World};

/// The examples of the page by their names in `<!-- example: NAME -->`.
fn examples() -> BTreeMap<String, Value> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/registry-api.md");
    let page = std::fs::read_to_string(path).unwrap();
    let read = |part: &str| {
        let (name, rest) = part.split_once(" -->\n```json\n").expect("a JSON block follows");
        let (json, _) = rest.split_once("```").expect("the block ends");
        (name.to_owned(), serde_json::from_str(json).expect("the example is JSON"))
    };
    page.split("<!-- example: ").skip(1).map(read).collect()
}

/// The types of the members of `value` without the values; strings of any length have one type.
fn shape(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            members.iter().map(|(name, member)| (name.clone(), shape(member))).collect()
        }
        Value::Array(elements) => elements.first().map_or(json!([]), |first| json!([shape(first)])),
        Value::String(_) => json!("text"),
        Value::Number(_) => json!("number"),
        Value::Bool(_) => json!("boolean"),
        Value::Null => Value::Null,
    }
}

#[tokio::test]
async fn registry_accepts_every_documented_example() {
    let world = World::new(&[("main.tf", MODULE)]).await;
    world.add_run(world.config("plan"));
    let examples = examples();
    assert_eq!(examples.len(), 9, "{:?}", examples.keys());
    for (name, example) in &examples {
        let mut words = name.split(' ');
        let (method, endpoint) = (words.next().unwrap(), words.next().unwrap());
        if method == "GET" {
            continue;
        }
        let url = format!("{}/v1/ci/module-runs/{RUN_ID}/{endpoint}", world.endpoint());
        let client = http::client(None, Redirects::Refuse).unwrap();
        let answer = client.post(url).bearer_auth(TOKEN).json(example).send().await.unwrap();
        assert!(answer.status().is_success(), "{name}: {}", answer.text().await.unwrap());
    }
    let status = serde_json::to_value(&examples["GET status"]).unwrap();
    assert_eq!(status, json!({"status": "running"}));
}

#[tokio::test]
async fn deployed_registry_answers_500_for_a_batch_that_its_database_refuses() {
    let world = World::new(&[]).await;
    world.add_run(world.config("plan"));
    let url = format!("{}/v1/ci/module-runs/{RUN_ID}/logs", world.endpoint());
    let client = http::client(None, Redirects::Refuse).unwrap();
    let line = json!({"sequence": 1, "stream": "stdout", "content": "a\0b"});
    let request = client.post(url).bearer_auth(TOKEN).json(&json!({"logs": [line]}));
    let answer = request.send().await.unwrap();
    assert_eq!(answer.status(), 500);
    assert!(answer.text().await.unwrap().contains("insert into"));
}

#[test]
fn documented_configuration_parses_and_matches_the_schema() {
    let config = &examples()["GET config"];
    let parsed = parse_config(config.to_string().as_bytes()).unwrap();
    assert_eq!(parsed.spec.variables.len(), 3);
    assert_eq!(parsed.spec.environment.len(), 2);
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/examples/run.json");
    let file: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    parse_config(file.to_string().as_bytes()).unwrap();
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_butler-runner"))
        .args(["schema", "run"])
        .output()
        .unwrap();
    let schema: Value = serde_json::from_slice(&output.stdout).unwrap();
    let schema = jsonschema::validator_for(&schema).unwrap();
    let mut archive = config.clone();
    archive["source"] = examples()["GET source"].clone();
    parse_config(archive.to_string().as_bytes()).unwrap();
    for missing in ["url", "commit"] {
        let mut incomplete = archive.clone();
        incomplete["source"][missing].take();
        assert!(!schema.is_valid(&incomplete), "{missing}");
        assert!(parse_config(incomplete.to_string().as_bytes()).is_err(), "{missing}");
    }
    for document in [config, &file, &archive] {
        let errors: Vec<_> = schema.iter_errors(document).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{errors:?}");
        // The parser would silently ignore a field that only the page has.
        let known = schema_names(&output.stdout);
        for name in document.as_object().unwrap().keys() {
            assert!(known.contains(&format!("\"{name}\"")), "{name}");
        }
    }
}

fn schema_names(schema: &[u8]) -> String {
    String::from_utf8_lossy(schema).into_owned()
}

#[tokio::test]
async fn requests_of_a_run_match_the_documented_examples() {
    let world = World::new(&[("main.tf", MODULE)]).await;
    let end = world.run(world.config("apply")).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    let received = world.received();
    let examples = examples();
    let same = |name: &str, sent: &Value| {
        assert_eq!(shape(&examples[name]), shape(sent), "{name}: {sent}");
    };
    same("POST status running", received.statuses.first().unwrap());
    same("POST status succeeded", received.statuses.last().unwrap());
    let (plan, shown) = (&received.plans[0], &examples["POST plan"]);
    let names = |body: &Value| -> Vec<_> { body.as_object().unwrap().keys().cloned().collect() };
    assert_eq!(names(shown), names(plan));
    for name in names(&shown["plan_json"]) {
        assert!(!plan["plan_json"][&name].is_null(), "{name}: {plan}");
    }
    let outputs = &received.outputs[0]["outputs"]["greeting"];
    assert_eq!(shape(&examples["POST outputs"]["outputs"]["greeting"]), shape(outputs));
    let line = serde_json::to_value(&received.logs[0]).unwrap();
    assert_eq!(shape(&examples["POST logs"]["logs"][0]), shape(&line));
    let summary = &examples["POST status succeeded"]["plan_summary"];
    assert_eq!(summary, &received.statuses.last().unwrap()["plan_summary"]);
}

#[tokio::test]
async fn failure_report_matches_the_documented_example() {
    let world = World::new(&[("main.tf", MODULE)]).await;
    let mut config = world.config("plan");
    config["source"]["gitRef"] = json!("v9");
    let end = world.run(config).await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    let repository = format!("file://{}", world.path("repository").display());
    let sent = world.last_status().to_string();
    let sent = sent.replace(&repository, "https://git.example.com/platform/infra.git");
    assert_eq!(examples()["POST status failed"], serde_json::from_str::<Value>(&sent).unwrap());
}

#[tokio::test]
async fn requests_are_sent_in_the_documented_order() {
    let world = World::new(&[("main.tf", MODULE)]).await;
    let end = world.run(world.config("apply")).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/registry-api.md");
    let page = std::fs::read_to_string(path).unwrap();
    let (_, order) = page.split_once("## Order\n").unwrap();
    let documented: Vec<_> = order
        .split('`')
        .filter(|text| text.starts_with("GET ") || text.starts_with("POST "))
        .collect();
    assert_eq!(documented, world.received().request_names());
}
