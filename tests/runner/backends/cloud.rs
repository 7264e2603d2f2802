//! `cloud` and `backend "remote"`: a stand-in for their server stores states, or plans and applies with the real
//! Terraform.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tokio::process::Child;

use butler_testing::authority::Authority;
use butler_testing::cloud_server::{CloudServer, Execution, ORGANIZATION, TOKEN, WORKSPACE};
use butler_testing::release_site::executable;
use butler_testing::world::{RunEnd, World, eventually, files_with};

/// A module whose apply takes until there is a file `go` beside the uploaded configurations.
const WAITS: &str = r#"
resource "terraform_data" "first" {}
resource "terraform_data" "second" {
  depends_on = [terraform_data.first]
  provisioner "local-exec" {
    command = "touch ../began; while [ ! -e ../go ]; do sleep 0.05; done"
  }
}
"#;

const MODULE: &str = r#"
variable "name" { default = "a" }
resource "terraform_data" "it" { input = var.name }
output "it" { value = terraform_data.it.output }
"#;

/// A world with a server, and a repository that uses its workspace.
struct CloudWorld {
    world: World,
    cloud: CloudServer,
    _authority: Authority,
}

impl CloudWorld {
    async fn new(execution: Execution, head: &str, module: &str) -> Self {
        let authority = Authority::create();
        let cloud = CloudServer::start(&authority, execution).await;
        let block = cloud.block(head);
        let files = [("main.tf", module), ("cloud.tf", &*block)];
        let mut world = World::new(&files).await;
        world.set("BUTLER_CA_BUNDLE", authority.bundle());
        world.set("CLOUD_TOKEN", TOKEN);
        Self { world, cloud, _authority: authority }
    }

    /// The configuration of a run with the module's own backend.
    fn config(&self, operation: &str) -> Value {
        let mut config = self.world.config(operation);
        config.as_object_mut().unwrap().remove("stateBackend");
        let token = json!({"token": {"secretId": "CLOUD_TOKEN"}});
        config["terraformSettings"] =
            json!({"terraformrc": {"credentials": {(self.cloud.host()): token}}});
        config
    }

    async fn run(&self, operation: &str) -> RunEnd {
        let end = self.world.run(self.config(operation)).await;
        let shown = self.world.reports_and_output(&end);
        assert!(!shown.contains(TOKEN), "{shown}");
        end
    }

    /// Starts an apply of [`WAITS`], and waits until the server executes its provisioner.
    async fn start_apply(&self) -> Child {
        self.world.add_run(self.config("apply"));
        let child = self.world.execute().spawn().unwrap();
        let began = self.cloud.configurations().join("began");
        eventually("an apply on the server", || began.exists()).await;
        child
    }

    /// Lets the provisioner of [`WAITS`] end.
    fn let_apply_end(&self) {
        std::fs::write(self.cloud.configurations().join("go"), "").unwrap();
    }
}

fn terminate(child: &Child) {
    let pid = Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap());
    kill(pid, Signal::SIGTERM).unwrap();
}

fn assert_succeeded(world: &World, end: &RunEnd) {
    assert_eq!(end.code, Some(0), "{}\n{}", end.stderr, world.received().log_text());
}

#[tokio::test]
async fn workspace_that_executes_nothing_stores_the_state() {
    for head in ["cloud", "backend \"remote\""] {
        let it = CloudWorld::new(Execution::Local, head, MODULE).await;
        for (operation, added, resources) in [("apply", 1, 1), ("plan", 0, 1), ("destroy", 0, 0)] {
            let end = it.run(operation).await;
            assert_succeeded(&it.world, &end);
            assert_eq!(it.world.last_status()["resources_to_add"], added, "{head} {operation}");
            let state = it.cloud.state().unwrap();
            assert_eq!(
                state["resources"].as_array().unwrap().len(),
                resources,
                "{head} {operation}"
            );
        }
        assert!(it.cloud.uploaded().is_empty(), "nothing was sent");
    }
}

