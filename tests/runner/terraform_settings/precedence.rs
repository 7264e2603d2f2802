//! Which of several sources of a setting counts, and the warnings about the others.

use std::path::Path;

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::{assert_succeeded, mount, warnings, write_settings};
use butler_testing::authority::Authority;
use butler_testing::terraform_registry::{TerraformRegistry, unpack_provider};
use butler_testing::world::{MODULE, World};

/// Prints the variables that several sources set.
const SHOWS_VARIABLES: &str = r#"
resource "terraform_data" "shows" {
  provisioner "local-exec" {
    command = "echo \"shown: $ONE $TWO $THREE level $TF_LOG\""
  }
}
"#;

/// Runs with these settings in the file, the run and the environment; the warnings must be
/// `expected`.
async fn check(
    file: &str,
    run: Value,
    changes: Value,
    ambient: &[(&str, &str)],
    shown: &str,
    expected: Expect,
) {
    let mut world = World::new(&[("main.tf", SHOWS_VARIABLES)]).await;
    write_settings(&mut world, file);
    for (name, value) in ambient {
        world.set(name, *value);
    }
    let mut config = world.config("apply");
    config["terraformSettings"] = run;
    butler_testing::world::merge(&mut config, &changes);
    let end = world.run(config).await;
    assert_succeeded(&end);
    let log = world.received().log_text();
    assert!(log.contains(&format!("shown: {shown}")), "{shown}: {log}");
    expected.assert_eq(&(warnings(&world, &end).join("\n") + "\n"));
}

