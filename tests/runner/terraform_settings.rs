//! Settings for Terraform, from a file and from the run: how they reach Terraform, their
//! precedence, and warnings.

mod errors;
mod precedence;
mod schema;

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use serde_json::{Value, json};

use butler_testing::authority::Authority;
use butler_testing::terraform_registry::{TerraformRegistry, unpack_provider};
use butler_testing::world::{MODULE, RunEnd, World};
use butler_testing::{PASSWORD, Postgres};

/// Prints the values that Terraform got.
const SHOWS_CONFIG: &str = r#"
resource "terraform_data" "shows" {
  triggers_replace = timestamp()
  provisioner "local-exec" {
    command = "echo \"config: $TF_CLI_CONFIG_FILE\"; stat -c 'mode: %a' \"$TF_CLI_CONFIG_FILE\"; cat \"$TF_CLI_CONFIG_FILE\"; echo \"timeout: $TF_REGISTRY_CLIENT_TIMEOUT\""
  }
}
"#;

/// Writes a settings file and sets its path for the runner.
fn write_settings(world: &mut World, text: &str) -> PathBuf {
    let path = world.path("settings.yaml");
    std::fs::write(&path, text).unwrap();
    world.set("BUTLER_SETTINGS", &path);
    path
}

/// Mounts a secret.
fn mount(world: &mut World, secret: &str, value: &str) {
    let path = world.path("secrets").join(secret);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, value).unwrap();
    world.set("BUTLER_SECRETS_DIR", world.path("secrets"));
}

fn assert_succeeded(end: &RunEnd) {
    assert_eq!(end.code, Some(0), "{}\n{}", end.stderr, end.stdout);
}

/// The warnings in the run's log, except Terraform's. Standard error contains them as well.
fn warnings(world: &World, end: &RunEnd) -> Vec<String> {
    let log = world.received().log_text();
    let warnings: Vec<_> = log
        .lines()
        .filter_map(|line| line.strip_prefix("Warning: "))
        .filter(|line| !line.starts_with("Incomplete lock file"))
        .map(str::to_owned)
        .collect();
    for warning in &warnings {
        let on_stderr = |line: &str| line.contains("WARN") && line.contains(warning.as_str());
        assert!(end.stderr.lines().any(on_stderr), "{warning}: {}", end.stderr);
    }
    warnings
}

/// Both formats of a settings file are equivalent.
async fn in_both_ways(
    world: &mut World,
    mut config: Value,
    settings: &Value,
    check: impl AsyncFn(&World, RunEnd),
) {
    config["terraformSettings"] = settings.clone();
    let end = world.run(config.clone()).await;
    check(world, end).await;
    config.as_object_mut().unwrap().remove("terraformSettings");
    write_settings(world, &settings.to_string());
    let end = world.run(config).await;
    check(world, end).await;
}

#[tokio::test]
async fn token_of_a_module_registry_is_sent_masked_and_wiped() {
    let authority = Authority::create();
    let registry = TerraformRegistry::start(&authority).await;
    let files = [("main.tf", SHOWS_CONFIG), ("module.tf", &registry.module_call())];
    let mut world = World::new(&files).await;
    world.set("SSL_CERT_FILE", authority.bundle());
    mount(&mut world, "registry-token/token", "hunter22-${x}%{y}\"\\");
    let id = "/planes/radius/local/providers/Radius.Security/secrets/registry-token";
    let settings = json!({
        "terraformrc": {"credentials": {
            (registry.host()): {"token": {"secretId": id, "key": "token"}},
        }},
        "env": {"TF_REGISTRY_CLIENT_TIMEOUT": 15},
    });
    let config = world.config("apply");
    in_both_ways(&mut world, config, &settings, async |world, end| {
        assert_succeeded(&end);
        let asked = registry.requests();
        let of_modules: Vec<_> =
            asked.iter().filter(|(path, _)| path.starts_with("/modules/")).collect();
        assert!(of_modules.len() >= 2, "{asked:?}");
        for (path, authorization) in of_modules {
            let expected = Some("Bearer hunter22-${x}%{y}\"\\".to_owned());
            assert_eq!(*authorization, expected, "{path}");
        }
        let outputs = world.received().outputs.pop().unwrap();
        assert_eq!(outputs["outputs"]["it"]["value"], "from the registry");
        let log = world.received().log_text();
        let shm = world.path("shm").display().to_string();
        for shown in [format!("config: {shm}/"), "mode: 600".into(), "timeout: 15".into()] {
            assert!(log.contains(&shown), "{shown}: {log}");
        }
        assert!(log.contains("token = \"***\""), "{log}");
        assert!(
            !world.reports_and_output(&end).contains("hunter22"),
            "{}",
            world.reports_and_output(&end)
        );
        assert!(world.left_in("home").is_empty(), "nothing is written into the home");
    })
    .await;
}

