//! The plan's JSON: sensitive values are not reported, and no plan is too large.

use serde_json::{Value, json};

use butler_testing::world::{Fault, World};

/// A module that creates its own secrets in every part of a plan.
const SECRETIVE: &str = r#"
variable "given" {
  type      = string
  sensitive = true
}
variable "unset" {
  type      = string
  sensitive = true
  default   = "secret-0-default"
}
variable "pin" {
  type      = number
  sensitive = true
  default   = 987654321
}
locals {
  made = sensitive("secret-1-constant")
}
resource "terraform_data" "made" {
  input = local.made
  provisioner "local-exec" {
    command     = "echo told: $TOLD"
    environment = { TOLD = nonsensitive(local.made) }
  }
}
resource "terraform_data" "nested" {
  input = {
    public = "open-nested"
    given  = var.given
    list   = ["open-one", sensitive("secret-2-in-a-list"), [sensitive(true), "open-two"]]
    object = { deep = sensitive({ text = "secret-3-deep", number = 123454321 }), pin = var.pin }
  }
}
resource "terraform_data" "computed" {
  input = sensitive(sha256("computed"))
}
resource "terraform_data" "replaced" {
  triggers_replace = [var.unset]
}
module "child" {
  source   = "./child"
  password = "secret-4-literal"
}
output "made" {
  value     = terraform_data.made.output
  sensitive = true
}
output "constant" {
  value     = "secret-5-output"
  sensitive = true
}
output "object" {
  value     = { child = module.child.password, open = "open-three" }
  sensitive = true
}
output "open" {
  value = "open-four"
}
"#;

const CHILD: &str = r#"
variable "password" {
  type      = string
  sensitive = true
}
variable "unset" {
  type      = list(string)
  sensitive = true
  default   = ["secret-6-default"]
}
resource "terraform_data" "child" {
  count = 2
  input = { password = var.password, unset = var.unset, open = "open-five" }
}
output "password" {
  value     = var.password
  sensitive = true
}
"#;

/// Texts that must not be visible anywhere. The last is the SHA-256 of `computed`.
const SECRETS: [&str; 11] = [
    "hidden-given",
    "secret-0-default",
    "987654321",
    "secret-1-constant",
    "secret-2-in-a-list",
    "secret-3-deep",
    "123454321",
    "secret-4-literal",
    "secret-5-output",
    "secret-6-default",
    "5aa562409c66b3b3b2db9ee316b11ac180ad6fa1421c555c156fcefb75cfa12f",
];

fn found(text: &str) -> Vec<&'static str> {
    SECRETS.into_iter().filter(|secret| text.contains(secret)).collect()
}

async fn module_with_generated_secrets(operation: &str) -> (World, Value) {
    let world = World::new(&[("main.tf", SECRETIVE), ("child/main.tf", CHILD)]).await;
    let mut config = world.config(operation);
    config["variables"]["given"] = json!({"value": "hidden-given", "sensitive": true});
    (world, config)
}

/// Asserts that `cleaned` equals `raw` except for masked values, and returns their number.
fn masked(raw: &Value, cleaned: &Value) -> usize {
    match (raw, cleaned) {
        (_, Value::String(text)) if text.contains("***") => 1,
        (Value::Object(raw), Value::Object(cleaned)) => {
            assert!(raw.keys().eq(cleaned.keys()), "{raw:?}: {cleaned:?}");
            raw.iter().map(|(name, raw)| masked(raw, &cleaned[name])).sum()
        }
        (Value::Array(raw), Value::Array(cleaned)) => {
            assert_eq!(raw.len(), cleaned.len());
            raw.iter().zip(cleaned).map(|(raw, cleaned)| masked(raw, cleaned)).sum()
        }
        (raw, cleaned) => {
            assert_eq!(raw, cleaned);
            0
        }
    }
}

fn plan_json(world: &World) -> Value {
    let mut plan = world.received().plans.last().unwrap()["plan_json"].clone();
    plan.as_object_mut().unwrap().remove("timestamp");
    plan
}

