//! The tool of a run and its installation: whole runs with a release site.

use std::path::Path;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use butler_testing::release_site::{Fault, ReleaseSite, executable, platform};
use butler_testing::terraform::machine_terraform;
use butler_testing::world::{MODULE, World, eventually, sequence};

/// A stand-in that records its commands, and only prints its version.
fn recording(version: &str, record: &Path) -> String {
    format!(
        "#!/bin/sh\necho \"$@\" >> '{}'\ncase \"$1\" in\n\
         version) echo '{{\"terraform_version\": \"{version}\"}}' ;;\n*) exit 7 ;;\nesac\n",
        record.display()
    )
}

fn versions_in_cache(world: &World) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(world.path("cache/terraform")) else { return Vec::new() };
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| !name.starts_with('.') && name != "history.json")
        .collect()
}

#[tokio::test]
async fn missing_terraform_is_installed_once() {
    let (program, version) = machine_terraform();
    let site = ReleaseSite::start(&[(&version, &std::fs::read(program).unwrap())]);
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    world.use_bare_path();
    world.use_site(&site);
    let mut config = world.config("apply");
    config["terraformVersion"] = json!(version);

    let end = world.run(config.clone()).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    let received = world.received();
    assert_eq!(received.request_names(), sequence(&["POST plan", "POST outputs"]));
    assert_eq!(world.last_status()["tool"], format!("terraform {version}"));
    let base = format!("/terraform/{version}/terraform_{version}");
    let files = ["_SHA256SUMS", "_SHA256SUMS.72D7468F.sig", &format!("_{}.zip", platform())]
        .map(|name| format!("{base}{name}"));
    assert_eq!(site.requests(), files);
    let cached = world.path("cache/terraform").join(&version).join("terraform");
    let log = received.log_text();
    let line = format!("Using terraform {version} ({})", cached.display());
    assert!(log.lines().any(|it| it == line), "{log}");

    let end = world.run(config).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    assert_eq!(site.requests(), files, "the second run asks nobody");
    let log = world.received().log_text();
    assert!(log.contains("No changes."), "{log}");
}

#[tokio::test]
async fn wrong_signature_fails_the_run_in_the_tool_phase() {
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    let record = world.path("record");
    let site = ReleaseSite::start(&[("1.9.8", recording("1.9.8", &record).as_bytes())]);
    site.inject_fault("SHA256SUMS.72D7468F.sig", Fault::ByAnother);
    world.use_bare_path();
    world.use_site(&site);
    let mut config = world.config("apply");
    config["terraformVersion"] = json!("1.9.8");
    let end = world.run(config).await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    let received = world.received();
    assert_eq!(received.request_names(), sequence(&[]));
    assert_eq!(world.statuses(), ["running", "failed"]);
    let error = world.last_status()["error"].clone();
    assert_eq!(error["phase"], "tool");
    let reason = error["message"].as_str().unwrap();
    assert!(reason.contains("cannot trust terraform 1.9.8"), "{reason}");
    assert!(received.log_text().contains(reason), "the log ends with the reason");
    let archive = format!("/terraform/1.9.8/terraform_1.9.8_{}.zip", platform());
    assert!(!site.requests().contains(&archive), "{:?}", site.requests());
    assert_eq!(versions_in_cache(&world), [""; 0]);
    assert!(!record.exists(), "nothing of it was started");
}

#[tokio::test]
async fn unreleased_version_is_named_with_the_site() {
    let site = ReleaseSite::start(&[]);
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    world.use_site(&site);
    let mut config = world.config("plan");
    config["terraformVersion"] = json!("99.99.99");
    let end = world.run(config).await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    assert_eq!(world.received().request_names(), sequence(&[]));
    assert_eq!(world.statuses(), ["running", "failed"]);
    let error = world.last_status()["error"].clone();
    assert_eq!(error["phase"], "tool");
    let reason = error["message"].as_str().unwrap();
    for part in ["terraform 99.99.99", site.url().as_str()] {
        assert!(reason.contains(part), "{part}: {reason}");
    }
}

#[tokio::test]
async fn signal_ends_a_hanging_download() {
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    let record = world.path("record");
    let site = ReleaseSite::start(&[("1.9.8", recording("1.9.8", &record).as_bytes())]);
    site.inject_fault(".zip", Fault::Hanging);
    world.use_site(&site);
    world.set("BUTLER_GRACE_PERIOD", "1h");
    let mut config = world.config("plan");
    config["terraformVersion"] = json!("1.9.8");
    world.add_run(config);
    let child = world.execute().spawn().unwrap();
    let pid = Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap());
    site.wait_for_request(".zip").await;
    kill(pid, Signal::SIGTERM).unwrap();
    let end = world.end(&child.wait_with_output().await.unwrap());
    assert_eq!(end.code, Some(143), "{}", end.stderr);
    assert_eq!(world.received().request_names(), sequence(&[]));
    assert_eq!(world.statuses(), ["running", "failed"]);
    assert_eq!(world.last_status()["error"]["phase"], "tool");
    assert_eq!(versions_in_cache(&world), [""; 0]);
    assert!(!record.exists(), "nothing of it was started");
}