#[tokio::test]
async fn network_mirror_serves_providers_and_gets_the_token_of_its_host() {
    let authority = Authority::create();
    let registry = TerraformRegistry::start(&authority).await;
    let mut world = World::new(&[("main.tf", TerraformRegistry::REQUIRES_PROVIDER)]).await;
    world.set("SSL_CERT_FILE", authority.bundle());
    world.set("MIRROR_TOKEN", "hunter22-mirror");
    let settings = json!({"terraformrc": {
        "providerInstallation": {"networkMirror": {
            "url": format!("https://{}/mirror", registry.host()),
            "include": ["*"],
        }},
        "credentials": {(registry.host()): {"token": {"secretId": "MIRROR_TOKEN"}}},
    }});
    let config = world.config("plan");
    in_both_ways(&mut world, config, &settings, async |world, end| {
        let log = world.received().log_text();
        assert!(log.contains("Installed example.com/acme/tiny v1.0.0"), "{log}");
        // The file is not a working provider.
        assert_eq!(world.last_status()["error"]["phase"], "plan", "{log}");
        let asked = registry.requests();
        assert!(asked.iter().any(|(path, _)| path.ends_with("tiny.zip")), "{asked:?}");
        for (path, authorization) in
            asked.iter().filter(|(path, _)| path.contains("index.") || path.contains("1.0.0."))
        {
            assert_eq!(authorization.as_deref(), Some("Bearer hunter22-mirror"), "{path}");
        }
        assert!(
            !world.reports_and_output(&end).contains("hunter22"),
            "{}",
            world.reports_and_output(&end)
        );
    })
    .await;
}

#[tokio::test]
async fn filesystem_mirror_works_with_special_characters_in_its_path() {
    let mut world = World::new(&[("main.tf", TerraformRegistry::REQUIRES_PROVIDER)]).await;
    let mirror = world.path("mirror ${a}%{b} \"q\" \\ é");
    unpack_provider(&mirror);
    let settings = json!({"terraformrc": {"providerInstallation": {
        "filesystemMirror": [{"path": mirror, "include": ["example.com/*/*"]}],
        "direct": {"exclude": ["example.com/*/*"]},
    }}});
    let config = world.config("plan");
    in_both_ways(&mut world, config, &settings, async |world, _| {
        let log = world.received().log_text();
        assert!(log.contains("Installed example.com/acme/tiny v1.0.0"), "{log}");
    })
    .await;
}

#[tokio::test]
async fn users_cli_configuration_applies_if_the_settings_have_no_terraformrc() {
    let mut world = World::new(&[("main.tf", TerraformRegistry::REQUIRES_PROVIDER)]).await;
    let mirror = world.path("mirror");
    unpack_provider(&mirror);
    let own = format!(
        "provider_installation {{\n  filesystem_mirror {{\n    path = {:?}\n  }}\n}}\n",
        mirror.display().to_string()
    );
    std::fs::write(world.path("home/.terraformrc"), &own).unwrap();
    write_settings(&mut world, "env:\n  TF_REGISTRY_CLIENT_TIMEOUT: 15\n");
    let end = world.run(world.config("plan")).await;
    let log = world.received().log_text();
    assert!(log.contains("Installed example.com/acme/tiny v1.0.0"), "{log}");
    assert_eq!(warnings(&world, &end), [""; 0]);
    assert_eq!(std::fs::read_to_string(world.path("home/.terraformrc")).unwrap(), own);
}

#[tokio::test]
async fn backend_settings_are_translated_and_references_resolved() {
    let server = Postgres::start();
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    mount(&mut world, "state/connStr", &server.connection_string());
    let settings = json!({"backend": {"type": "pg", "config": {
        "connStr": {"secretId": "state", "key": "connStr"},
        "schemaName": "from_settings",
        "skipSchemaCreation": null,
    }}});
    let mut config = world.config("apply");
    config.as_object_mut().unwrap().remove("stateBackend");
    in_both_ways(&mut world, config, &settings, async |world, end| {
        assert_succeeded(&end);
        assert!(
            !world.reports_and_output(&end).contains(PASSWORD),
            "{}",
            world.reports_and_output(&end)
        );
    })
    .await;
    let states = server.query("SELECT count(*) FROM from_settings.states");
    assert_eq!(states, ["1"]);
}

