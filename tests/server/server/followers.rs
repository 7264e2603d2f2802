//! Followers, with a real server, repository and Terraform. The cluster is a stand-in ([`ApiServer`]), and the test acts
//! as the controllers of Tekton, Argo CD and Deployments.

mod ci_systems;
mod installation;
mod jobs;

use serde_json::json;

use super::visit::Visit;
use super::*;
use butler_testing::api_server::{ApiServer, FaultEffect};

/// The chain of a follower, with the kinds of objects of a usual delivery.
const CHAIN: &str = r#"
controller: {namespace: ci, poll: 2s, watch: 1s, retry: {first: 2s, longest: 10s}}
followers:
  - id: web
    source: {repository: shop, branch: main}
    config-refs: [config/lanes.yaml]
    adapter:
      kubernetes:
        stages:
          - name: image
            preset: job
            create: {apiVersion: batch/v1, kind: Job, spec: {template: {spec: {restartPolicy: Never, containers: [{name: build, image: "builder:1", args: ["${commit}"]}]}}}}
          - name: publish
            preset: job
            create: {apiVersion: batch/v1, kind: Job, spec: {template: {spec: {restartPolicy: Never, containers: [{name: publish, image: "builder:1"}]}}}}
          - name: flush
            preset: git-mirror-flush
            observe: {api-version: v1, kind: ConfigMap, name: mirror-web}
          - name: pipeline
            preset: pipeline-run
            create: {apiVersion: tekton.dev/v1, kind: PipelineRun, spec: {pipelineRef: {name: deploy}}}
            reuse: ["$.status.reusedServices"]
          - name: sync
            preset: argo
            observe: {api-version: argoproj.io/v1alpha1, kind: Application, namespace: argocd, name: web}
          - name: ready
            preset: deployment
            observe: {api-version: apps/v1, kind: Deployment, namespace: web, name: web}
            source-commit: ["$.metadata.annotations['example.com/commit']"]
"#;

/// A server with followers, its cluster, and the repository that is followed.
struct Lane {
    installation: Installation,
    cluster: ApiServer,
    repository: Repository,
}

impl Lane {
    async fn start(followers: &str) -> Self {
        Self::polled_every("1s", followers).await
    }

    async fn polled_every(poll: &str, followers: &str) -> Self {
        let mut lane = Self::prepared(poll, followers).await;
        lane.serve().await;
        lane
    }

    /// Everything but the server.
    async fn prepared(poll: &str, followers: &str) -> Self {
        let installation = Installation::new();
        let cluster = ApiServer::start(&installation.path("node"), &[]).await;
        let repository = Repository::create(&[("README.md", "shop")]);
        std::fs::write(installation.path("kubeconfig"), cluster.kubeconfig()).unwrap();
        std::fs::write(installation.path("followers.yaml"), followers).unwrap();
        installation.configure(&format!(
            "repositories: {{shop: {{url: '{}', poll: {poll}}}}}",
            repository.url()
        ));
        Self { installation, cluster, repository }
    }

    async fn serve(&mut self) {
        let login = format!("KUBECONFIG={}", self.installation.path("kubeconfig").display());
        let arguments = ["--followers", "followers.yaml"].map(str::to_owned);
        self.installation.serve_behind(&["env", &login], &arguments).await;
    }

    fn status(&self) -> Value {
        self.installation.json(&["follower", "status", "--follower", "web"])["followers"][0].clone()
    }

    /// Asks about the follower, while the cluster can answer. Returns the exit code, and what was printed.
    async fn follower(&self, command: &str, words: &[&str]) -> (Option<i32>, String) {
        let address = &self.installation.server.as_ref().unwrap().address;
        let mut asking = self.installation.command(&["follower", command, "--follower", "web"]);
        let output = asking.args(words).args(["--server", address]).output().await.unwrap();
        (output.status.code(), text(&output))
    }

    async fn until(&self, phase: &str) -> Value {
        eventually(&format!("the phase {phase}"), || self.status()["phase"] == phase).await;
        self.status()
    }

