//! Runs as Kubernetes Jobs: printed manifests, created objects, and following a run to its end.
//!
//! The cluster is a stand-in ([`ApiServer`]). The runner in its pods, Terraform and the registry
//! are real.

mod dry_run;
mod faults;
mod logins;
mod manifests;
mod outages;
mod output;
mod pods;
mod watches;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use output::{ClusterOutput, StreamReader};

use butler_testing::api_server::{ApiServer, FaultEffect, NAMESPACE, PodCourse};
use butler_testing::world::{MODULE, RUN_ID, TOKEN, World, eventually};

/// The Job of the world's run.
const JOB: &str = "butler-run-550e8400-e29b-41d4-a716-446655440000";

/// A module whose apply waits for a file.
const SLOW: &str = r#"
resource "terraform_data" "slow" {
  provisioner "local-exec" {
    command = "echo it has begun; exec sleep 600"
  }
}
"#;

/// A module whose apply ignores SIGTERM.
const STUBBORN: &str = r#"
resource "terraform_data" "slow" {
  provisioner "local-exec" {
    command = "trap '' INT TERM; echo it has begun; while :; do sleep 1; done"
  }
}
"#;

/// A registry with a run, and a cluster.
struct Scene {
    world: World,
    cluster: ApiServer,
}

impl Scene {
    /// A scene with a run of `operation` on a module.
    async fn new(operation: &str, module: &str) -> Self {
        let world = World::new(&[("main.tf", module)]).await;
        let config = world.config(operation);
        Self::of(world, config, &[]).await
    }

    /// A scene with this configuration, on a node whose containers get these variables.
    async fn of(world: World, config: serde_json::Value, variables: &[(&str, &str)]) -> Self {
        world.add_run(config);
        let cluster = ApiServer::start(&world.path("node"), variables).await;
        let scene = Self { world, cluster };
        scene.log_in(&scene.cluster.kubeconfig());
        scene
    }

    /// A scene whose run is not executed.
    async fn still() -> Self {
        Self::new("plan", MODULE).await
    }

    /// Writes a kubeconfig to the default path of `kubectl`.
    fn log_in(&self, kubeconfig: &str) {
        let directory = self.world.path("home").join(".kube");
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join("config"), kubeconfig).unwrap();
    }

    /// `generate kubernetes --apply WORDS` for the run.
    fn apply(&self, words: &[&str]) -> tokio::process::Command {
        let words = [&["generate", "kubernetes", "--apply"], words].concat();
        let mut command = self.world.command(&words);
        self.of_run(&mut command);
        command
    }

    /// Sets the variables that name the run.
    fn of_run(&self, command: &mut tokio::process::Command) {
        command
            .env("BUTLER_ENDPOINT", self.world.endpoint())
            .env("BUTLER_RUN_ID", RUN_ID)
            .env("BUTLER_TOKEN", TOKEN);
    }

    async fn applied(&self, words: &[&str]) -> ClusterOutput {
        ClusterOutput::of(&self.apply(words).output().await.unwrap())
    }

    /// Waits until the run's slow step has started.
    async fn under_way(&self) {
        let mark = "it has begun";
        let has = || self.world.received().logs.iter().any(|line| line.content.contains(mark));
        eventually("a slow apply", has).await;
    }
}

/// Sends the signal to the command.
fn interrupt(child: &tokio::process::Child, signal: Signal) {
    kill(Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap()), signal).unwrap();
}

#[tokio::test]
async fn run_in_a_cluster_is_followed_and_its_exit_code_returned() {
    let scene = Scene::new("apply", MODULE).await;
    let said = scene.applied(&[]).await;
    assert_eq!(said.code, Some(0), "{said:#?}");
    assert_eq!(scene.world.statuses().last().unwrap(), "succeeded");
    assert_eq!(said.stdout.matches("Apply complete! Resources: 1 added").count(), 1, "{said:#?}");
    said.says(&format!("created the Job {JOB} in namespace {NAMESPACE}"));
    said.says(&format!("the pod {JOB}-abcde runs on node-1"));
    said.says("the run succeeded");
    assert!(!said.stdout.contains("WARN"), "the pod is as the runner wants it: {said:#?}");
    // Objects that the Job owns are deleted with it.
    let job = scene.cluster.only("jobs").unwrap();
    for kind in ["secrets", "pods"] {
        let owner = &scene.cluster.only(kind).unwrap()["metadata"]["ownerReferences"][0];
        assert_eq!(owner["uid"], job["metadata"]["uid"], "{kind}");
        assert_eq!(owner["kind"], "Job");
    }
    // The token is in the Secret only, not in a URL or in an object with wider read access.
    assert!(scene.cluster.requests().iter().all(|request| !request.contains(TOKEN)));
    for kind in ["jobs", "pods"] {
        assert!(!scene.cluster.only(kind).unwrap().to_string().contains(TOKEN), "{kind}");
    }
    assert_eq!(scene.cluster.only("secrets").unwrap()["stringData"]["token"], TOKEN);
}

