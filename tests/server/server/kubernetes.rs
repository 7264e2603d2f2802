//! Attempts that are Jobs of a Kubernetes cluster. The cluster is a stand-in ([`ApiServer`]); the runner in its pods,
//! Terraform, TLS, the repository and the backend of the state are real.

mod ends;
mod installation;
mod recovery;

use butler_testing::HeldPort;

use super::faults::HeldBackend;
use super::*;
use butler_testing::api_server::{ApiServer, PodCourse};
use butler_testing::authority::Authority;
use butler_testing::http_backend::HttpBackend;

/// The config map with the certificate of the server's authority.
const CA: &str = "butler-ca";

/// The outcome of an attempt whose container was out of memory.
const OUT_OF_MEMORY: &str = "its container was out of memory (OOMKilled)";

/// A server that starts Jobs, and its cluster.
struct Site {
    installation: Installation,
    cluster: ApiServer,
    repository: Repository,
    port: HeldPort,
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
        let port = HeldPort::new();
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
        let listen = format!("127.0.0.1:{}", self.port.port());
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
        let url = format!("https://127.0.0.1:{}", self.port.port());
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

    /// How many requests with this method the server has sent for the only Job.
    fn requests(&self, method: &str) -> usize {
        let job = format!("/jobs/{}", self.cluster.names("jobs").remove(0));
        let asked = self.cluster.requests();
        asked.iter().filter(|it| it.starts_with(method) && it.ends_with(&job)).count()
    }

    /// Waits until the cluster has ended the only Job.
    async fn until_the_job_has_failed(&self) {
        let job = || self.cluster.all("jobs").remove(0);
        eventually("the end of the Job", || job()["status"]["conditions"][0]["type"] == "Failed")
            .await;
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
        let shown = text(&site.installation.ask(&["run", "show", run["id"].as_str().unwrap()]));
        assert!(shown.contains("on the cluster, as a Job"), "{shown}");
        assert!(!shown.contains("this machine"), "{shown}");
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
