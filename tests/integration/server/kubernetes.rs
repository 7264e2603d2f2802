//! Attempts that are Jobs of a Kubernetes cluster. The cluster is a stand-in ([`ApiServer`]); the runner in its pods,
//! Terraform, TLS, the repository and the backend of the state are real.

use std::collections::BTreeSet;

use butler_testing::{PASSWORD, Postgres, free_port};

use super::faults::HeldBackend;
use super::*;
use crate::support::api_server::{ApiServer, FaultEffect, PodCourse};
use crate::support::authority::Authority;
use crate::support::http_backend::HttpBackend;
use crate::support::linters::yaml;

/// The config map with the certificate of the server's authority.
const CA: &str = "butler-ca";

/// The outcome of an attempt whose container was out of memory.
const OUT_OF_MEMORY: &str = "its container was out of memory (OOMKilled)";

/// A server that starts Jobs, and its cluster.
struct Site {
    installation: Installation,
    cluster: ApiServer,
    repository: Repository,
    port: u16,
    /// Has the certificates of the server and of those that ask it.
    _authority: Authority,
}

impl Site {
    /// A server for the layer `a` with this module and this configuration. It is not started.
    async fn new(module: &str, layer: &str) -> Self {
        let mut installation = Installation::new();
        let cluster = ApiServer::start(&installation.path("node"), &[]).await;
        let authority = Authority::create();
        let pem = std::fs::read_to_string(authority.bundle()).unwrap();
        cluster.config_map(CA, "ca.crt", &pem);
        let (certificate, key) = authority.server_pem();
        for (name, content) in [
            ("tls.crt", certificate),
            ("tls.key", key),
            ("kubeconfig", cluster.kubeconfig().into_bytes()),
        ] {
            std::fs::write(installation.path(name), content).unwrap();
        }
        installation.ca_bundle = Some(authority.bundle());
        let repository = Repository::create(&[("envs/a/main.tf", module)]);
        let port = free_port();
        let site = Self { installation, cluster, repository, port, _authority: authority };
        site.configure(layer);
        site
    }

    /// A server that has started the Job of a plan, which waits in its backend.
    async fn with_held_plan(layer: &str) -> (Self, HeldBackend) {
        let backend = HeldBackend::start().await;
        let mut site = Self::new(&backend.module(), layer).await;
        site.start().await;
        backend.wait_for_request().await;
        (site, backend)
    }

    fn configure(&self, layer: &str) {
        self.installation.configure(&format!(
            "repositories: {{infra: {{url: '{}'}}}}
layers:
  a: {{repository: infra, path: envs/a, {layer}}}
",
            self.repository.url(),
        ));
    }

    /// The arguments of the server, without the address for attempts.
    fn arguments(&self) -> Vec<String> {
        let path = |name: &str| self.installation.path(name).to_str().unwrap().to_owned();
        let listen = format!("127.0.0.1:{}", self.port);
        let mut words = vec!["--executor".to_owned(), "kubernetes".to_owned()];
        for (flag, value) in [
            ("--listen", listen),
            ("--tls-cert", path("tls.crt")),
            ("--tls-key", path("tls.key")),
            ("--attempt-ca-config-map", CA.to_owned()),
        ] {
            words.extend([flag.to_owned(), value]);
        }
        words
    }

    async fn start(&mut self) {
        self.start_with(&[]).await;
    }

    /// Starts the server with further arguments.
    async fn start_with(&mut self, more: &[&str]) {
        let login = format!("KUBECONFIG={}", self.installation.path("kubeconfig").display());
        let mut arguments = self.arguments();
        let url = format!("https://127.0.0.1:{}", self.port);
        arguments.extend(["--attempt-url", &url].iter().chain(more).map(|word| (*word).to_owned()));
        self.installation.serve_behind(&["env", &login], &arguments).await;
    }

    /// Another server for the same configuration, cluster and repository.
    fn beside(&self) -> Installation {
        let mut other = Installation::new();
        other.ca_bundle.clone_from(&self.installation.ca_bundle);
        for name in ["tls.crt", "tls.key", "kubeconfig", "butler.yaml"] {
            std::fs::copy(self.installation.path(name), other.path(name)).unwrap();
        }
        other
    }

