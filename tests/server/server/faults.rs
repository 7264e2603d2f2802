//! What happens when servers, attempts and repositories fail.

use std::sync::Arc;

use axum::Router;
use axum::http::StatusCode;
use butler_registry::memory::Server;
use tokio::sync::Semaphore;

use super::*;

/// A state backend that answers only after it was released.
pub(super) struct HeldBackend {
    pub(super) server: Server,
    gate: Arc<Semaphore>,
    /// Has a permit for each request that waits, or has waited.
    asked: Arc<Semaphore>,
}

impl HeldBackend {
    pub(super) async fn start() -> Self {
        let (gate, asked) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
        let (waits, tells) = (Arc::clone(&gate), Arc::clone(&asked));
        let router = Router::new().fallback(move || {
            let (waits, tells) = (Arc::clone(&waits), Arc::clone(&tells));
            async move {
                tells.add_permits(1);
                waits.acquire().await.unwrap().forget();
                StatusCode::NOT_FOUND
            }
        });
        Self { server: Server::start(router).await.unwrap(), gate, asked }
    }

    /// A module with this backend.
    pub(super) fn module(&self) -> String {
        let address = self.server.endpoint();
        format!(
            "terraform {{\n  backend \"http\" {{\n    address = \"{address}\"\n  }}\n}}\n{LAYER}"
        )
    }

    /// A module that reads the state of another one here: its plan waits while it has the lock of
    /// its own state.
    pub(super) fn reading_module(&self) -> String {
        let address = self.server.endpoint();
        format!(
            "data \"terraform_remote_state\" \"held\" {{\n  backend = \"http\"\n  config  = {{ \
             address = \"{address}\" }}\n}}\n{LAYER}"
        )
    }

    /// Waits until a plan reads its state.
    pub(super) async fn wait_for_request(&self) {
        self.asked.acquire().await.unwrap().forget();
    }

    /// Answers everything from now on.
    pub(super) fn release(&self) {
        self.gate.add_permits(1_000);
    }
}

#[tokio::test]
async fn attempt_outlives_a_killed_server_and_its_plan_is_not_lost() {
    let mut installation = Installation::new();
    let backend = HeldBackend::start().await;
    let repository = Repository::create(&[("envs/a/main.tf", &backend.module())]);
    let arguments = Installation::quick_start(&repository);
    installation.serve(&arguments).await;
    backend.wait_for_request().await;
    installation.kill().await;
    // The plan ends while no server runs.
    backend.release();
    installation.serve(&arguments).await;
    installation.until("envs.a", "Succeeded", 1).await;
    let runs = installation.runs("envs.a");
    assert_eq!(runs[0]["attempts"].as_array().unwrap().len(), 1, "{runs:?}");
    assert_eq!(runs[0]["counts"]["add"], 1);
    let log = text(&installation.ask(&["run", "logs", runs[0]["id"].as_str().unwrap()]));
    assert!(log.contains("Plan: 1 to add, 0 to change, 0 to destroy."), "{log}");
    installation.until_free("envs.a").await;
}

#[tokio::test]
async fn log_that_an_attempt_could_not_deliver_is_taken_up() {
    let mut installation = Installation::new();
    let backend = HeldBackend::start().await;
    let repository = Repository::create(&[("envs/a/main.tf", &backend.module())]);
    let arguments = Installation::quick_start(&repository);
    installation.serve(&arguments).await;
    backend.wait_for_request().await;
    installation.kill().await;
    backend.release();
    let directory = attempts(&installation.data()).remove(0);
    eventually("the end of the plan", || {
        let output = std::fs::read_to_string(directory.join("output.log")).unwrap();
        output.contains("Plan: 1 to add")
    })
    .await;
    // It would wait for the server for hours.
    for pid in running(&installation.data()) {
        butler_base::platform::ask_to_end(Pid::from_raw(pid));
    }
    eventually("the end of the attempt", || running(&installation.data()).is_empty()).await;
    let undelivered = || {
        let names = std::fs::read_dir(directory.join("reports/recovery")).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with("undelivered-log-")).count()
    };
    assert_eq!(undelivered(), 1);
    installation.serve(&arguments).await;
    eventually("the end in the store", || {
        installation.runs("envs.a")[0]["attempts"][0]["ended"].is_string()
    })
    .await;
    assert_eq!(undelivered(), 0);
    let log = std::fs::read_to_string(directory.join("log.jsonl")).unwrap();
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let numbers = lines.iter().map(|line| line["sequence"].as_u64().unwrap());
    assert!(numbers.eq(1..=lines.len() as u64), "{log}");
    assert!(log.contains("Plan: 1 to add, 0 to change, 0 to destroy."), "{log}");
}

