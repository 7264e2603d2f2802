//! Inputs of a run: variables of every type, secrets, environment, backend; and that secrets do not
//! leak.

use std::path::Path;

use serde_json::{Value, json};

use butler_testing::git_server::{GitServer, Repository};
use butler_testing::world::{MODULE, RUN_ID, RunEnd, World, sequence};
use butler_testing::{PASSWORD, Postgres};

/// Every type of variable, each in an output. Secrets are not declared as sensitive, so Terraform
/// and provisioners print them.
const EVERY_KIND: &str = r#"
variable "by_ci_name" {}
variable "by_hcl_text" { type = map(object({ port = number, hosts = list(string) })) }
variable "by_mount" {}
variable "by_name" { type = string }
variable "flag" { type = bool }
variable "huge" { type = number }
variable "items" { type = list(string) }
variable "literal" { type = string }
variable "settings" { type = object({ name = string, size = number }) }
variable "text" { type = string }
variable "upstream" { type = string }

resource "terraform_data" "shows_everything" {
  input = [var.by_ci_name, var.by_mount, var.by_name, var.literal]
  provisioner "local-exec" {
    command = "echo 'told: ${var.by_ci_name} ${var.by_mount} ${var.by_name} ${var.literal}'; echo ${var.literal} >&2"
  }
}

output "all" {
  value = {
    by_ci_name  = var.by_ci_name
    by_hcl_text = var.by_hcl_text
    by_mount    = var.by_mount
    by_name     = var.by_name
    flag        = var.flag
    huge        = var.huge
    items       = var.items
    literal     = var.literal
    settings    = var.settings
    text        = var.text
    upstream    = var.upstream
  }
}
"#;

/// Text that shells, JSON, HCL and Terraform could interpret.
const AWKWARD: &str = "a \"quoted\" ${not.interpolated} %{if}\\n <b>&amp; ünï\nsecond line";

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn assert_succeeded(end: &RunEnd) {
    assert_eq!(end.code, Some(0), "{}\n{}", end.stderr, end.stdout);
}

#[tokio::test]
async fn variables_of_every_type_arrive_unchanged_and_secrets_are_masked() {
    let mut world = World::new(&[("main.tf", EVERY_KIND)]).await;
    let secrets = ["hunter2-by-ci-name", "hunter2-by-mount", "hunter2-by-name", "hunter2-literal"];
    world.set("DATABASE_PASSWORD", secrets[0]);
    write(&world.path("secrets/production/database/password"), secrets[1]);
    world.set("BUTLER_SECRETS_DIR", world.path("secrets"));
    world.set("TF_VAR_by_name", secrets[2]);
    let mut config = world.config("apply");
    config["variables"] = json!({
        "by_ci_name": {"value": "DATABASE_PASSWORD", "sensitive": true},
        "by_hcl_text": {"value": "{ web = { port = 8080, hosts = [\"a\", \"b\"] } }"},
        "by_mount": {"sensitive": true, "source": "secret", "ref": "production/database", "key": "password"},
        "by_name": {"value": "production/other:key", "sensitive": true},
        "flag": {"value": true},
        "huge": {"value": 18_446_744_073_709_551_615_u64},
        "items": {"value": ["x", "y z"]},
        "literal": {"value": secrets[3], "sensitive": true},
        "settings": {"value": {"name": "n", "size": 9_007_199_254_740_993_u64}},
        "text": {"value": AWKWARD},
        "upstream": {"value": "mine"},
    });
    config["upstreamOutputs"] = json!({"upstream": "theirs"});
    let end = world.run(config).await;
    assert_succeeded(&end);
    let received = world.received();
    assert_eq!(received.request_names(), sequence(&["POST plan", "POST outputs"]));
    assert_eq!(
        received.outputs[0]["outputs"]["all"]["value"],
        json!({
            "by_ci_name": secrets[0],
            "by_hcl_text": {"web": {"port": 8080, "hosts": ["a", "b"]}},
            "by_mount": secrets[1],
            "by_name": secrets[2],
            "flag": true,
            "huge": 18_446_744_073_709_551_615_u64,
            "items": ["x", "y z"],
            "literal": secrets[3],
            "settings": {"name": "n", "size": 9_007_199_254_740_993_u64},
            "text": AWKWARD,
            "upstream": "theirs",
        }),
        "outputs go to the registry in full"
    );
    let log = received.log_text();
    for line in [
        "Variable `upstream` is taken from an upstream output",
        "Resolved 11 variables: by_ci_name [sensitive], by_hcl_text, by_mount [sensitive], by_name [sensitive], \
         flag, huge, items, literal [sensitive], settings, text, upstream",
    ] {
        assert!(log.lines().any(|it| it == line), "{line}: {log}");
    }
    assert!(log.contains("told: *** *** *** ***"), "the provisioner was shown: {log}");
    let shown = world.reports_and_output(&end);
    for secret in secrets {
        assert!(!shown.contains(secret), "{secret}: {shown}");
    }
}