    /// Asks for a plan, and waits until it has ended. Returns the run.
    async fn plan(&self, course: PodCourse, runs: usize) -> Value {
        self.cluster.course(course);
        let asked = self.installation.ask(&["layer", "plan", "a"]);
        assert!(asked.status.success(), "{}", text(&asked));
        let runs_of = || self.installation.runs("a");
        eventually(&format!("the end of a plan with {course:?}"), || {
            let known = runs_of();
            known.len() == runs && !known[0]["attempts"][0]["outcome"].is_null()
        })
        .await;
        runs_of().remove(0)
    }

    fn log(&self, run: &Value) -> String {
        text(&self.installation.ask(&["run", "logs", run["id"].as_str().unwrap()]))
    }

    /// The reasons of the layer, as one text.
    fn reasons(&self) -> String {
        self.installation.layer("a")["reasons"].to_string()
    }
}

/// How the only attempt of a run has ended.
fn of(run: &Value) -> &str {
    run["attempts"][0]["outcome"].as_str().unwrap_or_default()
}

/// What the Role of `generate server` allows: verbs with resources.
fn allowed() -> BTreeSet<String> {
    let printed = runner().args(["generate", "server"]).output().unwrap();
    let objects = yaml(&String::from_utf8(printed.stdout).unwrap());
    let role = objects.into_iter().find(|object| object["kind"] == "Role").unwrap();
    let texts = |list: &Value| -> Vec<String> {
        let list = list.as_array().unwrap().iter();
        list.map(|text| text.as_str().unwrap().to_owned()).collect()
    };
    let rules = role["rules"].as_array().unwrap().iter();
    let pairs = rules.flat_map(|rule| {
        let resources = texts(&rule["resources"]);
        texts(&rule["verbs"]).into_iter().flat_map(move |verb| {
            resources.clone().into_iter().map(move |it| format!("{verb} {it}"))
        })
    });
    pairs.collect()
}

/// What these requests needed.
fn needed(requests: &[String]) -> BTreeSet<String> {
    let pair = |request: &String| {
        let (method, url) = request.split_once(' ').unwrap();
        let (path, query) = url.split_once('?').unwrap_or((url, ""));
        let mut parts = path.split("/namespaces/").nth(1).unwrap().split('/').skip(1);
        let (resource, name) = (parts.next().unwrap(), parts.next());
        let verb = match (method, name) {
            ("POST", _) => "create",
            ("DELETE", _) => "delete",
            ("GET", Some(_)) => "get",
            ("GET", None) if query.contains("watch=") => "watch",
            ("GET", None) => "list",
            _ => panic!("{request}"),
        };
        format!("{verb} {resource}")
    };
    requests.iter().map(pair).collect()
}

#[tokio::test]
async fn plan_and_apply_are_jobs_that_report_over_tls() {
    let backend = HttpBackend::start().await;
    let layer = format!(
        "strategy: auto, backend: {{type: http, config: {}}}, job: {{memory: 3Gi, node-selector: {{pool: tf}}}}",
        backend.config()
    );
    let mut site = Site::new(LAYER, &layer).await;
    site.start().await;
    site.installation.until("a", "Succeeded", 2).await;
    let runs = site.installation.runs("a");
    assert_eq!((&runs[0]["action"], &runs[1]["action"]), (&"apply".into(), &"plan".into()));
    for (run, expected) in runs.iter().zip(["Apply complete! Resources: 1 added", "Plan: 1 to add"])
    {
        assert_eq!(run["attempts"].as_array().unwrap().len(), 1, "{run}");
        assert_eq!(run["counts"]["add"], 1, "{run}");
        let log = site.log(run);
        assert!(log.contains(expected), "{log}");
    }
    let state = backend.state().unwrap();
    assert_eq!(state["resources"][0]["type"], "terraform_data", "{state}");

    // One Job for each, with what its layer says, and no secret in it.
    let jobs = site.cluster.all("jobs");
    assert_eq!(jobs.len(), 2);
    for job in &jobs {
        let container = &job["spec"]["template"]["spec"]["containers"][0];
        assert_eq!(container["resources"]["limits"]["memory"], "3Gi", "{job}");
        assert_eq!(job["spec"]["template"]["spec"]["nodeSelector"]["pool"], "tf");
        assert_eq!(job["spec"]["backoffLimit"], 0);
        assert_eq!(job["metadata"]["annotations"]["butler.dev/layer"], "a");
        let secrets = site.cluster.all("secrets");
        let is_owned =
            |it: &&Value| it["metadata"]["ownerReferences"][0]["uid"] == job["metadata"]["uid"];
        let token = secrets.iter().find(is_owned).unwrap();
        let token = token["stringData"]["token"].as_str().unwrap();
        assert!(!job.to_string().contains(token));
    }
    assert_eq!(site.cluster.names("networkpolicies").len(), 2);
    let log = std::fs::read_to_string(site.installation.path("server.log")).unwrap();
    assert!(log.contains("isolation=\"pod\""), "{log}");
    assert!(!log.contains("WARN"), "{log}");
    // The commands of the server work as with processes.
    eventually("a layer at rest", || site.installation.layer("a")["phase"] == "Noop").await;
}

