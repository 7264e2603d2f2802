//! A whole run in an empty root directory with the static binary, certificates and the addresses of
//! name servers. It has no shell, git, /tmp, /dev, /proc or terraform.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Stdio;

use serde_json::json;

use butler_testing::authority::Authority;
use butler_testing::empty_root::EmptyRoot;
use butler_testing::git_server::{Behaviour, GitServer, Repository};
use butler_testing::release_site::ReleaseSite;
use butler_testing::static_runner;
use butler_testing::terraform::machine_terraform;
use butler_testing::world::{MODULE, RUN_ID, RunEnd, TOKEN, World, sequence};

const GIT_TOKEN: &str = "hunter22-very-secret";

/// The directory in the root for files that must outlive a run.
const DIRECTORIES: [&str; 3] = ["cache", "state", "work"];

fn names(directory: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Executes the world's run inside `root`.
async fn run_in(root: &EmptyRoot, world: &World, variables: &[(&str, String)]) -> RunEnd {
    let mut command = tokio::process::Command::from(root.runner());
    command
        .arg("execute")
        .env("BUTLER_ENDPOINT", world.endpoint())
        .env("BUTLER_RUN_ID", RUN_ID)
        .env("BUTLER_TOKEN", TOKEN)
        .env("BUTLER_LOG_INTERVAL", "1h")
        .envs(variables.iter().map(|(name, value)| (name, value)))
        // The world recognizes its own processes by this variable.
        .env("WORLD", world.path("tmp"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    world.end(&command.output().await.unwrap())
}

#[tokio::test]
async fn run_works_in_an_empty_root_with_only_the_binary() {
    let (program, version) = machine_terraform();
    let site = ReleaseSite::start(&[(&version, &std::fs::read(program).unwrap())]);
    let authority = Authority::create();
    let login = Some(("x-access-token".to_owned(), GIT_TOKEN.to_owned()));
    let server = GitServer::with_tls(Behaviour { login, ..Behaviour::default() }, &authority);
    let repository = Repository::create(&[("network/main.tf", MODULE)]);
    let world = World::new(&[]).await;

    let root = EmptyRoot::new(&static_runner());
    // The system trusts this authority.
    root.file("etc/ssl/certs/ca-certificates.crt", &std::fs::read(authority.bundle()).unwrap());
    root.file("key.asc", &std::fs::read(site.key_file()).unwrap());
    for name in DIRECTORIES {
        std::fs::create_dir(root.path().join(name)).unwrap();
    }
    let before = names(root.path());
    let variables = [
        ("BUTLER_CACHE_DIR", "/cache".to_owned()),
        ("BUTLER_WORK_DIR", "/work".to_owned()),
        ("BUTLER_MIRROR", site.url().to_string()),
        ("BUTLER_SIGNING_KEY", "/key.asc".to_owned()),
        ("BUTLER_GIT_TOKEN", GIT_TOKEN.to_owned()),
    ];
    let mut config = world.config("apply");
    config["terraformVersion"] = json!(version);
    config["source"]["gitRepo"] = json!(server.url(&repository));
    config["source"]["workingDirectory"] = json!("network");
    config["stateBackend"]["config"]["path"] = json!("/state/terraform.tfstate");
    config["variables"] = json!({"name": {"value": "nobody"}});

    world.add_run(config.clone());
    let end = run_in(&root, &world, &variables).await;
    assert_eq!(end.code, Some(0), "{}\n{}", end.stderr, world.received().log_text());
    let received = world.received();
    assert_eq!(received.request_names(), sequence(&["POST plan", "POST outputs"]));
    assert_eq!(world.statuses(), ["running", "succeeded"]);
    assert_eq!(received.outputs[0]["outputs"]["greeting"]["value"], "hello nobody");
    let status = world.last_status();
    assert_eq!(status["source_commit"], repository.head().as_str());
    assert_eq!(status["tool"], format!("terraform {version}"));
    assert!(
        !world.reports_and_output(&end).contains(GIT_TOKEN),
        "{}",
        world.reports_and_output(&end)
    );
    let downloads = site.requests().len();

    config["operation"] = json!("destroy");
    world.add_run(config);
    let end = run_in(&root, &world, &variables).await;
    assert_eq!(end.code, Some(0), "{}\n{}", end.stderr, world.received().log_text());
    assert_eq!(world.last_status()["resources_to_destroy"], 1);
    assert_eq!(site.requests().len(), downloads, "the second run takes Terraform from the cache");
    assert_eq!(names(root.path()), before, "nothing is left beside");
    assert_eq!(names(&root.path().join("work")), BTreeSet::new());
}

#[tokio::test]
async fn runner_creates_its_directories_and_reports_failures_without_tmp() {
    let server = GitServer::start();
    let repository = Repository::create(&[("main.tf", MODULE)]);
    let world = World::new(&[]).await;
    let root = EmptyRoot::new(&static_runner());
    let mut config = world.config("plan");
    config["source"]["gitRepo"] = json!(server.url(&repository));
    world.add_run(config);
    let end = run_in(&root, &world, &[]).await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    assert_eq!(world.received().request_names(), sequence(&[]));
    let error = world.last_status()["error"].clone();
    assert_eq!(
        (&error["phase"], &error["message"]),
        (&json!("tool"), &json!("no tool version is known"))
    );
    // The cache is persistent, in the only directory that the runner had to create.
    let left = names(&root.path().join("tmp"));
    assert_eq!(left, BTreeSet::from(["butler-runner-0".to_owned()]), "{}", end.stderr);
}