#[tokio::test]
async fn secrets_created_by_the_module_are_masked_in_all_reports() {
    let (world, config) = module_with_generated_secrets("apply").await;
    let end = world.run(config.clone()).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    let shown = world.reports_and_output(&end);
    assert_eq!(found(&shown), [""; 0], "{shown}");
    let log = world.received().log_text();
    assert!(log.contains("told: ***"), "what a provisioner prints: {log}");
    let outputs = world.received().outputs[0]["outputs"].clone();
    assert_eq!(outputs["made"]["value"], "secret-1-constant", "outputs go in full");

    // The planned values are now in the prior state as well.
    let mut plan = config;
    plan["operation"] = json!("plan");
    plan["variables"]["unset"] = json!({"value": "secret-0-default-other"});
    let end = world.run(plan).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    let (shown, plan) = (world.reports_and_output(&end), plan_json(&world));
    // `terraform_data` copies its input without the marks. The copy shows values that are marked as
    // a part of an object or list only, or consist of digits: they cannot be distinguished from
    // ordinary values.
    let mut without_copies = shown;
    for part in ["prior_state", "resource_changes", "planned_values"] {
        without_copies = without_copies.replace(&plan[part].to_string(), "");
    }
    assert_eq!(found(&without_copies), [""; 0], "{without_copies}");
    let copies = ["secret-3-deep", "123454321", "secret-6-default"];
    assert_eq!(found(&plan.to_string()), copies, "{plan}");
    assert!(plan["prior_state"]["values"]["outputs"]["object"]["value"] == "***", "{plan}");
    assert_eq!(
        world.last_status()["plan_summary"],
        "Plan: 1 to add, 0 to change, 1 to destroy, 1 replaced."
    );
}

#[tokio::test]
async fn ordinary_words_in_a_sensitive_object_are_not_masked_elsewhere_in_the_plan() {
    let module = r#"
locals {
  database = { engine = "postgresql", region = "eu-central-1", name = "terraform_data" }
}
resource "terraform_data" "database" {
  input = merge(local.database, { password = sensitive("hunter2-database") })
  provisioner "local-exec" {
    command = "echo told: postgresql eu-central-1 terraform_data hunter2-database"
  }
}
resource "terraform_data" "whole" {
  input = sensitive(local.database)
}
output "database" {
  value     = local.database
  sensitive = true
}
"#;
    let world = World::new(&[("main.tf", module)]).await;
    let end = world.run(world.config("apply")).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    let log = world.received().log_text();
    for line in [
        "# terraform_data.database will be created",
        "+ engine   = \"postgresql\"",
        "told: postgresql eu-central-1 terraform_data ***",
    ] {
        assert!(log.contains(line), "{line}: {log}");
    }
    assert_eq!(plan_json(&world)["output_changes"]["database"]["after"], "***");
    assert!(!world.reports_and_output(&end).contains("hunter2"), "{log}");
}

#[tokio::test]
async fn redacted_plan_keeps_the_structure_and_all_public_values() {
    let (mut world, config) = module_with_generated_secrets("plan").await;
    let end = world.run(config.clone()).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    let (cleaned, summary) = (plan_json(&world), world.last_status()["plan_summary"].clone());

    world.set("BUTLER_PLAN_JSON", "raw");
    let end = world.run(config).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    let raw = plan_json(&world);
    let log = world.received().log_text();
    assert!(log.contains("Warning: the plan's JSON is reported as Terraform writes it"), "{log}");
    assert_eq!(found(&log), [""; 0], "the log is masked all the same");
    assert_eq!(world.last_status()["plan_summary"], summary);

    let secrets = found(&raw.to_string());
    assert_eq!(secrets.len(), SECRETS.len(), "{secrets:?}");
    assert!(masked(&raw, &cleaned) > 20, "{cleaned}");
    assert_eq!(found(&cleaned.to_string()), [""; 0], "{cleaned}");
    for name in ["nested", "one", "two", "three", "four", "five"] {
        let text = format!("open-{name}");
        // The whole output `object` is sensitive, including the part with `open-three`.
        assert_eq!(cleaned.to_string().contains(&text), name != "three", "{text}: {cleaned}");
    }
    let change = |name: &str| {
        let changes = cleaned["resource_changes"].as_array().unwrap();
        let address = format!("terraform_data.{name}");
        let found = changes.iter().find(|change| change["address"] == address.as_str()).unwrap();
        found["change"]["after"]["input"].clone()
    };
    assert_eq!(change("made"), "***");
    assert_eq!(
        change("nested"),
        json!({"public": "open-nested", "given": "***", "list": ["open-one", "***", ["***", "open-two"]],
            "object": {"deep": "***", "pin": "***"}})
    );
    let module = &cleaned["configuration"]["root_module"]["module_calls"]["child"];
    assert_eq!(module["expressions"]["password"]["constant_value"], "***", "{module}");
    assert_eq!(module["module"]["variables"]["unset"]["default"], "***", "{module}");
}