/// Lets the cluster end the Job of a plan that waits in its backend. Its outcome and its log say why.
async fn ends(course: PodCourse, outcome: &str, line: &str) {
    let (site, backend) = Site::with_held_plan("strategy: plan-only, retries: {max: 1}").await;
    site.cluster.course(course);
    // Terraform ends after a signal only when its backend has answered.
    backend.release();
    site.installation.until("a", "Failed", 1).await;
    let run = site.installation.runs("a").remove(0);
    assert_eq!(of(&run), outcome, "{run}");
    let reasons = site.reasons();
    assert!(reasons.contains(outcome), "{reasons}");
    let log = site.log(&run);
    assert!(log.lines().last().is_some_and(|last| last.contains(line)), "{log}");
    assert_eq!(site.installation.layer("a")["lease"], Value::Null);
}

#[tokio::test]
async fn job_without_enough_memory_says_so() {
    let line = "the container was out of memory (OOMKilled)";
    ends(PodCourse::OutOfMemory, OUT_OF_MEMORY, line).await;
}

#[tokio::test]
async fn job_whose_pod_is_evicted_says_so() {
    ends(PodCourse::Evicted, "its pod was evicted from the node", "ephemeral-storage").await;
}

#[tokio::test]
async fn job_whose_node_is_lost_says_so() {
    ends(PodCourse::NodeLost, "the node of its pod was lost", "DisruptionTarget").await;
}

/// The server hears of the end late, more than once, and from a list instead of a watch.
#[tokio::test]
async fn end_of_a_job_is_recorded_once_if_its_watch_breaks_and_expires() {
    let (site, backend) = Site::with_held_plan("strategy: plan-only, retries: {max: 1}").await;
    site.cluster.repeat_events();
    site.cluster.hold_events(true);
    site.cluster.course(PodCourse::OutOfMemory);
    backend.release();
    let job = || site.cluster.all("jobs").remove(0);
    eventually("the end of the Job", || job()["status"]["conditions"][0]["type"] == "Failed").await;
    site.cluster.forget_history();
    site.cluster.break_watches();
    site.cluster.hold_events(false);
    site.installation.until("a", "Failed", 1).await;
    // The events of the first Job arrive again while the second one runs.
    site.cluster.break_watches();
    let run = site.plan(PodCourse::Run, 2).await;
    assert_eq!(run["phase"], "Succeeded", "{run}");
    for (run, outcome) in site.installation.runs("a").iter().zip(["succeeded", OUT_OF_MEMORY]) {
        assert_eq!((of(run), run["attempts"].as_array().unwrap().len()), (outcome, 1), "{run}");
    }
}

#[tokio::test]
async fn job_that_exceeds_its_deadline_says_so() {
    ends(PodCourse::Deadline, "its Job was active for longer than its deadline", "deadline").await;
}

