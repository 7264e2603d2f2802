//! Sensitive variables whose value is the name of a secret, a secret, or empty.

use serde_json::{Value, json};

use butler_runner::ci::System;
use butler_testing::documented::assert_documented;
use butler_testing::world::{RunEnd, World, sequence};

/// A module that prints the password; its value may be in the outputs only.
const PASSWORD: &str = r#"
variable "password" { type = string }
resource "terraform_data" "shows" {
  provisioner "local-exec" {
    command = "echo 'told: ${var.password}'"
  }
}
output "it" { value = var.password }
"#;

fn sensitive(value: &Value) -> Value {
    json!({"value": value, "sensitive": true})
}

fn assert_succeeded(end: &RunEnd) {
    assert_eq!(end.code, Some(0), "{}\n{}", end.stderr, end.stdout);
}

/// Asserts that the run failed before `init` because of its variables. Returns the message and the
/// advice.
fn assert_unresolved(world: &World, end: &RunEnd) -> (String, String) {
    assert_eq!(end.code, Some(1), "{}\n{}", end.stderr, end.stdout);
    let error = world.last_status()["error"].clone();
    assert_eq!(error["phase"], "variables", "{error}");
    let log = world.received().log_text();
    assert!(!log.contains("Initializing"), "{log}");
    let text = |name: &str| error[name].as_str().unwrap().to_owned();
    assert!(log.contains(&text("message")) && log.contains(&text("advice")), "{log}");
    (text("message"), text("advice"))
}

#[tokio::test]
async fn missing_secrets_of_the_job_fail_the_run_and_are_all_named() {
    for (variable, place) in [
        ("GITHUB_ACTIONS", "Settings > Secrets and variables > Actions"),
        ("GITLAB_CI", "Settings > CI/CD > Variables"),
    ] {
        let mut world = World::new(&[("main.tf", PASSWORD)]).await;
        world.set(variable, "true");
        let mut config = world.config("apply");
        config["variables"] = json!({
            "password": sensitive(&json!("DB_PASSWORD")),
            "with_colon": sensitive(&json!("ADMIN_PASSWORD:")),
            "without_key": sensitive(&json!("prod/db")),
            "with_key": sensitive(&json!("prod/db:password")),
            "of_ci": sensitive(&json!("db-password")),
            "of_vault": sensitive(&json!("vault:secret/data/db#password")),
            "empty": sensitive(&json!("")),
        });
        config["envVars"] = json!({"TF_VAR_of_a_set": sensitive(&json!("API_TOKEN"))});
        let end = world.run(config).await;
        let (message, advice) = assert_unresolved(&world, &end);
        for part in [
            "cannot resolve 8 secrets",
            "`password` (set `TF_VAR_password` or set `DB_PASSWORD`)",
            "`with_colon` (set `TF_VAR_with_colon` or set `ADMIN_PASSWORD`)",
            "`without_key`",
            "`with_key` (set `TF_VAR_with_key` or mount `<secrets-dir>/prod/db/password`",
            "`of_ci` (set `TF_VAR_of_ci` or set the variable that its value names)",
            "`of_vault` (its value is a reference of another system",
            "`empty` (it has no value",
            "`TF_VAR_of_a_set` (set `TF_VAR_of_a_set` or set `API_TOKEN`)",
        ] {
            assert!(message.contains(part), "{part}: {message}");
        }
        assert!(advice.contains(place) && advice.contains("literal"), "{advice}");
        assert_eq!(world.received().request_names(), sequence(&[]));
    }
}

#[tokio::test]
async fn single_word_is_used_as_the_secret_itself_with_a_warning() {
    let world = World::new(&[("main.tf", PASSWORD)]).await;
    let mut config = world.config("apply");
    config["variables"] = json!({"password": sensitive(&json!("hunter22secret"))});
    let end = world.run(config.clone()).await;
    assert_succeeded(&end);
    let received = world.received();
    assert_eq!(received.outputs[0]["outputs"]["it"]["value"], "hunter22secret");
    let log = received.log_text();
    let warns = |line: &str| {
        line.starts_with("Warning: `password`: ")
            && ["`TF_VAR_password`", "--sensitive-values literal"]
                .iter()
                .all(|it| line.contains(it))
    };
    assert!(log.lines().any(warns) && log.contains("told: ***"), "{log}");
    assert!(
        !world.reports_and_output(&end).contains("hunter22"),
        "{}",
        world.reports_and_output(&end)
    );

    // Both alternatives that the warning names.
    for (name, value, expected) in [
        ("BUTLER_SENSITIVE_VALUES", "literal", "hunter22secret"),
        ("hunter22secret", "hunter22-found", "hunter22-found"),
    ] {
        let mut world = World::new(&[("main.tf", PASSWORD)]).await;
        world.set(name, value);
        let mut config = world.config("apply");
        config["variables"] = json!({"password": sensitive(&json!("hunter22secret"))});
        let end = world.run(config).await;
        assert_succeeded(&end);
        let received = world.received();
        assert_eq!(received.outputs[0]["outputs"]["it"]["value"], expected);
        assert!(!received.log_text().lines().any(warns), "{}", received.log_text());
    }
}