#[tokio::test]
async fn run_accepts_twenty_thousand_variables() {
    let world = World::new(&[("main.tf", MODULE)]).await;
    let mut config = world.config("plan");
    for number in 0..20_000 {
        let sensitive = number % 100 == 0;
        config["variables"][format!("v{number}")] =
            json!({"value": format!("hunter22-{number}"), "sensitive": sensitive});
    }
    let assigned = "PASSWORD=".repeat(7000);
    config["envVars"] = json!({"PLAIN": {"value": assigned}});
    let end = world.run(config).await;
    assert_succeeded(&end);
    assert!(world.received().log_text().contains("Resolved 20000 variables: "));
}

#[tokio::test]
async fn secrets_inside_a_collection_are_masked_from_every_source() {
    let module = r#"
variable "from_json" { type = map(string) }
variable "from_mount" { type = list(string) }
variable "from_text" { type = list(object({ password = string })) }
resource "terraform_data" "shows" {
  provisioner "local-exec" {
    command = "echo 'told: ${var.from_json.password} ${var.from_mount[0]} ${var.from_text[0].password}'"
  }
}
"#;
    let mut world = World::new(&[("main.tf", module)]).await;
    write(&world.path("secrets/list/value"), "[\"hunter2-from-mount\"]");
    world.set("BUTLER_SECRETS_DIR", world.path("secrets"));
    let mut config = world.config("apply");
    config["variables"] = json!({
        "from_json": {"value": {"password": "hunter2-from-json"}, "sensitive": true},
        "from_mount": {"source": "secret", "ref": "list", "key": "value"},
        "from_text": {"value": "[{ password = \"hunter2-from-text\" }]", "sensitive": true},
    });
    let end = world.run(config).await;
    assert_succeeded(&end);
    let shown = world.reports_and_output(&end);
    assert!(!shown.contains("hunter2"), "{shown}");
    assert!(shown.contains("told: *** *** ***"), "{shown}");
}

#[tokio::test]
async fn unresolved_references_fail_the_run_before_init_and_are_all_named() {
    let world = World::new(&[("main.tf", MODULE)]).await;
    let mut config = world.config("plan");
    config["variables"] = json!({
        "api_key": {"sensitive": true, "source": "secret", "ref": "production/api", "key": "key"},
        "name": {"value": "fine"},
        "password": {"value": "production/database:password", "sensitive": true},
    });
    let end = world.run(config).await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    let received = world.received();
    assert_eq!(received.request_names(), sequence(&[]));
    assert_eq!(world.statuses(), ["running", "failed"]);
    let error = world.last_status()["error"].clone();
    assert_eq!(error["phase"], "variables");
    let reason = error["message"].as_str().unwrap();
    for part in ["2 secrets", "`api_key`", "TF_VAR_api_key", "`password`", "TF_VAR_password"] {
        assert!(reason.contains(part), "{part}: {reason}");
    }
    assert!(received.log_text().contains(reason), "the log ends with the reason");
    assert!(!received.log_text().contains("Initializing"), "{}", received.log_text());
}

#[tokio::test]
async fn literal_sensitive_values_are_not_resolved_as_references() {
    let module = "variable \"password\" {}\noutput \"it\" {\n  value = var.password\n}\n";
    let mut world = World::new(&[("main.tf", module)]).await;
    world.set("BUTLER_SENSITIVE_VALUES", "literal");
    let mut config = world.config("apply");
    config["variables"] =
        json!({"password": {"value": "name:looks-like-a-key", "sensitive": true}});
    let end = world.run(config).await;
    assert_succeeded(&end);
    assert_eq!(world.received().outputs[0]["outputs"]["it"]["value"], "name:looks-like-a-key");
    assert!(
        !world.reports_and_output(&end).contains("looks-like-a-key"),
        "{}",
        world.reports_and_output(&end)
    );
}

#[tokio::test]
async fn environment_variables_of_the_run_are_set_for_terraform_only() {
    let module = r#"
resource "terraform_data" "asks" {
  provisioner "local-exec" {
    command = "echo \"told: $PLAIN $SECRET\""
  }
}
"#;
    let server = GitServer::with_login("x-access-token", "hunter22-token");
    let repository = Repository::create(&[("main.tf", MODULE)]);
    let world = World::new(&[("main.tf", module)]).await;
    let mut config = world.config("apply");
    config["envVars"] = json!({
        "GITHUB_TOKEN": {"value": "hunter22-token", "sensitive": true},
        "PLAIN": {"value": "in-the-open"},
        "SECRET": {"value": "hunter22-secret", "sensitive": true},
    });
    let end = world.run(config.clone()).await;
    assert_succeeded(&end);
    let shown = world.reports_and_output(&end);
    assert!(shown.contains("told: in-the-open ***") && !shown.contains("hunter22"), "{shown}");

    // If the token were used for the fetch as well, this repository could be cloned.
    config["source"]["gitRepo"] = json!(server.url(&repository));
    let end = world.run(config).await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    assert_eq!(world.last_status()["error"]["phase"], "source");
}