#[tokio::test]
async fn local_backend_inside_the_clone_is_refused_from_every_source() {
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    let settings = json!({"backend": {"type": "local", "config": {"path": "x.tfstate"}}});
    let mut config = world.config("apply");
    config.as_object_mut().unwrap().remove("stateBackend");
    in_both_ways(&mut world, config, &settings, async |world, end| {
        assert_eq!(end.code, Some(1), "{}", end.stderr);
        let reason = world.last_status()["error"]["message"].to_string();
        assert!(reason.contains("`x.tfstate` in the clone, is lost"), "{reason}");
    })
    .await;
}

#[tokio::test]
async fn local_run_uses_all_settings_except_the_backend() {
    let mut world = World::new(&[]).await;
    let module = world.path("module");
    std::fs::create_dir(&module).unwrap();
    std::fs::write(module.join("main.tf"), MODULE).unwrap();
    write_settings(
        &mut world,
        "backend:\n  type: http\n  config: {address: 'http://127.0.0.1:1/'}\nenv: {TF_VAR_name: from-settings}\n",
    );
    let output = world
        .command(&["execute", "--local", "--operation", "apply", "--module-dir"])
        .arg(&module)
        .output()
        .await
        .unwrap();
    let end = world.end(&output);
    assert_succeeded(&end);
    assert!(end.stdout.contains("hello from-settings"), "{}", end.stdout);
    let warned = "`backend` of the settings file is ignored: the module's own backend, in a local run, counts";
    assert!(end.stderr.contains(warned), "{}", end.stderr);
    assert!(module.join("terraform.tfstate").is_file());
}

#[tokio::test]
async fn terraform_log_is_written_to_the_configured_path_or_reported_masked() {
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    world.set("TFC_TOKEN_TOKEN", "hunter22-token");
    let credentials = "terraformrc:\n  credentials:\n    app.terraform.io:\n      token: {secretId: tfc-token, key: token}\n";
    write_settings(
        &mut world,
        &format!("{credentials}env: {{SHOWN: hunter22-token}}\nlogging: {{level: trace}}\n"),
    );
    let end = world.run(world.config("plan")).await;
    assert_succeeded(&end);
    assert!(world.received().log_text().contains("[TRACE]"), "the level counts");
    assert!(
        !world.reports_and_output(&end).contains("hunter22"),
        "{}",
        world.reports_and_output(&end)
    );

    world.set("BUTLER_REPORT_DIR", world.path("report"));
    write_settings(&mut world, "logging:\n  level: Debug\n  path: terraform.log\n");
    let end = world.run(world.config("plan")).await;
    assert_succeeded(&end);
    assert!(!world.received().log_text().contains("[DEBUG]"), "it is in the file");
    let log = world.path("report/terraform.log");
    assert!(std::fs::read_to_string(&log).unwrap().contains("[DEBUG]"));
    assert_eq!(std::fs::metadata(&log).unwrap().permissions().mode() & 0o777, 0o600);
    let warnings = warnings(&world, &end);
    assert!(warnings[0].ends_with("what it says there is not masked"), "{warnings:?}");
}

#[tokio::test]
async fn terraform_log_must_be_a_regular_file_and_is_private() {
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    let (pipe, link, open) = (world.path("pipe"), world.path("link"), world.path("open"));
    mkfifo(&pipe, Mode::S_IRWXU).unwrap();
    std::fs::write(&open, "before\n").unwrap();
    std::fs::set_permissions(&open, PermissionsExt::from_mode(0o644)).unwrap();
    symlink(&open, &link).unwrap();
    for path in [pipe, link] {
        write_settings(
            &mut world,
            &format!("logging:\n  level: debug\n  path: {}\n", path.display()),
        );
        let end = world.run(world.config("plan")).await;
        assert_eq!(end.code, Some(1), "{}", end.stderr);
        let reason = world.last_status()["error"]["message"].to_string();
        let expected = format!("Terraform's log `{}`: not a regular file", path.display());
        assert!(reason.contains(&expected), "{reason}");
    }
    write_settings(&mut world, &format!("logging:\n  level: debug\n  path: {}\n", open.display()));
    assert_succeeded(&world.run(world.config("plan")).await);
    let log = std::fs::read_to_string(&open).unwrap();
    assert!(log.starts_with("before\n") && log.contains("[DEBUG]"), "{log}");
    assert_eq!(std::fs::metadata(&open).unwrap().permissions().mode() & 0o777, 0o600);
}