    /// Waits for the object of a stage, and gives it this status.
    async fn end(&self, stage: &str, collection: &str, status: Value) -> String {
        let plural = collection.rsplit('/').next().unwrap();
        let commit = self.repository.head();
        let find = || {
            let objects = self.cluster.all(plural).into_iter();
            objects.rev().find(|object| {
                let metadata = &object["metadata"];
                metadata["labels"]["butler.dev/stage"] == stage
                    && metadata["annotations"]["butler.dev/source-commit"] == *commit
                    && object["status"].is_null()
            })
        };
        eventually(&format!("an object of {stage}"), || find().is_some()).await;
        let mut object = find().unwrap();
        object["status"] = status;
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        self.cluster.put(&format!("{collection}/{name}"), object);
        name
    }

    async fn end_job(&self, stage: &str, condition: &str) -> String {
        let status = json!({"conditions": [{"type": condition, "status": "True"}]});
        self.end(stage, "/apis/batch/v1/namespaces/ci/jobs", status).await
    }

    async fn end_pipeline(&self, succeeded: &str) -> String {
        let status = json!({
            "conditions": [{"type": "Succeeded", "status": succeeded}],
            "reusedServices": ["api"],
        });
        self.end("pipeline", "/apis/tekton.dev/v1/namespaces/ci/pipelineruns", status).await
    }

    /// Tekton starts a task of a `PipelineRun`, which takes nine seconds.
    fn task_run(&self, pipeline_run: &str, task: &str) {
        let name = format!("{pipeline_run}-{task}");
        let labels =
            json!({"tekton.dev/pipelineRun": pipeline_run, "tekton.dev/pipelineTask": task});
        let status = json!({
            "startTime": "2026-03-01T10:00:00Z", "completionTime": "2026-03-01T10:00:09Z",
            "conditions": [{"type": "Succeeded", "status": "True", "reason": "Succeeded"}],
        });
        self.cluster.put(
            &format!("/apis/tekton.dev/v1/namespaces/ci/taskruns/{name}"),
            json!({"metadata": {"name": name, "labels": labels}, "status": status}),
        );
    }

    /// The name of the only `PipelineRun`, when it is there.
    async fn pipeline_run(&self) -> String {
        eventually("a PipelineRun", || !self.cluster.names("pipelineruns").is_empty()).await;
        self.cluster.names("pipelineruns").remove(0)
    }

    fn mirror(&self, pending: bool) {
        let data =
            json!({"pendingFlush": pending.to_string(), "githubInSync": (!pending).to_string()});
        let path = "/api/v1/namespaces/ci/configmaps/mirror-web";
        self.cluster.put(path, json!({"metadata": {"name": "mirror-web"}, "data": data}));
    }

    fn application(&self, health: &str) {
        let status = json!({"sync": {"status": "Synced"}, "health": {"status": health}});
        let path = "/apis/argoproj.io/v1alpha1/namespaces/argocd/applications/web";
        self.cluster.put(path, json!({"metadata": {"name": "web"}, "status": status}));
    }