#[tokio::test]
async fn token_in_messages_of_the_cluster_is_masked() {
    let scene = Scene::still().await;
    let repeats = |text: &str| &*format!("{text}: Invalid value: \"{TOKEN}\"").leak();
    for what in [
        FaultEffect::Status(500, "InternalError", repeats("a webhook failed")),
        FaultEffect::Status(422, "Invalid", repeats("stringData")),
    ] {
        scene.cluster.fault("POST", "/secrets", what);
    }
    let said = scene.applied(&["--log", "trace"]).await;
    assert_eq!(said.code, Some(1), "{said:#?}");
    said.says("trying again for 30 s");
    said.says("a webhook failed: Invalid value: ");
    said.says("stringData: Invalid value: \"***\"");
    assert!(!said.stderr.contains(butler_testing::api_server::TOKEN), "{said:#?}");
    assert_eq!(scene.cluster.objects(), 0);
}

#[tokio::test]
async fn failed_run_in_a_cluster_returns_the_exit_code_of_the_runner() {
    let scene = Scene::new("plan", "resource \"unfinished\" {").await;
    let said = scene.applied(&[]).await;
    assert_eq!(said.code, Some(1), "{said:#?}");
    assert_eq!(scene.world.statuses().last().unwrap(), "failed");
    said.says("error: the runner ended with exit code 1\n");
}

#[tokio::test]
async fn signal_deletes_the_job_and_cancels_the_run() {
    let scene = Scene::new("apply", SLOW).await;
    let child = scene.apply(&[]).spawn().unwrap();
    scene.under_way().await;
    interrupt(&child, Signal::SIGINT);
    let said = ClusterOutput::of(&child.wait_with_output().await.unwrap());
    assert_eq!(said.code, Some(128 + Signal::SIGTERM as i32), "{said:#?}");
    said.says(&format!("deleting the Job {JOB}; the run in it has 70 s to end"));
    said.says("error: the runner ended with exit code 143: the Job was deleted");
    assert_eq!(scene.world.last_status()["error"]["class"], "stopped");
    assert_eq!(scene.cluster.objects(), 0);
    let shown: Vec<_> = said.stdout.lines().collect();
    assert_eq!(shown, scene.cluster.log(), "the end of the log is shown");
    assert!(said.stdout.contains("stopped because the runner received SIGTERM"), "{said:#?}");
}

#[tokio::test]
async fn signal_before_the_run_starts_deletes_all_objects() {
    let scene = Scene::still().await;
    scene.cluster.course(PodCourse::Unschedulable);
    let mut child = scene.apply(&[]).spawn().unwrap();
    let mut stderr = StreamReader::of(child.stderr.take().unwrap());
    stderr.until("waiting: Unschedulable").await;
    interrupt(&child, Signal::SIGINT);
    assert_eq!(child.wait().await.unwrap().code(), Some(128 + Signal::SIGINT as i32));
    let said = stderr.rest().await;
    let deleting =
        format!("deleting the Job {JOB}, whose run has not begun (once more to leave at once)\n");
    assert!(said.contains(&deleting), "{said}");
    assert!(!said.contains(" s to end"), "no run has to end: {said}");
    let end = "error: the run never began: Unschedulable: 0/3 nodes are available: 3 Insufficient memory. (the Job was deleted)\n";
    assert!(said.ends_with(end), "{said}");
    assert_eq!(scene.cluster.objects(), 0);
}

#[tokio::test]
async fn job_without_delete_permission_is_reported_as_still_running() {
    let scene = Scene::new("apply", SLOW).await;
    let forbidden = "jobs.batch is forbidden: User \"ci\" cannot delete resource \"jobs\" in API group \"batch\" in the namespace \"runs\"";
    scene.cluster.fault("DELETE", JOB, FaultEffect::Status(403, "Forbidden", forbidden));
    let child = scene.apply(&[]).spawn().unwrap();
    scene.under_way().await;
    interrupt(&child, Signal::SIGINT);
    let said = ClusterOutput::of(&child.wait_with_output().await.unwrap());
    assert_eq!(said.code, Some(128 + Signal::SIGINT as i32), "{said:#?}");
    said.says(
        "the Job cannot be deleted: no permission to `delete` `jobs.batch` in namespace `runs`",
    );
    said.says(&format!(
        "error: left before the Job `{JOB}` in namespace `{NAMESPACE}` was deleted: the run goes on\n"
    ));
    said.says(&format!("hint: delete it with `kubectl -n {NAMESPACE} delete job {JOB}`\n"));
    assert_eq!(scene.world.statuses().last().unwrap(), "running");
}

