//! Commands of a person who reaches the cluster and not the server: they ask in a Job. The cluster is a stand-in, which
//! runs the container of the Job as a process.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::*;
use butler_testing::api_server::{FaultEffect, PodCourse};

/// The Service of the installation.
const SERVICE: &str = "https://butler-server.butler-system.svc:7373";

/// A server that is installed in a cluster, and a person who has its kubeconfig.
struct Remote {
    lane: Lane,
}

impl Remote {
    async fn start(followers: &str) -> Self {
        let mut remote = Self { lane: Lane::prepared("1s", followers).await };
        let apply = ["apply", "--followers", "followers.yaml", "--confirm"];
        let (code, shown) = remote.ask(&apply).await;
        assert_eq!(code, Some(0), "{shown}");
        remote.serve().await;
        remote
    }

    /// Starts the server with the files of its Secrets, and makes it reachable for pods.
    async fn serve(&mut self) {
        let Lane { installation, cluster, .. } = &mut self.lane;
        let secrets = cluster.all("secrets");
        let files = secrets.iter().flat_map(|secret| secret["data"].as_object().unwrap());
        let files: BTreeMap<_, _> = files.collect();
        for (name, content) in files {
            let content = STANDARD.decode(content.as_str().unwrap()).unwrap();
            std::fs::write(installation.path(name), content).unwrap();
        }
        let login = format!("KUBECONFIG={}", installation.path("kubeconfig").display());
        let words = "--followers followers.yaml --tls-cert tls.crt --tls-key tls.key --follower-token-file token";
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        installation.serve_behind(&["env", &login], &words).await;
        cluster.serve_at(SERVICE, &installation.server.as_ref().unwrap().address);
    }

    /// A command of a person without a data directory.
    fn command(&self, words: &[&str]) -> Command {
        let mut command: Command = runner().into();
        command.arg("follower").args(words).env("HOME", self.lane.installation.path("home"));
        command.env("KUBECONFIG", self.lane.installation.path("kubeconfig"));
        command.current_dir(self.lane.installation.directory.path()).kill_on_drop(true);
        command
    }

    async fn ask(&self, words: &[&str]) -> (Option<i32>, String) {
        let output = self.command(words).output().await.unwrap();
        (output.status.code(), text(&output))
    }

    /// Waits until the pod of a command runs.
    async fn until_it_runs(&self) {
        eventually("the pod", || {
            let pods = self.lane.cluster.all("pods");
            pods.iter().any(|pod| pod["status"]["phase"] == "Running")
        })
        .await;
    }

    /// The Jobs of commands.
    fn jobs(&self) -> Vec<Value> {
        self.jobs_in("butler-system")
    }

    fn jobs_in(&self, namespace: &str) -> Vec<Value> {
        let jobs = self.lane.cluster.all("jobs");
        jobs.into_iter().filter(|it| it["metadata"]["namespace"] == namespace).collect()
    }
}

#[tokio::test]
async fn person_who_reaches_only_the_cluster_asks_in_a_job_with_a_limited_time() {
    let remote = Remote::start(CHAIN).await;
    let (code, shown) = remote.ask(&["status", "--live"]).await;
    assert_eq!(code, Some(0), "{shown}");
    for words in [
        "asking the server in namespace butler-system of the cluster at https://127.0.0.1",
        "created the Job butler-follower-",
        "STAGE TIMINGS",
        "kubernetes",
    ] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    let [job] = &remote.jobs()[..] else { panic!("{shown}") };
    assert_eq!(job["spec"]["activeDeadlineSeconds"], 600, "{job:#}");
    assert_eq!(job["spec"]["backoffLimit"], 0);
    assert_eq!(job["spec"]["ttlSecondsAfterFinished"], 600);
    // Programs get JSON, and nothing else on standard output.
    let output =
        remote.command(&["run-once", "--all", "--dry-run", "--json"]).output().await.unwrap();
    assert!(output.status.success(), "{}", text(&output));
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["followers"][0]["id"], "web");
    assert_eq!(answer["problems"], json!([]));
    for words in [&["events", "--follower", "web"][..], &["logs", "--follower", "web"]] {
        let (code, shown) = remote.ask(words).await;
        assert_eq!(code, Some(0), "{shown}");
    }
    // A failure is not an answer.
    let output = remote.command(&["status", "--follower", "wep", "--json"]).output().await.unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{}", text(&output));
    assert!(text(&output).contains("does not have `wep`"), "{}", text(&output));
}

#[tokio::test]
async fn answer_that_cannot_be_read_completely_is_a_failure() {
    let remote = Remote::start(CHAIN).await;
    let refused = FaultEffect::Status(403, "Forbidden", "pods/log is forbidden");
    remote.lane.cluster.faults("GET", "/log", refused, 100);
    for words in [&["status", "--json"][..], &["status"], &["status", "--follower", "wep"]] {
        let (code, shown) = remote.ask(words).await;
        assert_eq!(code, Some(4), "{shown}");
        assert!(shown.contains("the answer is not complete"), "{shown}");
    }
}

