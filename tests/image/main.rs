//! The image, built without a container engine: each line of the Dockerfile is executed in a plain
//! directory that is its root. Then runs are executed in the result, read-only and as users that it
//! does not know.
//!
//! Needs root, mmdebstrap and some minutes: `make image-test`. Three parts differ from a real
//! build: the two base images (made from Debian packages, the first with this machine's Rust) and
//! the vendor's release site (a server on loopback with its own key).

#![cfg(target_os = "linux")]
#![expect(clippy::disallowed_methods, reason = "tests start the programs that they check")]
#![expect(clippy::unwrap_used, reason = "what fails in a test's set-up fails the test")]

mod dockerfile;
mod root;

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::LazyLock;

use butler_testing::git_server::{GitServer, Repository};
use butler_testing::release_site::ReleaseSite;
use butler_testing::terraform::machine_terraform;
use butler_testing::world::{MODULE, RUN_ID, TOKEN, World, sequence};
use dockerfile::{Image, Recipe};
use serde_json::json;

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// Built once per process. `cargo test` uses one process for all tests, nextest does not.
static IMAGE: LazyLock<Image> = LazyLock::new(|| {
    root::clear();
    let (program, version) = machine_terraform();
    let site = ReleaseSite::start(&[(&version, &std::fs::read(program).unwrap())]);
    let mut recipe = Recipe::read(&project().join("Dockerfile"));
    recipe.argument("TERRAFORM_VERSION", &version);
    recipe.argument("BUTLER_RUNNER_COMMIT", COMMIT);
    recipe.argument("VERSION", "9.9.9");
    // Replaces the vendor's site and key; the runner still verifies the download.
    recipe.lend("BUTLER_MIRROR", site.url().as_str());
    recipe.lend("BUTLER_SIGNING_KEY", "/run/key.asc");
    recipe.lend_file("run/key.asc", &std::fs::read(site.key_file()).unwrap());
    let image = recipe.build(&project());
    assert!(!site.requests().is_empty(), "Terraform was not downloaded");
    image
});

fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

#[test]
fn image_contains_the_runner_a_verified_terraform_git_and_ssh() {
    let image = &*IMAGE;
    let (_, version) = machine_terraform();
    let runner = image.root.output(image, 65532, &["butler-runner", "--version"]);
    assert!(
        runner.starts_with("butler-runner ") && runner.contains("features: static"),
        "{runner}"
    );
    assert!(runner.contains(&format!("commit:   {COMMIT}")), "{runner}");
    let terraform = image.root.output(image, 65532, &["terraform", "version"]);
    assert!(terraform.starts_with(&format!("Terraform v{version}\n")), "{terraform}");
    let words = ["butler-runner", "tool", "verify", "--cache-dir", "/opt/butler-runner"];
    let verified = image.root.output(image, 65532, &words);
    assert!(verified.contains(&version), "{verified}");
    for words in [
        &["git", "--version"][..],
        &["ssh", "-V"],
        &["curl", "--version"],
        &["test", "-s", CERTIFICATES],
    ] {
        image.root.output(image, 65532, words);
    }
    let lists = image.root.path().join("var/lib/apt/lists");
    assert_eq!(std::fs::read_dir(lists).unwrap().count(), 0, "lists of packages are left");
}

const CERTIFICATES: &str = "/etc/ssl/certs/ca-certificates.crt";

#[test]
fn image_has_labels_and_an_unprivileged_default_user() {
    let image = &*IMAGE;
    assert_eq!(image.user, "65532:65532");
    assert_eq!(image.directory, "/workspace");
    let label = |name: &str| image.labels[&format!("org.opencontainers.image.{name}")].as_str();
    assert_eq!((label("version"), label("revision")), ("9.9.9", COMMIT));
    assert_eq!(label("source"), "https://github.com/butlerdotdev/butler-runner");
    for name in ["title", "description", "documentation", "licenses", "base.name"] {
        assert!(!label(name).is_empty(), "{name}");
    }
    let output = image.root.container(image, 65532, &[]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("Usage: butler-runner"), "{output:?}");
}