#[tokio::test]
async fn variables_and_log_level_of_the_run_override_the_file_one_by_one() {
    check(
        "env: {ONE: file, TWO: file}\nlogging: {level: debug}\nbackend: {type: http}\n",
        json!({"env": {"TWO": "run", "THREE": "run"}, "logging": {"level": "error", "path": "/tmp/x"}}),
        json!({"envVars": {"THREE": {"value": "variable"}}}),
        &[("ONE", "ambient"), ("TWO", "ambient"), ("THREE", "ambient"), ("TF_LOG", "TRACE")],
        "file run variable level ERROR",
        expect![[r"
            `backend` of the settings file is ignored: the run's `stateBackend` counts
            `TF_LOG` of the environment is ignored: the run's `terraformSettings` counts
            `logging.path` of the run's `terraformSettings` is ignored: only a settings file may say where traces go
            `env.THREE` of the run's `terraformSettings` is ignored: `envVars` of the run counts
            `TWO` of the environment is ignored: the run's `terraformSettings` counts
            `logging.level` of the settings file is ignored: `logging.level` of the run's `terraformSettings` counts
            `ONE` of the environment is ignored: the settings file counts
            `env.TWO` of the settings file is ignored: `env.TWO` of the run's `terraformSettings` counts
        "]],
    )
    .await;
}

#[tokio::test]
async fn ignored_log_path_of_the_run_keeps_the_logging_of_the_file() {
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    let log = world.path("terraform.log");
    write_settings(&mut world, &format!("logging: {{level: debug, path: {}}}\n", log.display()));
    let mut config = world.config("plan");
    config["terraformSettings"] = json!({"logging": {"path": "/tmp/elsewhere"}});
    let end = world.run(config).await;
    assert_succeeded(&end);
    assert!(std::fs::read_to_string(log).unwrap().contains("[DEBUG]"));
    let refused = "`logging.path` of the run's `terraformSettings` is ignored: only a settings file may say where traces go";
    assert_eq!(warnings(&world, &end)[0], refused);
}

#[tokio::test]
async fn provider_sources_of_the_run_count_only_if_the_file_has_none() {
    let mut world = World::new(&[("main.tf", TerraformRegistry::REQUIRES_PROVIDER)]).await;
    let (ours, theirs) = (world.path("ours"), world.path("theirs"));
    unpack_provider(&ours);
    unpack_provider(&theirs);
    let from = |mirror: &Path| json!({"terraformrc": {"providerInstallation": {"filesystemMirror": {"path": mirror}}}});
    write_settings(&mut world, &from(&ours).to_string());
    let mut config = world.config("plan");
    config["terraformSettings"] = from(&world.path("nowhere"));
    // Not even resolved.
    config["terraformSettings"]["terraformrc"]["credentials"] =
        json!({"app.terraform.io": {"token": {"secretId": "nobody-has-it"}}});
    let end = world.run(config).await;
    assert!(world.received().log_text().contains("Installed example.com/acme/tiny v1.0.0"));
    let ignored =
        "`terraformrc` of the run's `terraformSettings` is ignored: the settings file counts";
    assert_eq!(warnings(&world, &end)[0], ignored);

    write_settings(&mut world, "env: {A: 1}\n");
    let mut config = world.config("plan");
    config["terraformSettings"] = from(&theirs);
    world.run(config).await;
    assert!(world.received().log_text().contains("Installed example.com/acme/tiny v1.0.0"));
}

#[tokio::test]
async fn log_path_in_the_environment_causes_a_warning() {
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    let log = world.path("ambient.log");
    world.set("TF_LOG_PATH", &log);
    let end = world.run(world.config("plan")).await;
    assert_succeeded(&end);
    let warning = format!(
        "Terraform writes its log to `{}`: what it says there is not masked",
        log.display()
    );
    assert_eq!(warnings(&world, &end), [warning]);
}

#[tokio::test]
async fn variables_without_a_setting_keep_their_value() {
    check(
        "env: {ONE: file, TF_LOG: info}\n",
        json!({"logging": {"level": "off"}}),
        json!({}),
        &[("ONE", "file"), ("TWO", "ambient")],
        "file ambient  level OFF",
        expect![[r"
            `env.TF_LOG` of the settings file is ignored: `logging.level` of the run's `terraformSettings` counts
        "]],
    )
    .await;
}

#[tokio::test]
async fn unknown_keys_and_plain_secrets_of_a_run_cause_warnings() {
    check(
        "",
        json!({"terraformrc": {"providerInstalation": {}}, "future": 1, "backend": null,
            "env": {"DB_PASSWORD": "hunter22-plain"}}),
        json!({}),
        &[],
        "   level",
        expect![[r"
            `terraformSettings` of the run: unknown key `future`, there are terraformrc, backend, env, logging, afterPlan
            `terraformSettings` of the run: unknown key `providerInstalation` in `terraformrc`, did you mean `providerInstallation`?
            `env.DB_PASSWORD` of the run's `terraformSettings` looks like a secret: `env` is only for public values
        "]],
    )
    .await;
}

#[tokio::test]
async fn token_of_the_settings_file_overrides_the_environment_but_not_the_run() {
    let authority = Authority::create();
    let registry = TerraformRegistry::start(&authority).await;
    let host = registry.host();
    let port = host.split_once(':').unwrap().1.to_owned();
    let variable = format!("TF_TOKEN_{host}");
    let mut world = World::new(&[("main.tf", &registry.module_call())]).await;
    world.set("SSL_CERT_FILE", authority.bundle());
    world.set(&variable, "hunter22-ambient");
    std::fs::write(world.path("home/.terraformrc"), "").unwrap();
    mount(&mut world, "ours/token", "hunter22-ours");
    write_settings(
        &mut world,
        &format!(
            "terraformrc:\n  credentials:\n    '{host}': {{token: {{secretId: ours, key: token}}}}\n"
        ),
    );
    let shown = |lines: Vec<String>| lines.join("\n").replace(&port, "PORT") + "\n";
    let end = world.run(world.config("plan")).await;
    assert_succeeded(&end);
    let asked = registry.requests();
    let versions = asked.iter().rfind(|(path, _)| path.ends_with("/versions")).unwrap();
    assert_eq!(versions.1.as_deref(), Some("Bearer hunter22-ours"));
    expect![[r"
        `TF_TOKEN_127.0.0.1:PORT` of the environment is ignored: the settings file counts
        `~/.terraformrc` of the environment is ignored: the settings file counts
    "]]
    .assert_eq(&shown(warnings(&world, &end)));
    assert!(
        !world.reports_and_output(&end).contains("hunter22"),
        "{}",
        world.reports_and_output(&end)
    );

    let mut config = world.config("plan");
    config["envVars"] = json!({(variable): {"value": "hunter22_of_the_run", "sensitive": true}});
    let end = world.run(config).await;
    assert_succeeded(&end);
    let asked = registry.requests();
    let versions = asked.iter().rfind(|(path, _)| path.ends_with("/versions")).unwrap();
    assert_eq!(versions.1.as_deref(), Some("Bearer hunter22_of_the_run"));
    expect![[r"
        `terraformrc.credentials.127.0.0.1:PORT` of the settings file is ignored: the run's `TF_TOKEN_127.0.0.1:PORT` counts
        `~/.terraformrc` of the environment is ignored: the settings file counts
    "]].assert_eq(&shown(warnings(&world, &end)));
    assert!(
        !world.reports_and_output(&end).contains("hunter22"),
        "{}",
        world.reports_and_output(&end)
    );
}

#[tokio::test]
async fn backend_of_the_run_overrides_all_others() {
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    write_settings(&mut world, "backend: {type: http}\n");
    let mut config = world.config("apply");
    config["terraformSettings"] = json!({"backend": {"type": "s3"}});
    let end = world.run(config).await;
    assert_succeeded(&end);
    assert!(world.path("terraform.tfstate").is_file());
    expect![[r"
        `backend` of the settings file is ignored: the run's `terraformSettings` counts
        `backend` of the run's `terraformSettings` is ignored: the run's `stateBackend` counts
    "]]
    .assert_eq(&(warnings(&world, &end).join("\n") + "\n"));
}

#[tokio::test]
async fn token_too_short_to_be_masked_is_named_once() {
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    mount(&mut world, "ours/token", "abc");
    write_settings(
        &mut world,
        "terraformrc:\n  credentials:\n    a.example: {token: {secretId: ours, key: token}}\n",
    );
    let end = world.run(world.config("plan")).await;
    assert_eq!(
        warnings(&world, &end),
        ["Too short to be masked in the log: terraformrc.credentials.a.example"]
    );
}