#[tokio::test]
async fn unsupported_operation_names_the_first_version_that_supports_it() {
    for (operation, version, needed) in [
        ("test", "1.5.7", "1.6.0"),
        ("refresh", "0.15.3", "0.15.4"),
        ("drift-check", "0.15.3", "0.15.4"),
    ] {
        let mut world = World::new(&[("main.tf", MODULE)]).await;
        let record = world.path("record");
        let site = ReleaseSite::start(&[(version, recording(version, &record).as_bytes())]);
        world.use_site(&site);
        let mut config = world.config(operation);
        config["terraformVersion"] = json!(version);
        let end = world.run(config).await;
        assert_eq!(end.code, Some(1), "{}", end.stderr);
        assert_eq!(world.received().request_names(), sequence(&[]), "{operation}");
        let reason = world.last_status()["error"]["message"].clone();
        let expected = format!(
            "terraform {version} does not support `{operation}`, which needs {needed} or later"
        );
        assert_eq!(reason, Value::String(expected));
        let ran = std::fs::read_to_string(&record).unwrap_or_default();
        assert!(ran.lines().all(|line| line.starts_with("version")), "{ran}");
    }
}

#[tokio::test]
async fn version_comes_from_the_module_then_the_default_then_path() {
    let required = "terraform {\n  required_version = \"= 1.9.8\"\n}\n";
    let default = Some("1.10.0");
    let cases = [
        (&[("main.tf", required), (".terraform-version", "1.9.8\n")][..], default, "1.9.8"),
        (&[("main.tf", MODULE), (".terraform-version", "1.9.8\n")], default, "1.9.8"),
        (&[("main.tf", required)], default, "1.9.8"),
        (&[("main.tf", MODULE)], default, "1.10.0"),
        (&[("main.tf", MODULE)], None, "1.7.0"),
    ];
    for (files, default, expected) in cases {
        let mut world = World::new(files).await;
        let record = world.path("record");
        let releases = ["1.9.8", "1.10.0"].map(|version| (version, recording(version, &record)));
        let releases = releases.each_ref().map(|(version, script)| (*version, script.as_bytes()));
        let site = ReleaseSite::start(&releases);
        let bin = world.use_bare_path();
        executable(&bin.join("terraform"), recording("1.7.0", &record));
        world.use_site(&site);
        if let Some(default) = default {
            world.set("BUTLER_DEFAULT_TOOL_VERSION", default);
        }
        // A stand-in only prints its version; the test is about which one gets further commands.
        let end = world.run(world.config("plan")).await;
        assert_eq!(end.code, Some(1), "{}", end.stderr);
        let status = world.last_status();
        assert_eq!(status["tool"], format!("terraform {expected}"), "{files:?} {default:?}");
        assert_ne!(status["error"]["phase"], "tool", "{status}");
    }
}

#[tokio::test]
async fn machine_without_any_version_prints_a_hint() {
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    world.use_bare_path();
    let end = world.run(world.config("plan")).await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    assert_eq!(world.received().request_names(), sequence(&[]));
    let error = world.last_status()["error"].clone();
    assert_eq!(
        (&error["phase"], &error["message"]),
        (&json!("tool"), &json!("no tool version is known"))
    );
    assert!(error["advice"].as_str().unwrap().contains("--default-tool-version"), "{error}");
}

#[tokio::test]
async fn version_query_runs_while_the_registry_request_is_pending() {
    let world = World::new(&[("main.tf", MODULE)]).await;
    // The request is retried, and the registry never responds.
    for _ in 0..100 {
        world.hang("GET", "config");
    }
    world.add_run(world.config("plan"));
    let child = world.execute().spawn().unwrap();
    world.wait_for_hanging_request().await;
    let memory = world.path("cache/path-versions.json");
    eventually("the version of Terraform", || memory.exists()).await;
    kill(Pid::from_raw(child.id().unwrap().cast_signed()), Signal::SIGTERM).unwrap();
    let end = world.end(&child.wait_with_output().await.unwrap());
    assert_eq!(end.code, Some(143), "{}", end.stderr);
}