#[tokio::test]
async fn pod_that_cannot_begin_is_a_reason_of_its_layer_and_has_a_limit() {
    let layer = "strategy: plan-only, retries: {max: 1}, job: {start-timeout: 3s}";
    let mut site = Site::new(LAYER, layer).await;
    site.start().await;
    site.installation.until("a", "Succeeded", 1).await;
    for (number, (course, outcome, sentence)) in [
        (PodCourse::NoImage, "its image could not be pulled", "failed to pull and unpack"),
        (PodCourse::NoSecret, "an object that its pod needs is missing", "secret \\\"git-token"),
        (PodCourse::Unschedulable, "no node had room for its pod", "3 Insufficient memory"),
    ]
    .into_iter()
    .enumerate()
    {
        site.cluster.course(course);
        assert!(site.installation.ask(&["layer", "plan", "a"]).status.success());
        eventually(&format!("the reason of {course:?}"), || {
            let reasons = site.reasons();
            reasons.contains("the pod of the attempt has not begun") && reasons.contains(sentence)
        })
        .await;
        site.installation.until("a", "Failed", number + 2).await;
        let run = site.installation.runs("a").remove(0);
        assert!(of(&run).starts_with(outcome), "{run}");
        let log = site.log(&run);
        assert!(log.contains("the pod did not begin within 3s: "), "{log}");
        // The Job of the attempt is deleted, so its pod cannot begin later.
        let name = |job: &Value| job["metadata"]["annotations"]["butler.dev/run-id"].clone();
        let id = format!("{}-1", run["id"].as_str().unwrap());
        assert!(site.cluster.all("jobs").iter().all(|job| name(job) != *id), "{id}");
    }
    site.cluster.course(PodCourse::Quota);
    let run = site.plan(PodCourse::Quota, 5).await;
    assert_eq!(of(&run), "a quota or an admission rule did not allow its pod", "{run}");
    let log = site.log(&run);
    assert!(log.contains("exceeded quota: runs"), "{log}");
    // Afterwards, the layer is planned as ever.
    let run = site.plan(PodCourse::Run, 6).await;
    assert_eq!(run["phase"], "Succeeded", "{run}");
    // All of that is what the Role of an installation allows, and the Role allows no more.
    assert_eq!(needed(&site.cluster.requests()), allowed());
}

#[tokio::test]
async fn api_server_that_refuses_jobs_fails_the_attempt_and_one_that_is_away_is_waited_for() {
    let layer = "strategy: plan-only, retries: {max: 1}, job: {start-timeout: 3s}";
    let mut site = Site::new(LAYER, layer).await;
    let denied = FaultEffect::Status(403, "Forbidden", "User \"server\" cannot create resource");
    site.cluster.faults("POST", "/jobs", denied, 1);
    site.start().await;
    site.installation.until("a", "Failed", 1).await;
    let run = site.installation.runs("a").remove(0);
    assert_eq!(of(&run), "the cluster does not allow the server to create Jobs", "{run}");
    let log = site.log(&run);
    assert!(log.contains("no permission to `create` `jobs.batch`"), "{log}");

    let away = FaultEffect::Status(503, "ServiceUnavailable", "etcd is away");
    site.cluster.faults("POST", "/jobs", away, 2);
    let run = site.plan(PodCourse::Run, 2).await;
    assert_eq!(run["phase"], "Succeeded", "{run}");
}

#[tokio::test]
async fn job_outlives_a_killed_server_and_is_found_again() {
    let (mut site, backend) = Site::with_held_plan("strategy: plan-only").await;
    site.installation.kill().await;
    // The plan ends while no server runs; its runner sends its reports until one takes them.
    backend.release();
    site.start().await;
    site.installation.until("a", "Succeeded", 1).await;
    let run = site.installation.runs("a").remove(0);
    assert_eq!(run["attempts"].as_array().unwrap().len(), 1, "{run}");
    let log = site.log(&run);
    assert!(log.contains("Plan: 1 to add, 0 to change, 0 to destroy."), "{log}");
    assert_eq!(log.matches("Terraform used the selected providers").count(), 1, "{log}");
    assert_eq!(site.cluster.all("jobs").len(), 1);
}

#[tokio::test]
async fn job_that_ended_while_no_server_ran_is_not_left_open() {
    let (mut site, _backend) = Site::with_held_plan("strategy: plan-only, retries: {max: 1}").await;
    site.installation.kill().await;
    site.cluster.course(PodCourse::OutOfMemory);
    let job = || site.cluster.all("jobs").remove(0);
    eventually("the end of the Job", || job()["status"]["conditions"][0]["type"] == "Failed").await;
    site.start().await;
    site.installation.until("a", "Failed", 1).await;
    let run = site.installation.runs("a").remove(0);
    assert_eq!(of(&run), "its container was out of memory (OOMKilled)", "{run}");
}