#[tokio::test]
async fn empty_secret_is_refused_unless_it_is_the_modules_default() {
    for value in [json!(""), json!(null)] {
        let world = World::new(&[("main.tf", PASSWORD)]).await;
        let mut config = world.config("apply");
        config["variables"] = json!({"password": sensitive(&value)});
        let end = world.run(config).await;
        let (message, _) = assert_unresolved(&world, &end);
        assert!(
            message.contains("`password` (it has no value: set `TF_VAR_password`"),
            "{message}"
        );

        let module = PASSWORD.replace("type = string", "default = \"hunter22-default\"");
        let world = World::new(&[("main.tf", &module)]).await;
        for (place, name) in [("variables", "password"), ("envVars", "TF_VAR_password")] {
            let mut config = world.config("apply");
            config["variables"] = json!({});
            config[place][name] = sensitive(&value);
            let end = world.run(config).await;
            assert_succeeded(&end);
            let received = world.received();
            let log = received.log_text();
            let said = format!("`{name}` has no value: the module's default counts");
            assert!(log.lines().any(|line| line == said), "{log}");
            let it = &received.outputs.last().unwrap()["outputs"]["it"]["value"];
            assert_eq!(it, "hunter22-default");
        }
    }
}

#[tokio::test]
async fn configuration_with_literal_secrets_is_used_unchanged() {
    for value in ["DB_PASSWORD", "prod/db:password", "hunter22secret", ""] {
        let world = World::new(&[("main.tf", PASSWORD)]).await;
        let mut config = world.config("apply");
        config["sensitiveValues"] = json!("literal");
        config["variables"] = json!({"password": sensitive(&json!(value))});
        let end = world.run(config).await;
        assert_succeeded(&end);
        let received = world.received();
        assert_eq!(received.outputs[0]["outputs"]["it"]["value"], value);
        let log = received.log_text();
        assert!(!log.contains("may be the name of a secret"), "{log}");
        assert!(value.is_empty() || log.contains("told: ***"), "{log}");
    }
}

#[tokio::test]
async fn credentials_of_cloud_integrations_reach_terraform_unchanged() {
    let logins = [
        ("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE"),
        ("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
        ("AWS_SESSION_TOKEN", "FwoGZXIvYXdzEBYaDHunter22=="),
        ("GOOGLE_CREDENTIALS", "{\"type\": \"service_account\"}"),
        ("ARM_CLIENT_SECRET", "abc8Q~hunter22_lmnop"),
        ("CUSTOM_PASSWORD", "Hunter22 and more"),
        ("CUSTOM_TOKEN", "hunter22secret"),
    ];
    let check = |(name, value): &(&str, &str)| format!("test \"${name}\" = '{value}' || exit 7");
    let checks = logins.iter().map(check).collect::<Vec<_>>().join("\n");
    let module = "resource \"terraform_data\" \"checks\" {\n  provisioner \"local-exec\" {\n    \
         command = \"sh ${path.module}/checks.sh\"\n  }\n}\n"
        .to_string();
    let world = World::new(&[("main.tf", &module), ("checks.sh", &checks)]).await;
    let mut config = world.config("apply");
    for (name, value) in logins {
        config["envVars"][name] = sensitive(&json!(value));
    }
    let end = world.run(config).await;
    assert_succeeded(&end);
    let log = world.received().log_text();
    assert!(!log.contains("may be the name of a secret"), "{log}");
}

#[tokio::test]
async fn undeclared_variables_with_environment_names_are_exported() {
    let module = r#"
variable "name" { type = string }
resource "terraform_data" "asks" {
  provisioner "local-exec" {
    command = "echo \"told: ${var.name} $AWS_REGION $RETRIES $API_TOKEN\""
  }
}
"#;
    let mut world = World::new(&[("main.tf", module)]).await;
    world.set("CI_TOKEN", "hunter22-token");
    let mut config = world.config("apply");
    config["variables"] = json!({
        "AWS_REGION": {"value": "eu-central-1"},
        "API_TOKEN": sensitive(&json!("CI_TOKEN")),
        "RETRIES": {"value": 3},
        "name": {"value": "n"},
    });
    let end = world.run(config.clone()).await;
    assert_succeeded(&end);
    let log = world.received().log_text();
    for name in ["AWS_REGION", "API_TOKEN", "RETRIES"] {
        let said =
            format!("not declared by the module: {name}; exported as an environment variable");
        assert!(log.lines().any(|line| line == said), "{said}: {log}");
    }
    assert!(log.contains("told: n eu-central-1 3 ***"), "{log}");
    assert!(!log.contains("undeclared variable"), "{log}");
    assert!(
        !world.reports_and_output(&end).contains("hunter22"),
        "{}",
        world.reports_and_output(&end)
    );

    // Names that cannot be environment variables are left to Terraform, which warns about them.
    config["variables"] = json!({"name": {"value": "n"}, "stray": {"value": "x"}});
    let end = world.run(config.clone()).await;
    assert_succeeded(&end);
    let log = world.received().log_text();
    assert!(log.contains("Value for undeclared variable"), "{log}");
    assert!(!log.contains("not declared by the module: stray"), "{log}");

    // The same rules apply to variables that a run may export.
    config["variables"] = json!({"name": {"value": "n"}, "LD_PRELOAD": {"value": "/x.so"}});
    let end = world.run(config).await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    let error = world.last_status()["error"].clone();
    assert_eq!(error["phase"], "variables", "{error}");
    assert!(error["message"].as_str().unwrap().contains("`LD_PRELOAD`"), "{error}");
}

#[test]
fn documentation_names_the_secret_store_of_each_ci_system() {
    let rows: Vec<String> = System::ALL
        .into_iter()
        .filter_map(|system| Some(format!("| {} | {} |", system.title(), system.secret_place()?)))
        .collect();
    assert_documented("docs/secrets.md", "secret places", &rows);
}
