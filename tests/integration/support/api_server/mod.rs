//! A stand-in for a Kubernetes cluster: an API server with the requests that the runner sends it, and
//! behind it a scheduler, a kubelet and a controller of Jobs that know one kind of Job.
//!
//! It is none: nothing of admission, quotas or validation is real, and no registry of packages has a
//! real one. The shapes of answers, watches and logs are those that the Kubernetes API documentation
//! shows. The container is real: its command is started as a process with the pod's variables, and its
//! volumes as directories.

mod container;
mod gate;
mod kubelet;
mod server;
mod store;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub(crate) use gate::Gate;

use super::authority::Authority;
use super::git_server::TlsListener;
use store::Store;

/// The one token that it knows.
pub(crate) const TOKEN: &str = "eyJhbGciOi.cluster-token.x1";
/// The one namespace.
pub(crate) const NAMESPACE: &str = "runs";

/// What stands in the way of a request.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    /// `POST`.
    pub(crate) method: &'static str,
    /// How the path ends, with `?watch` where it is one.
    pub(crate) path: &'static str,
    pub(crate) what: Broken,
    /// How often; then the server answers itself.
    pub(crate) times: usize,
}

/// What happens instead of an answer, or to it.
#[derive(Clone, Debug)]
pub(crate) enum Broken {
    /// A `Status` with this code, reason and message.
    Status(u16, &'static str, &'static str),
    /// 429 with `Retry-After: 1`.
    Later,
    /// The request is carried out, and the answer is a 500.
    AnswerLost,
    /// The watch says 410.
    Gone,
    /// The log breaks off in the middle of the line after so many.
    LogAfter(usize),
    /// The log never says anything.
    Silence,
}

/// What the cluster does with the pod.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Course {
    /// It runs.
    Run,
    /// No node has room for it.
    Unschedulable,
    /// The image cannot be pulled.
    NoImage,
    /// A Secret whose keys become variables is missing.
    NoSecret,
    /// The controller may not create it.
    Quota,
    /// The node ran full: the kubelet ends it.
    Evicted,
    /// The container takes too much memory: the kernel ends it.
    OutOfMemory,
    /// The Job's deadline has come.
    Deadline,
    /// The node is gone, and the pod with it.
    NodeLost,
}

/// A running cluster; what it started ends with it.
pub(crate) struct ApiServer {
    endpoint: String,
    authority: Authority,
    server: JoinHandle<()>,
    shared: Arc<Shared>,
}

struct Shared {
    store: Mutex<Store>,
    /// Counts changes of the store.
    changes: watch::Sender<u64>,
    faults: Mutex<Vec<Fault>>,
    course: watch::Sender<Course>,
    /// What each request was: `POST /path?query`.
    requests: Mutex<Vec<String>>,
    /// Where volumes are, and the variables of the node.
    node: PathBuf,
    variables: Vec<(String, String)>,
    /// Whether a client has to show a certificate and no token.
    by_certificate: bool,
}

impl ApiServer {
    /// A cluster whose node keeps its volumes in `node`, and has these variables.
    pub(crate) async fn start(node: &Path, variables: &[(&str, &str)]) -> Self {
        Self::with(node, variables, false).await
    }

    /// One that knows its clients by their certificates.
    pub(crate) async fn by_certificate(node: &Path) -> Self {
        Self::with(node, &[], true).await
    }

    async fn with(node: &Path, variables: &[(&str, &str)], by_certificate: bool) -> Self {
        let variables = variables.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        let shared = Arc::new(Shared {
            store: Mutex::default(),
            changes: watch::Sender::new(0),
            faults: Mutex::default(),
            course: watch::Sender::new(Course::Run),
            requests: Mutex::default(),
            node: node.to_owned(),
            variables: variables.collect(),
            by_certificate,
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("https://{}", listener.local_addr().unwrap());
        let authority = Authority::create();
        let acceptor =
            if by_certificate { authority.mutual_acceptor() } else { authority.acceptor() };
        let listener = TlsListener { listener, acceptor };
        let router = server::router(Arc::clone(&shared));
        let server = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { endpoint, authority, server, shared }
    }

    /// A kubeconfig for it with this user, and with this in the cluster's entry.
    pub(crate) fn kubeconfig_of(&self, user: &Value, cluster: &[(&str, &str)]) -> String {
        let pem = std::fs::read(self.authority.bundle()).unwrap();
        let mut entry = json!({
            "server": self.endpoint,
            "certificate-authority-data": STANDARD.encode(pem),
        });
        for (name, value) in cluster {
            entry[*name] = json!(value);
        }
        let context = json!({"cluster": "test", "user": "test", "namespace": NAMESPACE});
        let elsewhere = json!({"cluster": "nowhere", "user": "test"});
        json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "contexts": [
                {"name": "elsewhere", "context": elsewhere},
                {"name": "test", "context": context},
            ],
            "clusters": [
                {"name": "nowhere", "cluster": {"server": "https://127.0.0.1:9"}},
                {"name": "test", "cluster": entry},
            ],
            "users": [{"name": "test", "user": user}],
        })
        .to_string()
    }

    /// A kubeconfig for it with its token.
    pub(crate) fn kubeconfig(&self) -> String {
        self.kubeconfig_of(&json!({"token": TOKEN}), &[])
    }