#[tokio::test]
async fn ephemeral_variable_is_passed_to_plan_and_apply() {
    let module = r#"
variable "token" {
  type      = string
  ephemeral = true
}
variable "name" { type = string }
resource "terraform_data" "checks" {
  input = var.name
  provisioner "local-exec" {
    command     = "test \"$TOKEN\" = hunter22-ephemeral"
    environment = { TOKEN = var.token }
  }
}
output "name" { value = terraform_data.checks.output }
"#;
    let world = World::new(&[("main.tf", module)]).await;
    let mut config = world.config("apply");
    config["variables"] = json!({"name": {"value": "n"}, "token": {"value": "hunter22-ephemeral", "sensitive": true}});
    let end = world.run(config).await;
    assert_succeeded(&end);
    assert_eq!(world.received().outputs[0]["outputs"]["name"]["value"], "n");
    assert!(
        !world.reports_and_output(&end).contains("hunter22"),
        "{}",
        world.reports_and_output(&end)
    );
}

#[tokio::test]
async fn next_run_finds_the_state_in_postgresql_and_its_credentials_are_masked() {
    let server = Postgres::start();
    let own = "terraform {\n  backend \"local\" {}\n}\n";
    let world = World::new(&[("main.tf", MODULE), ("backend.tf", own)]).await;
    let connection = server.connection_string();
    let backend =
        json!({"type": "pg", "config": {"conn_str": connection, "schema_name": "Team-A_network"}});
    let encoded = connection.split(['@', ':']).nth(2).unwrap().to_owned();
    for (operation, reports, said) in [
        ("apply", &["POST plan", "POST outputs"][..], "Applied: 1 added"),
        ("plan", &["POST plan"], "No changes."),
    ] {
        let mut config = world.config(operation);
        config["stateBackend"] = backend.clone();
        let end = world.run(config).await;
        assert_succeeded(&end);
        assert_eq!(world.received().request_names(), sequence(reports));
        let summary = world.last_status()["plan_summary"].clone();
        assert!(summary.as_str().unwrap().starts_with(said), "{summary}");
        for secret in [PASSWORD, &encoded] {
            assert!(
                !world.reports_and_output(&end).contains(secret),
                "{}",
                world.reports_and_output(&end)
            );
        }
    }
    assert_eq!(server.query("SELECT count(*) FROM \"Team-A_network\".states"), ["1"]);
}

#[tokio::test]
async fn refused_database_login_fails_the_run_without_its_credentials() {
    let server = Postgres::start();
    let world = World::new(&[("main.tf", MODULE)]).await;
    let mut config = world.config("plan");
    let wrong = server.connection_string().replacen("postgres:", "postgres:wrong-", 2);
    config["stateBackend"] = json!({"type": "pg", "config": {"conn_str": wrong}});
    let end = world.run(config).await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    assert_eq!(world.received().request_names(), sequence(&[]));
    assert_eq!(world.last_status()["error"]["phase"], "init");
    let shown = world.reports_and_output(&end);
    assert!(!shown.contains("wrong-") && !shown.contains(PASSWORD), "{shown}");
}

#[tokio::test]
async fn credentials_in_an_error_of_terraform_are_masked() {
    for (address, quoted) in [
        ("postgres://somebody:hunter22-secret@127.0.0.1:port/x", "parse \"***\": invalid port"),
        ("postgres://somebody:hunter22-%zz@127.0.0.1/x", "parse \"***\": invalid URL escape"),
    ] {
        let world = World::new(&[("main.tf", MODULE)]).await;
        let mut config = world.config("plan");
        config["stateBackend"] = json!({"type": "pg", "config": {"conn_str": address}});
        let end = world.run(config).await;
        assert_eq!(end.code, Some(1), "{}", end.stderr);
        let shown = world.reports_and_output(&end);
        assert!(shown.contains(quoted) && !shown.contains("hunter22"), "{shown}");
    }
}

#[tokio::test]
async fn different_run_id_in_the_configuration_is_a_warning() {
    let world = World::new(&[("main.tf", MODULE)]).await;
    let mut config = world.config("plan");
    config["runId"] = json!("another-run");
    let end = world.run(config).await;
    assert_succeeded(&end);
    let received = world.received();
    assert_eq!(received.request_names(), sequence(&["POST plan"]));
    let log = received.log_text();
    let warned = |text: &str| text.contains("another-run") && text.contains(RUN_ID);
    assert!(log.lines().any(|line| line.starts_with("Warning: ") && warned(line)), "{log}");
    assert!(end.stderr.lines().any(|line| line.contains("WARN") && warned(line)), "{}", end.stderr);
}

#[tokio::test]
async fn restarted_job_with_another_run_id_continues() {
    for status in ["running", "some-status-of-tomorrow"] {
        let world = World::new(&[("main.tf", MODULE)]).await;
        world.add_run(world.config("plan"));
        world.registry.set_status(RUN_ID, status);
        let output = world.execute().output().await.unwrap();
        assert_succeeded(&world.end(&output));
        assert_eq!(world.received().request_names(), sequence(&["POST plan"]), "{status}");
        assert_eq!(world.last_status()["status"], Value::from("succeeded"));
    }
}