#[tokio::test]
async fn killed_attempt_is_noticed_and_made_again() {
    let mut installation = Installation::new();
    let backend = HeldBackend::start().await;
    let repository = Repository::create(&[("envs/a/main.tf", &backend.module())]);
    installation.serve(&Installation::quick_start(&repository)).await;
    backend.wait_for_request().await;
    let directory = attempts(&installation.data()).remove(0);
    let record = std::fs::read(directory.join("process.json")).unwrap();
    let record: Value = serde_json::from_slice(&record).unwrap();
    let pid = i32::try_from(record["pid"].as_i64().unwrap()).unwrap();
    butler_base::platform::kill_child(butler_base::platform::Pid::from_raw(pid)).unwrap();
    // Its Terraform goes on, and still uses the state.
    assert_eq!(installation.layer("envs.a")["phase"], "ClosingOut");
    backend.release();
    eventually("the end of the attempt", || {
        installation.runs("envs.a")[0]["attempts"][0]["outcome"]
            == "its process ended without a report"
    })
    .await;
    eventually("a free state", || installation.layer("envs.a")["lease"] == Value::Null).await;
}

#[tokio::test]
async fn secret_that_cannot_be_read_fails_the_plan_at_once() {
    let (mut installation, repository) = (Installation::new(), repository());
    let missing = installation.path("missing");
    installation.configure(&format!(
        "repositories: {{infra: {{url: '{}'}}}}
defaults: {{strategy: plan-only}}
layers:
  a: {{repository: infra, path: envs/dns, secrets: {{password: {{file: {}}}}}}}
",
        repository.url(),
        missing.display(),
    ));
    installation.serve(&[]).await;
    installation.until("a", "Failed", 1).await;
    let id = installation.runs("a")[0]["id"].as_str().unwrap().to_owned();
    let log = text(&installation.ask(&["run", "logs", &id]));
    let reason = format!("cannot read the secret in the file `{}`", missing.display());
    assert!(log.contains(&reason), "{log}");
    let shown = || installation.layer("a")["reasons"].to_string();
    eventually("a reason", || shown().contains("credentials are missing")).await;
}

#[tokio::test]
async fn second_server_on_one_data_directory_names_the_first() {
    let (mut installation, repository) = (Installation::new(), repository());
    let arguments = Installation::quick_start(&repository);
    installation.serve(&arguments).await;
    let pid = installation.server.as_ref().unwrap().process.id().unwrap();
    let second = installation.once(&arguments).await;
    assert_eq!(second.status.code(), Some(1));
    assert!(text(&second).contains(&format!("is used by process {pid}")), "{}", text(&second));
}

#[tokio::test]
async fn repository_that_is_gone_keeps_what_was_read() {
    let (mut installation, repository) = (Installation::new(), repository());
    installation.serve(&Installation::quick_start(&repository)).await;
    installation.until("envs.dns", "Succeeded", 1).await;
    let moved = installation.path("moved");
    std::fs::rename(repository.path(), &moved).unwrap();
    assert!(installation.ask(&["layer", "sync", "envs.dns"]).status.success());
    installation
        .until_problem(&["cannot read the repository `default`", "failed to resolve path"])
        .await;
    let table = installation.ask(&["layer", "list"]);
    let warning = String::from_utf8_lossy(&table.stderr);
    assert!(warning.starts_with("warning: cannot read the repository `default`: "), "{warning}");
    let log = std::fs::read_to_string(installation.path("server.log")).unwrap();
    let line = log.lines().find(|line| line.contains("failed to resolve path")).unwrap();
    assert!(line.contains("WARN") && line.contains("default"), "{line}");
    assert_eq!(installation.layer("envs.dns")["phase"], "Succeeded");
    std::fs::rename(&moved, repository.path()).unwrap();
    assert!(installation.ask(&["layer", "sync", "envs.dns"]).status.success());
    eventually("a repository that can be read", || installation.problems().is_empty()).await;
}

#[tokio::test]
async fn quick_start_with_a_wrong_address_says_so_instead_of_showing_no_layers() {
    let mut installation = Installation::new();
    let url = format!("file://{}", installation.path("missing").display());
    let words = ["--repo", &url, "--path", "envs/*"].map(str::to_owned);
    installation.serve(&words).await;
    let cause = format!("no repository at `{url}`");
    installation
        .until_problem(&["cannot read the repository `default`", &cause, "check the address"])
        .await;
}

#[tokio::test]
async fn deleted_path_and_branch_block_the_layer_and_destroy_nothing() {
    let (mut installation, repository) = (Installation::new(), repository());
    repository.git(&["branch", "release"]);
    installation.configure(&format!(
        "repositories: {{infra: {{url: '{}'}}}}
defaults: {{strategy: plan-only}}
layers:
  path: {{repository: infra, ref: main, path: envs/dns}}
  branch: {{repository: infra, ref: release, path: envs/dns}}
",
        repository.url()
    ));
    installation.serve(&[]).await;
    installation.until("path", "Succeeded", 1).await;
    installation.until("branch", "Succeeded", 1).await;
    repository.git(&["rm", "-rq", "envs/dns"]);
    repository.commit("Remove", &[("README.md", "removed")]);
    repository.git(&["branch", "-D", "release"]);
    assert!(installation.ask(&["layer", "sync", "path"]).status.success());
    for (layer, reason) in
        [("path", "does not have the layer's path"), ("branch", "does not have the layer's ref")]
    {
        eventually(layer, || installation.layer(layer)["phase"] == "Blocked").await;
        let shown = installation.layer(layer)["reasons"][0]["text"].as_str().unwrap().to_owned();
        assert!(shown.contains(reason), "{shown}");
        assert_eq!(installation.runs(layer).len(), 1);
    }
}