    /// A kubeconfig for it with a client's certificate.
    pub(crate) fn kubeconfig_with_certificate(&self) -> String {
        let (certificate, key) = self.authority.client("somebody");
        let user = json!({
            "client-certificate-data": STANDARD.encode(certificate),
            "client-key-data": STANDARD.encode(key),
        });
        self.kubeconfig_of(&user, &[])
    }

    /// Its address, `127.0.0.1:PORT`.
    pub(crate) fn address(&self) -> &str {
        self.endpoint.trim_start_matches("https://")
    }

    /// The certificate of its authority.
    pub(crate) fn certificate(&self) -> PathBuf {
        self.authority.bundle()
    }

    /// Has the next such request go wrong.
    pub(crate) fn fault(&self, method: &'static str, path: &'static str, what: Broken) {
        self.faults(method, path, what, 1);
    }

    pub(crate) fn faults(
        &self,
        method: &'static str,
        path: &'static str,
        what: Broken,
        times: usize,
    ) {
        self.shared.faults.lock().unwrap().push(Fault { method, path, what, times });
    }

    /// What becomes of pods from here on, also of the one that is there.
    pub(crate) fn course(&self, course: Course) {
        self.shared.course.send_replace(course);
    }

    /// What was asked so far.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.shared.requests.lock().unwrap().clone()
    }

    /// The object of this kind, if there is exactly one.
    pub(crate) fn only(&self, plural: &str) -> Option<Value> {
        let store = self.shared.store.lock().unwrap();
        let mut found = store.of(plural);
        let only = found.next().cloned();
        assert!(found.next().is_none(), "there is more than one of {plural}");
        only
    }

    /// Where the node keeps this volume of the one pod.
    pub(crate) fn volume(&self, name: &str) -> PathBuf {
        let pod = self.names("pods").remove(0);
        self.shared.node.join(pod).join(name)
    }

    /// The lines of the one pod's log.
    pub(crate) fn log(&self) -> Vec<String> {
        let store = self.shared.store.lock().unwrap();
        let log = store.logs.values().next().unwrap();
        log.lines.iter().map(|(_, line)| line.clone()).collect()
    }

    /// Somebody deletes the Job, whose pod takes its time.
    pub(crate) fn begin_deleting(&self, job: &str) {
        self.shared.update(|store| {
            store.change(&format!("/apis/batch/v1/namespaces/{NAMESPACE}/jobs/{job}"), |job| {
                job["metadata"]["deletionTimestamp"] = json!(server::now());
            });
        });
    }

    /// The Job that is being deleted goes with its pods; what else it owned stays, as the collector
    /// of what nobody owns has much to do.
    pub(crate) fn end_deleting(&self, job: &str) {
        self.shared.update(|store| store.collects = false);
        kubelet::end_pods(
            &self.shared,
            &format!("/apis/batch/v1/namespaces/{NAMESPACE}/jobs/{job}"),
        );
    }

    /// The Job is gone, and there is another one of its name.
    pub(crate) fn replace(&self, job: &str) {
        let path = format!("/apis/batch/v1/namespaces/{NAMESPACE}/jobs/{job}");
        self.shared.update(|store| {
            let mut other = store.get(&path).unwrap().clone();
            store.remove(&path);
            other["metadata"]["uid"] = json!("another");
            other["status"] = json!({
                "conditions": [{"type": "Complete", "status": "True", "reason": "CompletionsReached"}],
                "succeeded": 1,
            });
            store.put(&path, other);
        });
    }

    /// The Job's deadline comes before its pod has a node: the controller removes it.
    pub(crate) fn end_before_it_began(&self) {
        kubelet::pass_deadline(&self.shared);
    }

    /// Pods that have ended stay, as they do until their Job goes.
    pub(crate) fn keeps_pods(&self) {
        self.shared.update(|store| store.keeps_pods = true);
    }

    /// The pod's node says nothing any more.
    pub(crate) fn lose_sight_of_node(&self) {
        kubelet::lose_sight(&self.shared);
    }

    /// The Job's deadline has come; the time that its pod had to end was over so long ago, and nobody
    /// on its node ends it.
    pub(crate) fn pass_deadline_in_vain(&self, ago: std::time::Duration) {
        let over = k8s_openapi::jiff::Timestamp::now() - ago;
        kubelet::pass_deadline_in_vain(&self.shared, over);
    }

    /// Has the namespace have this object, of which nobody looks at more than its name.
    pub(crate) fn keep(&self, plural: &str, name: &str) {
        let path = format!("/api/v1/namespaces/{NAMESPACE}/{plural}/{name}");
        self.shared.update(|store| {
            store.put(&path, json!({"metadata": {"name": name, "namespace": NAMESPACE}}))
        });
    }

    /// The names of all objects of this kind.
    pub(crate) fn names(&self, plural: &str) -> Vec<String> {
        let store = self.shared.store.lock().unwrap();
        let name = |object: &Value| object["metadata"]["name"].as_str().unwrap().to_owned();
        store.of(plural).map(name).collect()
    }

    /// How many objects there are, of all kinds but events.
    pub(crate) fn objects(&self) -> usize {
        let store = self.shared.store.lock().unwrap();
        ["jobs", "pods", "secrets", "networkpolicies"]
            .iter()
            .map(|kind| store.of(kind).count())
            .sum()
    }
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        self.server.abort();
        container::kill_all(&self.shared);
    }
}