#[tokio::test]
async fn cancelled_plan_deletes_its_job_and_keeps_its_log() {
    let backend = HeldBackend::start().await;
    let module = backend.reading_module();
    let mut site = Site::new(&module, "strategy: plan-only").await;
    site.start().await;
    backend.wait_for_request().await;
    site.installation.until("a", "ClosingOut", 1).await;
    let run = site.installation.runs("a").remove(0);
    let cancelled = site.installation.ask(&["run", "cancel", run["id"].as_str().unwrap()]);
    assert!(cancelled.status.success(), "{}", text(&cancelled));
    eventually("Terraform's interruption", || site.log(&run).contains("Interrupt received")).await;
    backend.release();
    site.installation.until("a", "Skipped", 1).await;
    let run = site.installation.runs("a").remove(0);
    assert_eq!(run["ended"], "cancelled", "{run}");
    assert!(site.log(&run).contains("Gracefully shutting down"));
    eventually("no Job", || site.cluster.objects() == 0).await;
}

#[tokio::test]
async fn what_needs_this_machine_is_refused_for_jobs() {
    let layer = "strategy: plan-only, retries: {max: 1}, backend: {type: local}";
    let mut site = Site::new(LAYER, layer).await;
    site.start().await;
    site.installation.until("a", "Failed", 1).await;
    let run = site.installation.runs("a").remove(0);
    let log = site.log(&run);
    assert!(log.contains("the layer has a `local` backend"), "{log}");
    assert_eq!(site.cluster.objects(), 0);
    let asked = site.cluster.requests();
    let created = asked.iter().filter(|request| request.starts_with("POST"));
    assert_eq!(created.count(), 0, "{asked:?}");
}

#[tokio::test]
async fn server_without_tls_or_a_cluster_does_not_start_jobs() {
    let site = Site::new(LAYER, "strategy: plan-only").await;
    let kubeconfig = site.installation.path("kubeconfig");
    let refused = async |arguments: &[&str], kubeconfig: &Path| {
        let mut command = site.installation.command(&["serve"]);
        command.args(arguments).env("KUBECONFIG", kubeconfig);
        let output = command.output().await.unwrap();
        (output.status.code(), text(&output))
    };
    let http = ["--executor", "kubernetes", "--attempt-url", "http://127.0.0.1:7373"];
    let (code, error) = refused(&http, &kubeconfig).await;
    assert_eq!(code, Some(2), "{error}");
    assert!(error.contains("over TLS only"), "{error}");
    let (code, error) = refused(&http[..2], &kubeconfig).await;
    assert_eq!(code, Some(2), "{error}");
    assert!(error.contains("--attempt-url"), "{error}");
    let https = ["--executor", "kubernetes", "--attempt-url", "https://127.0.0.1:7373"];
    let (code, error) = refused(&https, Path::new("/nowhere/kubeconfig")).await;
    assert_eq!(code, Some(1), "{error}");
    assert!(error.contains("cannot use the Kubernetes cluster"), "{error}");
    let (code, error) = refused(&[&https[..], &["--once"]].concat(), &kubeconfig).await;
    assert_eq!(code, Some(2), "{error}");
    assert!(error.contains("--once"), "{error}");
}

#[tokio::test]
async fn server_that_looks_into_another_namespace_does_not_take_jobs_for_gone() {
    let (mut site, backend) = Site::with_held_plan("strategy: plan-only").await;
    site.installation.kill().await;
    // It looks for all attempts before it is ready.
    site.start_with(&["--job-namespace", "elsewhere"]).await;
    let run = site.installation.runs("a").remove(0);
    assert_eq!(run["attempts"][0]["ended"], Value::Null, "{run}");
    assert_ne!(site.installation.layer("a")["lease"], Value::Null);
    let log = std::fs::read_to_string(site.installation.path("server.log")).unwrap();
    assert!(log.contains("is in the namespace `runs` of https://127.0.0.1:"), "{log}");
    site.installation.kill().await;
    backend.release();
    site.start().await;
    site.installation.until("a", "Succeeded", 1).await;
    let run = site.installation.runs("a").remove(0);
    assert_eq!(run["attempts"].as_array().unwrap().len(), 1, "{run}");
}