#[tokio::test]
async fn server_gets_the_files_of_the_module_and_nothing_of_the_run() {
    let it = CloudWorld::new(Execution::Remote, "cloud", MODULE).await;
    let end = it.run("apply").await;
    assert_succeeded(&it.world, &end);
    let status = it.world.last_status();
    assert_eq!(status["resources_to_add"], 1, "{status}");
    assert_eq!(it.world.received().outputs[0]["outputs"]["it"]["value"], "a");
    assert_eq!(it.cloud.statuses(), ["applied"]);
    assert_eq!(it.cloud.actions(), ["run-1 apply"]);
    let uploaded = it.cloud.uploaded();
    assert!(uploaded.iter().any(|path| path.ends_with("/main.tf")), "{uploaded:?}");
    // The data directory of the server's own Terraform has a backend of its own.
    let sent = files_with(&it.cloud.configurations(), &it.cloud.host());
    let sent: Vec<_> = sent.iter().map(|path| path.file_name().unwrap()).collect();
    assert_eq!(sent, ["cloud.tf"], "the settings of the backend were sent");
    assert!(files_with(&it.cloud.configurations(), TOKEN).is_empty());
}

#[tokio::test]
async fn plan_that_is_not_applied_is_discarded_on_the_server() {
    let it = CloudWorld::new(Execution::Remote, "cloud", MODULE).await;
    for operation in ["plan", "drift-check"] {
        let end = it.run(operation).await;
        assert_succeeded(&it.world, &end);
        let log = it.world.received().log_text();
        assert!(!log.contains("was not discarded"), "{log}");
    }
    assert_eq!(it.cloud.statuses(), ["discarded"; 2]);
    // A plan that cannot be discarded is named with the address of its run.
    let mut config = it.config("plan");
    config["terraformSettings"]["terraformrc"]["credentials"] = json!({});
    let home = it.world.path("home/.terraform.d");
    std::fs::create_dir(&home).unwrap();
    std::fs::write(home.join("credentials.tfrc.json"), "{}").unwrap();
    it.world.add_run(config);
    let helper = "credentials_helper \"it\" {}\n";
    std::fs::write(it.world.path("home/.terraformrc"), helper).unwrap();
    let program = format!("#!/bin/sh\necho '{{\"token\": \"{TOKEN}\"}}'\n");
    executable(&home.join("plugins/terraform-credentials-it"), program);
    let output = it.world.execute().output().await.unwrap();
    let end = it.world.end(&output);
    assert_succeeded(&it.world, &end);
    let log = it.world.received().log_text();
    let url = format!("https://{}/app/acme/network/runs/run-3", it.cloud.host());
    let says =
        format!("the plan of the run {url} is not applied and was not discarded (no token for");
    assert!(log.contains(&says), "{log}");
}

#[tokio::test]
async fn apply_that_is_stopped_is_cancelled_on_the_server() {
    let it = CloudWorld::new(Execution::Remote, "cloud", WAITS).await;
    let child = it.start_apply().await;
    terminate(&child);
    eventually("a cancelled run", || it.cloud.actions().contains(&"run-1 cancel".to_owned())).await;
    // The provisioner ends after the server has interrupted the apply.
    it.let_apply_end();
    let end = it.world.end(&child.wait_with_output().await.unwrap());
    assert_ne!(end.code, Some(0), "{}", end.stderr);
    let log = it.world.received().log_text();
    assert!(log.contains("has ended: canceled") || log.contains("has ended: applied"), "{log}");
    // The report has the same number of created resources as the state.
    let state = it.cloud.state().unwrap();
    let resources = state["resources"].as_array().unwrap();
    // The provisioner that was interrupted leaves its resource tainted.
    let created = resources.iter().filter(|it| it["instances"][0]["status"] != "tainted").count();
    let added = it.world.last_status()["resources_to_add"].clone();
    assert_eq!(added, created, "{}", it.world.last_status());
}