#[test]
fn data_directory_of_the_server_belongs_to_the_default_user_alone() {
    let image = &*IMAGE;
    assert_eq!(image.variables["BUTLER_DATA"], "/data");
    let words = ["stat", "--format", "%u:%g %a", "/data"];
    assert_eq!(image.root.output(image, 65532, &words), "65532:65532 700\n");
    // The server does not start without a configuration, and names it.
    let output = image.root.container(image, 65532, &["serve"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("--config"), "{output:?}");
}

/// The command with which GitLab, Jenkins and others start a shell in the image.
#[test]
fn ci_systems_start_a_shell_in_the_image() {
    let image = &*IMAGE;
    for (words, expected) in [
        (&["sh", "-c", "echo \"$1\"", "sh", "a b"][..], "a b\n"),
        (&["sh", "-c", "if [ -x /bin/bash ]; then exec /bin/bash; else exec /bin/sh; fi"], ""),
        (&["cat", "/etc/debian_version"], "12."),
        (&["/usr/local/bin/terraform", "version"], "Terraform v"),
        (&["butler-runner", "-V"], "butler-runner "),
        (&["-V"], "butler-runner "),
    ] {
        let output = image.root.container(image, 65532, words).stdin(Stdio::null()).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{words:?}: {output:?}");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.starts_with(expected), "{words:?}: {output:?}");
    }
}

#[test]
fn base_images_of_both_stages_are_pinned_by_digest() {
    let recipe = Recipe::read(&project().join("Dockerfile"));
    let bases = recipe.bases();
    assert_eq!(bases.len(), 2, "{bases:?}");
    for base in bases {
        let (name, digest) = base.split_once("@sha256:").expect("pinned by digest");
        assert!(name.contains(':') && digest.len() == 64, "{base}");
    }
}

/// Plans a private module for a registry in a read-only root. `words` are the arguments of `docker
/// run IMAGE`.
async fn plans_as(user: u32, words: &[&str]) {
    let image = &*IMAGE;
    let (_, version) = machine_terraform();
    let server = GitServer::start();
    let repository = Repository::create(&[("main.tf", MODULE)]);
    let world = World::new(&[]).await;
    let mut config = world.config("plan");
    config["source"]["gitRepo"] = json!(server.url(&repository));
    config["stateBackend"]["config"]["path"] = json!("/tmp/terraform.tfstate");
    world.add_run(config);
    let mut command = tokio::process::Command::from(image.root.container(image, user, words));
    command
        .env("BUTLER_ENDPOINT", world.endpoint())
        .env("BUTLER_RUN_ID", RUN_ID)
        .env("BUTLER_TOKEN", TOKEN)
        .env("BUTLER_LOG_INTERVAL", "1h")
        .env("WORLD", world.path("tmp"))
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let end = world.end(&command.output().await.unwrap());
    assert_eq!(end.code, Some(0), "{}\n{}", end.stderr, world.received().log_text());
    assert_eq!(world.received().request_names(), sequence(&["POST plan"]));
    assert_eq!(world.statuses(), ["running", "succeeded"]);
    assert_eq!(world.last_status()["tool"], format!("terraform {version}"));
    assert_eq!(world.last_status()["resources_to_add"], 1, "{}", world.last_status());
}

#[tokio::test]
async fn default_user_can_plan_on_a_read_only_root() {
    plans_as(65532, &[]).await;
}

#[tokio::test]
async fn user_nobody_can_plan_on_a_read_only_root() {
    plans_as(65534, &["exec"]).await;
}

#[tokio::test]
async fn user_without_a_passwd_entry_can_plan_on_a_read_only_root() {
    plans_as(1_000_770_000, &["butler-runner", "execute"]).await;
}

#[test]
fn read_only_root_of_the_tests_rejects_writes_outside_of_tmp() {
    let image = &*IMAGE;
    let output = image.root.read_only(image, 0).args(["touch", "/written"]).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("Read-only"), "{output:?}");
    let output = image.root.read_only(image, 0).args(["touch", "/tmp/written"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}