#[tokio::test]
async fn job_that_was_left_without_its_token_is_deleted_and_the_run_started_again() {
    let mut site = Site::new(LAYER, "strategy: plan-only").await;
    let away = FaultEffect::Status(503, "ServiceUnavailable", "etcd is away");
    site.cluster.faults("POST", "/secrets", away, usize::MAX);
    site.start().await;
    eventually("a Job", || site.cluster.all("jobs").len() == 1).await;
    site.installation.kill().await;
    site.cluster.heal();
    site.start().await;
    site.installation.until("a", "Succeeded", 1).await;
    let run = site.installation.runs("a").remove(0);
    let outcomes = run["attempts"].as_array().unwrap();
    let outcomes: Vec<_> = outcomes.iter().map(|it| it["outcome"].as_str()).collect();
    assert_eq!(
        outcomes,
        [Some("the objects of its Job were not all created"), Some("succeeded")],
        "{run}"
    );
    assert_eq!(site.cluster.all("jobs").len(), 1);
}

#[tokio::test]
async fn plan_whose_job_cannot_be_created_yet_is_cancelled_at_once() {
    let mut site = Site::new(LAYER, "strategy: plan-only").await;
    let denied = FaultEffect::Status(403, "Forbidden", "User \"server\" cannot create resource");
    site.cluster.faults("POST", "/jobs", denied, usize::MAX);
    site.start().await;
    eventually("a Job that is refused", || site.reasons().contains("no permission")).await;
    let run = site.installation.runs("a").remove(0);
    let cancelled = site.installation.ask(&["run", "cancel", run["id"].as_str().unwrap()]);
    assert!(cancelled.status.success(), "{}", text(&cancelled));
    site.installation.until("a", "Skipped", 1).await;
    assert_eq!(site.installation.layer("a")["lease"], Value::Null);
    assert_eq!(site.cluster.objects(), 0);
}

#[tokio::test]
async fn second_server_with_the_same_store_leaves_the_jobs_of_the_first_one_alone() {
    let backend = HeldBackend::start().await;
    let postgres = Postgres::start();
    let mut site = Site::new(&backend.module(), "strategy: plan-only").await;
    let store = format!("postgres://postgres:{PASSWORD}@127.0.0.1:{}/postgres", postgres.port());
    let store = ["--store", &store];
    let mut other = site.beside();
    let url = format!("https://127.0.0.1:{}", free_port());
    let login = format!("KUBECONFIG={}", other.path("kubeconfig").display());
    let words = ["--executor", "kubernetes", "--attempt-url", &url, store[0], store[1]];
    site.cluster.course(PodCourse::Unschedulable);
    site.start_with(&store).await;
    eventually("a Job that waits", || site.reasons().contains("has not begun")).await;
    // The other one is told about all Jobs and pods as soon as it watches them.
    let watches = || site.cluster.requests().iter().filter(|it| it.contains("watch=")).count();
    let before = watches();
    other.serve_behind(&["env", &login], &words.map(str::to_owned)).await;
    eventually("the watches of the other server", || watches() >= before + 2).await;
    assert!(other.ask(&["layer", "sync", "a"]).status.success());
    site.cluster.course(PodCourse::Run);
    backend.wait_for_request().await;
    backend.release();
    site.installation.until("a", "Succeeded", 1).await;
    let run = site.installation.runs("a").remove(0);
    assert_eq!(run["attempts"].as_array().unwrap().len(), 1, "{run}");
    assert_eq!(site.cluster.all("jobs").len(), 1);
    assert_eq!(other.terminate().await, Some(0));
}

#[tokio::test]
async fn runner_that_has_begun_is_not_ended_because_its_node_does_not_say_so() {
    let backend = HeldBackend::start().await;
    let layer = "strategy: plan-only, job: {start-timeout: 2s}";
    let mut site = Site::new(&backend.module(), layer).await;
    site.cluster.course(PodCourse::Unseen);
    site.start().await;
    backend.wait_for_request().await;
    let job = site.cluster.names("jobs").remove(0);
    let requests = |method: &str| {
        let asked = site.cluster.requests();
        asked.iter().filter(|it| it.starts_with(method) && it.ends_with(&job)).count()
    };
    // After its creation, and twice after the limit.
    eventually("looks at the Job", || requests("GET") >= 3).await;
    backend.release();
    site.installation.until("a", "Succeeded", 1).await;
    assert_eq!(requests("DELETE"), 0);
    let run = site.installation.runs("a").remove(0);
    assert_eq!(run["attempts"].as_array().unwrap().len(), 1, "{run}");
}