#[tokio::test]
async fn apply_whose_end_is_not_known_does_not_say_that_nothing_was_done() {
    let mut it = CloudWorld::new(Execution::Remote, "cloud", WAITS).await;
    it.world.set("BUTLER_GRACE_PERIOD", "3s");
    let child = it.start_apply().await;
    it.cloud.be_away();
    terminate(&child);
    let end = it.world.end(&child.wait_with_output().await.unwrap());
    assert_ne!(end.code, Some(0), "{}", end.stderr);
    let (message, _) = it.world.last_error();
    let url = format!("https://{}/app/acme/network/runs/run-1", it.cloud.host());
    assert!(message.contains(&format!("the apply may go on at {url}")), "{message}");
    let status = it.world.last_status();
    assert!(!status.to_string().contains("not started"), "{status}");
    it.let_apply_end();
}

#[tokio::test]
async fn refresh_that_a_server_makes_an_apply_is_not_applied() {
    let it = CloudWorld::new(Execution::Remote, "cloud", MODULE).await;
    it.cloud.ignore(&["refresh-only"]);
    let end = it.run("refresh").await;
    assert_ne!(end.code, Some(0), "{}", end.stdout);
    let (message, advice) = it.world.last_error();
    assert!(message.contains("`-refresh-only`") && message.contains("1 to add"), "{message}");
    assert!(advice.contains("execute locally"), "{advice}");
    assert_eq!(it.cloud.state(), None, "nothing was applied");
    assert_eq!(it.cloud.actions(), ["run-1 discard"]);
}

#[tokio::test]
async fn backend_without_a_list_of_workspaces_has_the_default_one() {
    let it = CloudWorld::new(Execution::Local, "backend \"remote\"", MODULE).await;
    let repository = it.world.path("repository");
    let output = it
        .world
        .command(&["plan", "--workspace", "default", repository.to_str().unwrap()])
        .env(format!("TF_TOKEN_{}", it.cloud.host().replace('.', "_")), TOKEN)
        .output()
        .await
        .unwrap();
    let end = it.world.end(&output);
    assert_eq!(end.code, Some(0), "{}\n{}", end.stderr, end.stdout);
}

#[tokio::test]
async fn lock_of_a_workspace_is_named_and_can_be_removed() {
    for head in ["cloud", "backend \"remote\""] {
        let it = CloudWorld::new(Execution::Local, head, MODULE).await;
        it.cloud.lock();
        let end = it.run("apply").await;
        assert_ne!(end.code, Some(0), "{}", end.stdout);
        let error = it.world.last_status()["error"].clone();
        assert_eq!(error["class"], "lock", "{error}");
        let id = format!("{ORGANIZATION}/{WORKSPACE}");
        assert_eq!(error["lock"], json!({"id": id}), "{error}");
        let (message, advice) = it.world.last_error();
        let locked = format!("the workspace `{id}` is locked, by a person or by another run");
        assert!(message.contains(&locked), "{message}");
        assert!(!advice.is_empty());

        let mut config = it.config("plan");
        config["forceUnlock"] = json!(id);
        let end = it.world.run(config).await;
        assert_succeeded(&it.world, &end);
        assert!(!it.cloud.is_locked());
    }
}

#[tokio::test]
async fn refused_and_missing_token_and_unknown_certificate_have_causes() {
    let other = Authority::create();
    for head in ["cloud", "backend \"remote\""] {
        for (situation, class, expected) in [
            ("no token", "credentials", "TF_TOKEN_"),
            ("a wrong token", "credentials", "check the credentials"),
            ("an unknown certificate", "network", "--ca-bundle"),
            ("no answer", "network", "check the address"),
        ] {
            let mut it = CloudWorld::new(Execution::Local, head, MODULE).await;
            let mut config = it.config("plan");
            match situation {
                "no token" => drop(config.as_object_mut().unwrap().remove("terraformSettings")),
                "a wrong token" => it.world.set("CLOUD_TOKEN", "another-token-0815"),
                "an unknown certificate" => it.world.set("BUTLER_CA_BUNDLE", other.bundle()),
                _ => it.cloud.be_away(),
            }
            let end = it.world.run(config).await;
            let what =
                format!("{head}, {situation}: {}\n{}", end.stderr, it.world.received().log_text());
            assert_ne!(end.code, Some(0), "{what}");
            assert_eq!(it.world.last_status()["error"]["class"], class, "{what}");
            let (message, advice) = it.world.last_error();
            assert!(advice.contains(expected), "{head}, {situation}: {message}: {advice}");
        }
    }
}