/// The query takes longer than both requests, so it must not wait for the first response.
#[tokio::test]
async fn terraform_version_is_queried_before_the_first_response_of_the_registry() {
    let world = World::new(&[("main.tf", MODULE)]).await;
    // The runner's first request. It is retried, and never answered.
    for _ in 0..100 {
        world.hang("GET", "status");
    }
    world.add_run(world.config("plan"));
    let child = world.execute().spawn().unwrap();
    world.wait_for_hanging_request().await;
    let memory = world.path("cache/path-versions.json");
    eventually("the version of Terraform", || memory.exists()).await;
    assert_eq!(world.received().request_names(), [""; 0], "the registry has not answered");
    kill(Pid::from_raw(child.id().unwrap().cast_signed()), Signal::SIGTERM).unwrap();
    let end = world.end(&child.wait_with_output().await.unwrap());
    assert_eq!(end.code, Some(143), "{}", end.stderr);
}

/// As in the image: a cache that is copied with its layers, and a symbolic link to its executable.
#[tokio::test]
async fn version_of_an_installed_terraform_is_not_queried() {
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    let record = world.path("record");
    let site = ReleaseSite::start(&[("1.9.8", recording("1.9.8", &record).as_bytes())]);
    world.use_site(&site);
    let place = world.path("built");
    let words = ["tool", "install", "1.9.8", "--cache-dir", place.to_str().unwrap()];
    let installed = world.command(&words).output().await.unwrap();
    assert!(installed.status.success(), "{installed:?}");
    let mut copy = std::process::Command::new("cp");
    let copied = copy.arg("-a").args([place, world.path("image")]).status();
    assert!(copied.unwrap().success());
    let _ = std::fs::remove_file(&record);
    let bin = world.use_bare_path();
    let link = bin.join("terraform");
    std::os::unix::fs::symlink(world.path("image/terraform/1.9.8/terraform"), &link).unwrap();

    let mut config = world.config("validate");
    config["terraformVersion"] = json!("1.9.8");
    let end = world.run(config).await;
    let log = world.received().log_text();
    assert!(log.contains(&format!("Using terraform 1.9.8 ({})", link.display())), "{log}");
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    let asked = std::fs::read_to_string(&record).unwrap();
    assert!(asked.starts_with("init "), "{asked}");
}

/// Resources of Terraform exist, and the module has become one of `OpenTofu`.
#[tokio::test]
async fn terraform_never_destroys_what_only_opentofu_files_describe() {
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    let end = world.run(world.config("apply")).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    let state = std::fs::read(world.path("terraform.tfstate")).unwrap();
    std::fs::rename(world.path("repository/main.tf"), world.path("repository/main.tofu")).unwrap();
    world.commit(&[]);

    let (_, version) = machine_terraform();
    for operation in ["apply", "destroy", "plan", "refresh", "drift-check", "validate"] {
        let mut config = world.config(operation);
        config["terraformVersion"] = json!(version);
        let end = world.run(config).await;
        assert_eq!(end.code, Some(1), "{operation}: {}", end.stderr);
        let (message, advice) = world.last_error();
        let both = ["OpenTofu only (`main.tofu`)", &format!("the run uses terraform {version}")];
        assert!(both.iter().all(|name| message.contains(name)), "{operation}: {message}");
        assert!(advice.contains("`opentofu-1.8.0`"), "{operation}: {advice}");
        assert_eq!(world.last_status()["error"]["phase"], "source");
        assert!(!world.received().log_text().contains("Initializing"), "{operation}");
    }
    assert_eq!(std::fs::read(world.path("terraform.tfstate")).unwrap(), state);

    // Without a version, OpenTofu executes it, although Terraform is on PATH.
    let record = world.path("record");
    let site = ReleaseSite::start(&[("opentofu-1.9.0", recording("1.9.0", &record).as_bytes())]);
    world.use_site(&site);
    let end = world.run(world.config("apply")).await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    assert_eq!(world.last_status()["tool"], "opentofu 1.9.0");
    assert!(std::fs::read_to_string(record).unwrap().contains("init"));
    assert_eq!(std::fs::read(world.path("terraform.tfstate")).unwrap(), state);
}

#[tokio::test]
async fn terraform_ignores_the_constraints_of_opentofu_files() {
    let tofu = "terraform {\n  required_version = \"< 1.0\"\n}\n";
    let world = World::new(&[("main.tf", MODULE), ("extra.tofu", tofu)]).await;
    let end = world.run(world.config("apply")).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    assert_eq!(world.last_status()["resources_to_add"], 1);
}

#[tokio::test]
async fn missing_configuration_of_the_tool_is_named() {
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    for (file, is_missing) in [("missing.tfrc", true), ("empty.tfrc", false)] {
        std::fs::write(world.path("empty.tfrc"), "").unwrap();
        world.set("TF_CLI_CONFIG_FILE", world.path(file));
        let end = world.run(world.config("plan")).await;
        assert_eq!(end.code, Some(0), "{}", end.stderr);
        let warning = format!(
            "TF_CLI_CONFIG_FILE names `{}`, which does not exist",
            world.path(file).display()
        );
        assert_eq!(end.stderr.contains(&warning), is_missing, "{}", end.stderr);
    }
}