/// Plans `module` with a registry that accepts 64 KiB. Returns the report and its notes.
async fn limited(module: &str) -> (Value, Value) {
    let mut world = World::new(&[("main.tf", module)]).await;
    world.set("BUTLER_BODY_LIMIT", "64KiB");
    let report = world.path("report");
    world.set("BUTLER_REPORT_DIR", &report);
    let end = world.run(world.config("plan")).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    assert_eq!(world.statuses(), ["running", "succeeded"]);
    let (plan, status) = (world.received().plans[0].clone(), world.last_status());
    assert!(plan.to_string().len() <= 64 * 1024, "{}", plan.to_string().len());
    let summary = status["plan_summary"].as_str().unwrap();
    let (line, note) = summary.split_once('\n').unwrap();
    assert_eq!(line, "Plan: 1 to add, 0 to change, 0 to destroy.");
    assert!(note.starts_with("the plan is too large for the registry"), "{note}");
    let log = world.received().log_text();
    assert!(log.contains(&format!("Warning: {note}")), "{log}");
    // The report directory has the complete plan.
    let kept: Value =
        serde_json::from_slice(&std::fs::read(report.join("plan.json")).unwrap()).unwrap();
    assert!(kept["configuration"].is_object() && kept["resource_changes"].is_array());
    let text = std::fs::read_to_string(report.join("plan.txt")).unwrap();
    assert!(text.contains("Plan: 1 to add"), "{text}");
    (plan, json!(note))
}

fn members(plan: &Value) -> Vec<&str> {
    plan["plan_json"].as_object().unwrap().keys().map(String::as_str).collect()
}

const CHANGES: [&str; 3] = ["format_version", "resource_changes", "terraform_version"];

#[tokio::test]
async fn plan_with_a_large_configuration_is_reported_without_it() {
    let module = format!(
        "variable \"x\" {{\n  description = \"{}\"\n  default = 1\n}}\nresource \"terraform_data\" \"x\" {{}}\n",
        "x".repeat(100_000)
    );
    let (plan, note) = limited(&module).await;
    let members = members(&plan);
    assert!(members.contains(&"planned_values") && members.contains(&"variables"), "{members:?}");
    assert!(!members.contains(&"configuration"), "{members:?}");
    assert!(plan["plan_text"].as_str().unwrap().contains("Plan: 1 to add"));
    assert!(
        note.as_str().unwrap().ends_with("without `prior_state` and `configuration`"),
        "{note}"
    );
}

#[tokio::test]
async fn plan_with_a_large_variable_is_reported_as_its_changes() {
    let module = format!(
        "variable \"x\" {{\n  default = \"{}\"\n}}\nresource \"terraform_data\" \"x\" {{\n  input = length(var.x)\n}}\n",
        "x".repeat(100_000)
    );
    let (plan, note) = limited(&module).await;
    assert_eq!(members(&plan), CHANGES);
    assert!(plan["plan_text"].as_str().unwrap().contains("Plan: 1 to add"));
    assert!(note.as_str().unwrap().contains("only resource and output changes"), "{note}");
}

#[tokio::test]
async fn plan_with_a_long_text_is_reported_with_its_beginning() {
    let module = "resource \"terraform_data\" \"x\" {\n  input = join(\"\\n\", [for i in range(1000) : \"y\\ny\\ny\\ny\\ny\\ny\\ny\\ny\\ny\"])\n}\n";
    let (plan, note) = limited(module).await;
    assert_eq!(members(&plan), CHANGES);
    let text = plan["plan_text"].as_str().unwrap();
    assert!(
        text.contains("terraform_data.x") && text.ends_with("too large for the registry.)\n"),
        "{text}"
    );
    assert!(note.as_str().unwrap().ends_with("and its text is cut"), "{note}");
}

#[tokio::test]
async fn plan_with_large_changes_is_reported_as_text() {
    let module = format!(
        "resource \"terraform_data\" \"x\" {{\n  input = join(\"\", [for i in range(1000) : \"{}\"])\n}}\n",
        "y".repeat(90)
    );
    let (plan, note) = limited(&module).await;
    assert!(plan.get("plan_json").is_none());
    let text = plan["plan_text"].as_str().unwrap();
    assert!(
        text.contains("terraform_data.x") && text.ends_with("too large for the registry.)\n"),
        "{text}"
    );
    assert!(note.as_str().unwrap().contains("its JSON is not reported"), "{note}");
}