    fn deployment(&self, commit: &str) {
        let path = "/apis/apps/v1/namespaces/web/deployments/web";
        let annotations = json!({"example.com/commit": commit});
        self.cluster.put(path, json!({
            "metadata": {"name": "web", "generation": 1, "annotations": annotations},
            "spec": {"replicas": 1},
            "status": {"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "availableReplicas": 1},
        }));
    }

    fn created(&self) -> usize {
        self.cluster.names("jobs").len() + self.cluster.names("pipelineruns").len()
    }
}

#[tokio::test]
async fn follower_delivers_a_commit_through_native_objects_also_after_the_server_was_killed() {
    let mut lane = Lane::start(CHAIN).await;
    lane.mirror(true);
    lane.end_job("image", "Complete").await;
    lane.end_job("publish", "Complete").await;
    // The gate of the mirror holds the chain.
    let waiting = lane.until("ClosingOut").await;
    assert_eq!(lane.cluster.names("pipelineruns"), Vec::<String>::new(), "{waiting}");
    // The server is killed, and another one goes on.
    lane.installation.kill().await;
    lane.mirror(false);
    lane.application("Progressing");
    lane.deployment("another");
    lane.serve().await;
    lane.task_run(&lane.pipeline_run().await, "build");
    lane.task_run("another", "test");
    lane.end_pipeline("True").await;
    eventually("the gate of Argo CD", || {
        lane.status()["message"].as_str().unwrap().contains("Application argocd/web is Progressing")
    })
    .await;
    lane.application("Healthy");
    eventually("the gate of the runtime", || {
        lane.status()["message"].as_str().unwrap().contains("Deployment web/web")
    })
    .await;
    let commit = lane.repository.head();
    assert_ne!(lane.status()["succeeded"], *commit);
    lane.deployment(&commit);
    eventually("the delivery", || lane.status()["succeeded"] == *commit).await;
    assert_eq!(lane.created(), 3, "nothing was created twice");
    let status = lane.until("Noop").await;
    for commit_of in ["observed", "target", "triggered", "succeeded"] {
        assert_eq!(status[commit_of], *commit, "{commit_of}");
    }
    assert!(status["timings"]["totalSeconds"].as_f64().unwrap() > 0.0, "{status}");
    let pipeline = &status["stages"][3];
    assert_eq!(pipeline["evidence"]["$.status.reusedServices"], "[\"api\"]");
    let copies = lane.cluster.all("configmaps");
    let copy = copies.iter().find(|it| it["metadata"]["name"] == "butler-follower-web").unwrap();
    let written = copy["data"]["state.json"].as_str().unwrap();
    let copy: Value = serde_json::from_str(written).unwrap();
    assert_eq!(copy["succeeded"], *commit);
    let started = copy["timings"]["startedAt"].as_str().unwrap();
    assert!(started.starts_with("20") && started.ends_with('Z'), "{started}");
    assert!(written.lines().count() > 50 && written.lines().all(|it| it.len() < 300), "{written}");
    // People read the same.
    let shown = lane.installation.ask(&["follower", "status"]);
    let shown = text(&shown);
    for words in [
        "web",
        "kubernetes",
        "Noop",
        &commit[..12],
        "STAGE TIMINGS",
        "git-mirror",
        "argo",
        "task-run      pipeline/build  9.0s",
        "REUSE",
        "$.status.reusedServices",
        "[\"api\"]",
    ] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    let visit = Visit::signed_in(&lane.installation).await;
    visit.click("nav a[href='/followers']").await;
    visit.until_text("of 120.0s").await;
    assert_eq!(visit.text("td .state").await, "Noop");
    visit.was_quiet().await;
    let events = text(&lane.installation.ask(&["follower", "events", "--follower", "web"]));
    for phase in ["Triggering", "ClosingOut", "Succeeded", "Noop"] {
        assert!(events.contains(phase), "{phase}: {events}");
    }
}

#[tokio::test]
async fn pipeline_that_failed_is_told_in_its_words_also_if_the_mirror_is_out_of_sync_again() {
    let lane = Lane::start(CHAIN).await;
    lane.mirror(false);
    lane.end_job("image", "Complete").await;
    lane.end_job("publish", "Complete").await;
    lane.pipeline_run().await;
    lane.mirror(true);
    let tasks = "Tasks Completed: 1 (Failed: 1, Cancelled 0), Skipped: 2";
    let condition =
        json!({"type": "Succeeded", "status": "False", "reason": "Failed", "message": tasks});
    let path = "/apis/tekton.dev/v1/namespaces/ci/pipelineruns";
    lane.end("pipeline", path, json!({"conditions": [condition]})).await;
    let status = lane.until("Failed").await;
    let message = status["message"].as_str().unwrap();
    assert!(message.contains(&format!("failed: {tasks}")) && !message.contains("$."), "{message}");
    assert!(message.contains("ConfigMap ci/mirror-web has `pendingFlush` true"), "{message}");
    assert_eq!(status["stages"][3]["progress"], "failed");
    assert_eq!(lane.cluster.names("pipelineruns").len(), 1, "the gate holds a new attempt");
    lane.mirror(false);
    eventually("a new attempt", || lane.cluster.names("pipelineruns").len() == 2).await;
}

#[tokio::test]
async fn follower_whose_object_is_refused_is_blocked_with_the_reason_also_after_a_restart() {
    let slow = CHAIN.replace("first: 2s, longest: 10s", "first: 1h, longest: 1h");
    let mut lane = Lane::prepared("1s", &slow).await;
    let why = "jobs.batch is forbidden: exceeded quota";
    lane.cluster.faults("POST", "/jobs", FaultEffect::Status(403, "Forbidden", why), 1);
    lane.serve().await;
    for _ in 0..2 {
        let status = lane.until("Blocked").await;
        assert!(status["message"].as_str().unwrap().contains(why), "{status}");
        assert_eq!(status["stages"][0]["progress"], "refused");
        lane.installation.kill().await;
        lane.serve().await;
    }
    let (code, shown) = lane.follower("run-once", &["--confirm"]).await;
    assert!(code == Some(0) && shown.contains("is submitted"), "{shown}");
}

#[tokio::test]
async fn failed_stage_is_tried_again_and_a_newer_commit_supersedes_it() {
    let lane = Lane::start(CHAIN).await;
    let first = lane.end_job("image", "Failed").await;
    eventually("the failure", || lane.status()["failure"]["count"] == 1).await;
    let second = lane.end_job("image", "Complete").await;
    assert!(second != first && second.ends_with("-a2"), "{first} {second}");
    eventually("the next stage", || lane.cluster.names("jobs").len() == 3).await;
    let old = lane.repository.head();
    let new = lane.repository.commit("Change", &[("README.md", "new")]);
    eventually("the new commit", || lane.status()["triggered"] == *new).await;
    let events = text(&lane.installation.ask(&["follower", "events", "--follower", "web"]));
    let superseded = format!("supersedes {}, which was not delivered", &old[..12]);
    assert!(events.contains(&superseded), "{events}");
}

#[tokio::test]
async fn person_sees_what_is_due_and_triggers_it_once() {
    let paused = CHAIN.replacen("- id: web", "- id: web\n    paused: true", 1);
    let lane = Lane::start(&paused).await;
    lane.until("Skipped").await;
    assert_eq!(lane.created(), 0);
    // The file is read again.
    std::fs::write(lane.installation.path("followers.yaml"), "followers: [{id: web}]").unwrap();
    eventually("the error of the registry", || {
        lane.installation
            .problems()
            .iter()
            .any(|problem| problem.contains("missing field `source`"))
    })
    .await;
    let slow = CHAIN.replace("first: 2s, longest: 10s", "first: 1h, longest: 1h");
    std::fs::write(lane.installation.path("followers.yaml"), slow).unwrap();
    eventually("the new registry", || {
        let log = std::fs::read_to_string(lane.installation.path("server.log")).unwrap();
        log.contains("the registry of followers has changed")
    })
    .await;
    lane.end_job("image", "Failed").await;
    lane.until("Failed").await;
    let jobs = lane.cluster.names("jobs").len();
    for words in [&["--dry-run"][..], &[]] {
        let (code, shown) = lane.follower("run-once", words).await;
        assert_eq!((code, lane.cluster.names("jobs").len()), (Some(0), jobs), "{shown}");
    }
    // The failed stage is tried again at once, under another name.
    let (code, shown) = lane.follower("run-once", &["--confirm"]).await;
    assert!(code == Some(0) && shown.contains("is submitted"), "{shown}");
    assert_eq!(lane.cluster.names("jobs").len(), jobs + 1);
    let missing = lane.installation.ask(&["follower", "status", "--follower", "wep"]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(
        text(&missing).contains("the registry of followers (`--followers`) does not have `wep`"),
        "{}",
        text(&missing)
    );
}

#[tokio::test]
async fn run_that_is_waited_for_reads_the_branch_first_and_ends_with_the_delivery_or_its_failure() {
    let one_stage = CHAIN.split_once("          - name: publish").unwrap().0;
    let slow = one_stage.replace("first: 2s, longest: 10s", "first: 1h, longest: 1h");
    let lane = Lane::polled_every("1h", &slow).await;
    for (condition, code) in [("Complete", 0), ("Failed", 1)] {
        // The server polls once an hour, and does not know of the commit.
        let commit = lane.repository.commit("Change", &[("README.md", condition)]);
        let waiting = lane.follower("run-once", &["--confirm", "--wait"]);
        // The server can find the commit before the request does, which then retries what has failed.
        let end_each = async {
            loop {
                lane.end_job("image", condition).await;
            }
        };
        let (ended, shown) = tokio::select! {
            ended = waiting => ended,
            () = end_each => unreachable!(),
        };
        assert_eq!(ended, Some(code), "{shown}");
        assert_eq!(lane.status()["target"], *commit);
    }
    let words = ["--confirm", "--wait", "--timeout", "1s"];
    let (code, shown) = lane.follower("run-once", &words).await;
    assert!(code == Some(1) && shown.contains("it is not waited for any longer"), "{shown}");
}

#[tokio::test]
async fn logs_of_a_stage_are_those_of_the_pods_of_its_object() {
    let lane = Lane::start(CHAIN).await;
    eventually("the Job", || !lane.cluster.names("jobs").is_empty()).await;
    let job = lane.cluster.names("jobs").remove(0);
    let path = "/api/v1/namespaces/ci/pods/build-1";
    lane.cluster.put(
        path,
        json!({
            "metadata": {"name": "build-1", "namespace": "ci", "labels": {"job-name": job}},
            "spec": {"containers": [{"name": "build"}]},
            "test/log": "compiling\nerror: out of disk\n",
        }),
    );
    let (_, logs) = lane.follower("logs", &[]).await;
    assert!(logs.contains("==> build-1 build <==\ncompiling\nerror: out of disk\n"), "{logs}");
    let (_, gate) = lane.follower("logs", &["--stage", "sync"]).await;
    assert!(gate.contains("Application argocd/web has no pods of its own"), "{gate}");
}

#[tokio::test]
async fn layer_delivers_the_commits_of_a_follower() {
    let mut installation = Installation::new();
    let repository = Repository::create(&[("envs/a/main.tf", LAYER)]);
    installation.configure(&format!(
        "repositories: {{infra: {{url: '{}', poll: 1s}}}}\nlayers: {{a: {{repository: infra, path: envs/a, strategy: auto, backend: {{type: local}}}}}}",
        repository.url(),
    ));
    let followers = format!(
        "controller: {{poll: 2s, watch: 1s}}\nfollowers: [{{id: a, source: {{repository: '{}', branch: main}}, adapter: {{terraform: {{layer: a}}}}}}]",
        repository.url()
    );
    std::fs::write(installation.path("followers.yaml"), followers).unwrap();
    installation.serve(&["--followers", "followers.yaml"].map(str::to_owned)).await;
    let status = || installation.json(&["follower", "status"])["followers"][0].clone();
    for files in [&[][..], &[("envs/a/two.tf", "locals {}\n")]] {
        let head =
            if files.is_empty() { repository.head() } else { repository.commit("More", files) };
        eventually("the delivery", || status()["succeeded"] == *head).await;
        assert_eq!(installation.layer("a")["appliedRevision"]["commit"], *head);
    }
    // A commit that does not change the layer is delivered too.
    let head = repository.commit("Note", &[("README.md", "note")]);
    eventually("the delivery of an unrelated commit", || status()["succeeded"] == *head).await;
}

#[tokio::test]
async fn registry_that_cannot_be_used_is_refused_before_anything_starts() {
    let installation = Installation::new();
    installation.configure("repositories: {shop: {url: 'file:///shop'}}");
    for (text_of_file, why) in [
        (
            "followers: [{id: A}]",
            "followers.yaml: cannot parse the registry of followers at line 1",
        ),
        (
            "followers: [{id: a, source: {repository: shop, branch: main}, adapter: {jenkins: {job: a, url: 'https://j'}}}]",
            "the adapter must have either `token-file` or `token-env`",
        ),
    ] {
        std::fs::write(installation.path("followers.yaml"), text_of_file).unwrap();
        let output = installation
            .command(&["serve", "--followers", "followers.yaml", "--listen", "127.0.0.1:0"])
            .output()
            .await
            .unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output).contains(why), "{}", text(&output));
    }
}