#[tokio::test]
async fn second_signal_exits_immediately_and_lists_remaining_objects() {
    let scene = Scene::still().await;
    scene.cluster.course(PodCourse::Unschedulable);
    let child = scene.apply(&[]).spawn().unwrap();
    eventually("a Secret", || scene.cluster.only("secrets").is_some()).await;
    // A hanging deletion blocks the handling of the first signal.
    scene.cluster.faults("DELETE", JOB, FaultEffect::Later, 1000);
    interrupt(&child, Signal::SIGTERM);
    let asked = || scene.cluster.requests().iter().any(|request| request.starts_with("DELETE"));
    eventually("a deletion", asked).await;
    interrupt(&child, Signal::SIGINT);
    let said = ClusterOutput::of(&child.wait_with_output().await.unwrap());
    assert_eq!(said.code, Some(128 + Signal::SIGTERM as i32), "{said:#?}");
    said.says(&format!(
        "error: left before the Job `{JOB}` in namespace `{NAMESPACE}` was deleted: the run goes on\n"
    ));
}

#[tokio::test]
async fn second_signal_does_not_wait_for_the_grace_period() {
    let scene = Scene::new("apply", STUBBORN).await;
    let child = scene.apply(&["--grace-period", "5m"]).spawn().unwrap();
    scene.under_way().await;
    interrupt(&child, Signal::SIGTERM);
    let mark = "sending SIGTERM";
    let told = || scene.cluster.log().iter().any(|line| line.contains(mark));
    eventually("a signal in the pod", told).await;
    interrupt(&child, Signal::SIGINT);
    let said = ClusterOutput::of(&child.wait_with_output().await.unwrap());
    assert_eq!(said.code, Some(128 + Signal::SIGTERM as i32), "{said:#?}");
    said.says(&format!(
        "error: left before the run's end: the pod of `{JOB}` in namespace `{NAMESPACE}` may still run for 310 s\n"
    ));
    said.says(&format!("hint: look with `kubectl -n {NAMESPACE} get job,pod -l"));
}

#[tokio::test]
async fn detached_run_continues_without_the_command() {
    let scene = Scene::new("apply", MODULE).await;
    let said = scene.applied(&["--detach"]).await;
    assert_eq!((said.code, &*said.stdout), (Some(0), ""), "{said:#?}");
    let is_over = || scene.world.statuses().last().is_some_and(|status| status == "succeeded");
    eventually("the end of the run", is_over).await;
}

#[tokio::test]
async fn triggered_run_can_be_queried_until_it_ends() {
    let scene = Scene::new("apply", SLOW).await;
    let run = |words: &[&str]| {
        let mut command = scene.world.command(words);
        scene.of_run(&mut command);
        async move { ClusterOutput::of(&command.output().await.unwrap()) }
    };
    let page = "https://dashboard.example.com/{namespace}/{job}";
    let started = run(&["trigger", "kubernetes", "--page", page]).await;
    let id = format!("{NAMESPACE}/{JOB}");
    let url = format!("https://dashboard.example.com/{id}");
    assert_eq!(started.code, Some(0), "{started:#?}");
    let answer = format!("{{\"externalRunId\":\"{id}\",\"externalUrl\":\"{url}\"}}\n");
    assert_eq!(started.stdout, answer);
    scene.under_way().await;
    let look = ["ci-status", "kubernetes", "--external-run-id", &id];
    let looked = run(&look).await;
    assert_eq!(looked.code, Some(5), "{looked:#?}");
    assert_eq!(
        looked.stdout,
        format!(
            "{{\"externalRunId\":\"{id}\",\"externalUrl\":null,\"status\":\"running\",\"reported\":\"Running\"}}\n"
        )
    );
    let waiting = run(&[&look[..], &["--wait"]].concat());
    let (waited, ()) = tokio::join!(waiting, async { scene.cluster.course(PodCourse::Deadline) });
    assert_eq!(waited.code, Some(1), "{waited:#?}");
    assert!(waited.stdout.contains("\"status\":\"timed_out\""), "{waited:#?}");
    let missing = run(&["ci-status", "kubernetes", "--external-run-id", "runs/other"]).await;
    assert_eq!(missing.code, Some(4), "nobody knows how it ended");
    missing.says("error: no Job `other` in namespace `runs`\n");
}

#[tokio::test]
async fn missing_run_settings_are_reported_before_any_request() {
    let scene = Scene::still().await;
    let mut command = scene.world.command(&["generate", "kubernetes", "--apply"]);
    let said = ClusterOutput::of(&command.output().await.unwrap());
    assert_eq!(said.code, Some(2));
    said.says("no endpoint is given (--endpoint, BUTLER_ENDPOINT, BUTLER_URL)");
    assert!(scene.cluster.requests().is_empty());
}