#[tokio::test]
async fn plan_is_reduced_if_the_registry_rejects_its_size() {
    let world = World::new(&[("main.tf", SECRETIVE), ("child/main.tf", CHILD)]).await;
    world.faults.lock().unwrap().extend([
        // Repeated unchanged from the file.
        Fault { method: "POST", endpoint: "plan", status: 503, times: 1 },
        Fault { method: "POST", endpoint: "plan", status: 413, times: 1 },
    ]);
    let mut config = world.config("plan");
    config["variables"]["given"] = json!({"value": "hidden-given", "sensitive": true});
    let end = world.run(config).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    assert_eq!(world.statuses(), ["running", "succeeded"]);
    let received = world.received();
    assert_eq!(received.plans.len(), 1);
    let members = members(&received.plans[0]);
    assert!(
        members.contains(&"planned_values") && !members.contains(&"configuration"),
        "{members:?}"
    );
    let summary = world.last_status()["plan_summary"].to_string();
    assert!(summary.contains("without `prior_state` and `configuration`"), "{summary}");
}

#[tokio::test]
async fn large_plan_is_reduced_after_a_failed_upload() {
    let module = format!("variable \"x\" {{\n  default = \"{}\"\n}}\n", "x".repeat(600_000));
    let mut world = World::new(&[("main.tf", &module)]).await;
    // There is time for one attempt only.
    world.set("BUTLER_REGISTRY_TIMEOUT", "1s");
    let fault = Fault { method: "POST", endpoint: "plan", status: 503, times: 1 };
    world.faults.lock().unwrap().push(fault);
    let end = world.run(world.config("plan")).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    let received = world.received();
    let members = members(&received.plans[0]);
    assert!(members.contains(&"variables") && !members.contains(&"configuration"), "{members:?}");
}

#[tokio::test]
async fn plan_that_is_always_too_large_does_not_fail_the_run() {
    let world = World::new(&[("main.tf", "output \"x\" {\n  value = 1\n}\n")]).await;
    world.fault("POST", "plan", 413);
    let end = world.run(world.config("plan")).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    assert_eq!(world.statuses(), ["running", "succeeded"]);
    let summary = world.last_status()["plan_summary"].to_string();
    assert!(summary.contains("refused every form of the plan"), "{summary}");
}

#[tokio::test]
async fn deeply_nested_plan_is_reported_and_redacted() {
    let depth = 300;
    let nested = |leaf: &str| format!("{}{leaf}{}", "[".repeat(depth), "]".repeat(depth));
    let module = format!(
        "resource \"terraform_data\" \"x\" {{\n  input = {{ a = {}, b = {}, c = [\"open-leaf\", sensitive(\"secret-leaf\")] }}\n}}\n",
        nested("\"open-deep\""),
        nested("sensitive(\"secret-deep\")"),
    );
    let world = World::new(&[("main.tf", &module)]).await;
    let (config, report) = (world.path("run.json"), world.path("report"));
    std::fs::write(&config, world.config("plan").to_string()).unwrap();
    let mut command = world.command(&["execute"]);
    command.env("BUTLER_CONFIG", &config).env("BUTLER_REPORT_DIR", &report);
    let end = world.end(&command.output().await.unwrap());
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    let plan = std::fs::read_to_string(report.join("plan.json")).unwrap();
    assert!(plan.contains("open-leaf") && plan.contains("open-deep"), "{plan}");
    assert!(!plan.contains("secret-"), "{plan}");
}

/// A module with a secret as the key of a map, and an output named like a secret word.
const KEYED: &str = r#"
variable "token" {
  type      = string
  sensitive = true
}
variable "word" {
  type      = string
  sensitive = true
}
resource "terraform_data" "name" {
  for_each = { (nonsensitive(var.token)) = "one" }
  input    = { (nonsensitive(var.token)) = "x", (nonsensitive(var.word)) = "y" }
}
output "keyed" {
  value = { (nonsensitive(var.token)) = "x" }
}
"#;

#[tokio::test]
async fn secret_used_as_a_key_is_masked_and_words_of_the_format_are_kept() {
    let world = World::new(&[("main.tf", KEYED)]).await;
    let mut config = world.config("plan");
    config["variables"]["token"] = json!({"value": "tok-4711", "sensitive": true});
    config["variables"]["word"] = json!({"value": "name", "sensitive": true});
    let end = world.run(config).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    let plan = plan_json(&world);
    assert!(!plan.to_string().contains("tok-4711"), "{plan:#}");
    let change = &plan["resource_changes"][0];
    assert_eq!((&change["name"], &change["type"]), (&json!("name"), &json!("terraform_data")));
    assert_eq!(change["address"], "terraform_data.name[\"***\"]");
    assert_eq!(change["change"]["after"]["input"].as_object().map(serde_json::Map::len), Some(2));
    assert_eq!(change["change"]["actions"], json!(["create"]));
}