#[tokio::test]
async fn run_in_a_job_triggers_and_ends_with_the_failure_of_the_commit() {
    let slow = CHAIN.replace("first: 2s, longest: 10s", "first: 1h, longest: 1h");
    let remote = Remote::start(&slow.replacen("poll: 2s", "poll: 1h", 1)).await;
    // The attempt of the server fails, and it does not try again for an hour.
    let first = remote.lane.end_job("image", "Failed").await;
    let failed = || {
        let copies = remote.lane.cluster.all("configmaps");
        let copy = copies.iter().find(|it| it["metadata"]["name"] == "butler-follower-web");
        copy.is_some_and(|it| it["data"]["state.json"].to_string().contains("Failed"))
    };
    eventually("the failure", failed).await;
    let words = ["run-once", "--follower", "web", "--confirm", "--wait", "--timeout", "30m"];
    let ((code, shown), second) =
        tokio::join!(remote.ask(&words), remote.lane.end_job("image", "Failed"));
    assert_ne!(first, second);
    assert!(shown.contains("is submitted"), "{shown}");
    assert_eq!(code, Some(1), "{shown}");
    assert!(shown.contains("web: Failed: "), "{shown}");
    let [job] = &remote.jobs()[..] else { panic!("{shown}") };
    assert_eq!(job["spec"]["activeDeadlineSeconds"], 40 * 60, "the wait, and ten minutes");
}

#[tokio::test]
async fn job_that_the_cluster_ends_has_not_answered() {
    let remote = Remote::start(&CHAIN.replacen("poll: 2s", "poll: 1h", 1)).await;
    let words = ["run-once", "--follower", "web", "--confirm", "--wait"];
    let deadline = async {
        remote.until_it_runs().await;
        remote.lane.cluster.course(PodCourse::Deadline);
    };
    let ((code, shown), ()) = tokio::join!(remote.ask(&words), deadline);
    assert_eq!(code, Some(4), "{shown}");
    assert!(
        shown.contains("the Job has not answered") && shown.contains("DeadlineExceeded"),
        "{shown}"
    );
}

#[tokio::test]
async fn cluster_without_a_server_that_takes_jobs_is_named_with_what_to_do() {
    let remote = Remote::start(CHAIN).await;
    let nowhere = remote.lane.installation.path("none");
    for (words, kubeconfig, message, hint) in [
        (
            &["--namespace", "other"][..],
            None,
            "has no server of butler-runner in namespace `other`",
            "--kubeconfig, --context, --namespace",
        ),
        (&[], Some(nowhere), "no server is known", "--server, BUTLER_SERVER"),
    ] {
        let mut command = remote.command(&[&["status"], words].concat());
        if let Some(path) = kubeconfig {
            command.env_remove("KUBECONFIG").env("HOME", path);
        }
        let output = command.output().await.unwrap();
        let shown = text(&output);
        assert_eq!(output.status.code(), Some(4), "{shown}");
        assert!(shown.contains(message) && shown.contains(hint), "{shown}");
    }
    // A server on this machine is asked itself, and a cluster is another one.
    let (code, shown) = remote.ask(&["status", "--data", "data"]).await;
    assert_eq!(code, Some(4), "{shown}");
    let (code, shown) =
        remote.ask(&["status", "--server", "https://127.0.0.1:9", "--context", "test"]).await;
    assert!(code == Some(2) && shown.contains("--server names a server"), "{shown}");
    // An installation of an earlier version.
    let path = "/apis/apps/v1/namespaces/butler-system/deployments/butler-server";
    let mut deployment = remote.lane.cluster.only("deployments").unwrap();
    deployment["spec"]["template"]["spec"]["volumes"] = json!([]);
    remote.lane.cluster.put(path, deployment);
    let (code, shown) = remote.ask(&["status"]).await;
    assert_eq!(code, Some(4), "{shown}");
    assert!(
        shown.contains("no token for Jobs of followers") && shown.contains("follower plan"),
        "{shown}"
    );
    assert!(remote.jobs().is_empty());
}

#[tokio::test]
async fn interrupted_command_that_cannot_delete_its_job_says_so() {
    let remote = Remote::start(&CHAIN.replacen("poll: 2s", "poll: 1h", 1)).await;
    let refused = FaultEffect::Status(403, "Forbidden", "jobs.batch is forbidden");
    remote.lane.cluster.faults("DELETE", "", refused, 100);
    let words = ["run-once", "--follower", "web", "--confirm", "--wait"];
    let mut command = remote.command(&words);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap());
    remote.until_it_runs().await;
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
    let output = child.wait_with_output().await.unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", text(&output));
    assert!(text(&output).contains("kubectl -n butler-system delete job"), "{}", text(&output));
}

#[tokio::test]
async fn interrupted_command_deletes_its_job() {
    let slow = CHAIN.replacen("poll: 2s", "poll: 1h", 1);
    let remote = Remote::start(&slow).await;
    let words = ["run-once", "--follower", "web", "--confirm", "--wait"];
    let mut command = remote.command(&words);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap());
    remote.until_it_runs().await;
    eventually("the trigger", || !remote.jobs_in("ci").is_empty()).await;
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
    let output = child.wait_with_output().await.unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", text(&output));
    assert!(!text(&output).contains("has not answered"), "{}", text(&output));
    eventually("the deletion", || remote.jobs().is_empty()).await;
    // The server goes on with what was triggered.
    assert_eq!(remote.jobs_in("ci").len(), 1);
}
