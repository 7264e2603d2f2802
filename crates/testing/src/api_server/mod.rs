//! A stand-in for a Kubernetes cluster: an API server with the requests of the runner, and a
//! scheduler, a kubelet and a Job controller for one kind of Job.
//!
//! It has no real admission, quotas or validation, because no package registry has a real API
//! server. The formats of responses, watches and logs follow the Kubernetes API documentation. The
//! container is real: its command is started as a process with the pod's variables, and its volumes
//! are directories.

mod container;
mod discovery;
mod gate;
mod kubelet;
mod object;
mod server;
mod shared;
mod store;
mod watching;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub use gate::Gate;
pub use shared::{Fault, FaultEffect, NAMESPACE, PodCourse, TOKEN};

use super::authority::Authority;
use super::git_server::TlsListener;
use shared::{Gathering, Shared};

/// A running cluster. Everything that it started ends with it.
pub struct ApiServer {
    endpoint: String,
    authority: Authority,
    /// `None` while it is away.
    server: Mutex<Option<JoinHandle<()>>>,
    shared: Arc<Shared>,
}

impl ApiServer {
    /// A cluster whose node stores its volumes in `node`, and has these variables.
    pub async fn start(node: &Path, variables: &[(&str, &str)]) -> Self {
        Self::with(node, variables, false).await
    }

    /// A cluster that authenticates clients by certificates.
    pub async fn by_certificate(node: &Path) -> Self {
        Self::with(node, &[], true).await
    }

    async fn with(node: &Path, variables: &[(&str, &str)], by_certificate: bool) -> Self {
        let variables = variables.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        let shared = Arc::new(Shared {
            store: Mutex::default(),
            changes: watch::Sender::new(0),
            faults: Mutex::default(),
            gathering: Mutex::default(),
            watching: watch::Sender::default(),
            course: watch::Sender::new(PodCourse::Run),
            conflicts: AtomicUsize::new(0),
            requests: Mutex::default(),
            node: node.to_owned(),
            variables: variables.collect(),
            services: Mutex::default(),
            by_certificate,
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("https://{}", listener.local_addr().unwrap());
        let authority = Authority::create();
        let cluster = Self { endpoint, authority, server: Mutex::default(), shared };
        cluster.serve(listener);
        cluster
    }

    fn serve(&self, listener: TcpListener) {
        let acceptor = if self.shared.by_certificate {
            self.authority.mutual_acceptor()
        } else {
            self.authority.acceptor()
        };
        let listener = TlsListener { listener, acceptor };
        let router = server::router(Arc::clone(&self.shared));
        let server = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        *self.server.lock().unwrap() = Some(server);
    }

    /// Accepts no connection any more.
    pub async fn go_away(&self) {
        let server = self.server.lock().unwrap().take().unwrap();
        server.abort();
        // The port is free afterwards.
        let _ = server.await;
    }

    /// Accepts connections again, at the same address.
    pub async fn come_back(&self) {
        self.serve(TcpListener::bind(self.address()).await.unwrap());
    }

    /// A kubeconfig with this user, and with these fields in the cluster's entry.
    pub fn kubeconfig_of(&self, user: &Value, cluster: &[(&str, &str)]) -> String {
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

    /// A kubeconfig with the token.
    pub fn kubeconfig(&self) -> String {
        self.kubeconfig_of(&json!({"token": TOKEN}), &[])
    }

    /// A kubeconfig with a client certificate.
    pub fn kubeconfig_with_certificate(&self) -> String {
        let (certificate, key) = self.authority.client("somebody");
        let user = json!({
            "client-certificate-data": STANDARD.encode(certificate),
            "client-key-data": STANDARD.encode(key),
        });
        self.kubeconfig_of(&user, &[])
    }

    /// Its address, `127.0.0.1:PORT`.
    pub fn address(&self) -> &str {
        self.endpoint.trim_start_matches("https://")
    }

    /// The certificate of its authority.
    pub fn certificate(&self) -> PathBuf {
        self.authority.bundle()
    }

    /// Pods reach the Service at `address` (`https://NAME.NAMESPACE.svc:PORT`) at `place`, which the DNS and the network
    /// of a cluster would do.
    pub fn serve_at(&self, address: &str, place: &str) {
        let service = (address.to_owned(), place.to_owned());
        self.shared.services.lock().unwrap().push(service);
    }

    /// Makes the next such request fail.
    pub fn fault(&self, method: &'static str, path: &'static str, what: FaultEffect) {
        self.faults(method, path, what, 1);
    }

    /// Makes the next such requests fail, `times` of them.
    pub fn faults(
        &self,
        method: &'static str,
        path: &'static str,
        what: FaultEffect,
        times: usize,
    ) {
        self.shared.faults.lock().unwrap().push(Fault { method, path, what, times });
    }

    /// Requests of this method whose path ends with `path` are answered only when `number` of them wait at the same
    /// time. All later ones are answered at once.
    pub fn gather(&self, method: &'static str, path: &'static str, number: usize) {
        let waiting = watch::Sender::new(Some(0));
        let gathering = Gathering { method, path, number, waiting };
        *self.shared.gathering.lock().unwrap() = Some(Arc::new(gathering));
    }

    /// From now on, no request fails because of [`ApiServer::fault`].
    pub fn heal(&self) {
        self.shared.faults.lock().unwrap().clear();
    }

    /// From now on, watches send each event twice.
    pub fn repeat_events(&self) {
        self.shared.watching.send_modify(|watching| watching.repeats = true);
    }

    /// Whether watches send no events, because the cache of the API server is behind. Afterwards they send what
    /// they held.
    pub fn hold_events(&self, holds: bool) {
        self.shared.watching.send_modify(|watching| watching.holds = holds);
    }

    /// Tells all open watches the current version.
    pub fn bookmark(&self) {
        self.shared.watching.send_modify(|watching| watching.bookmarks += 1);
    }

    /// Ends all open watches in the middle of an event.
    pub fn break_watches(&self) {
        self.shared.watching.send_modify(|watching| watching.breaks += 1);
    }

    /// Watches cannot begin with an earlier version than the current one any more.
    pub fn forget_history(&self) {
        let mut store = self.shared.store.lock().unwrap();
        store.oldest = store.version;
        store.history.clear();
    }

    /// Sets the course of all pods, including the existing one.
    pub fn course(&self, course: PodCourse) {
        self.shared.course.send_replace(course);
    }

    /// The received requests.
    pub fn requests(&self) -> Vec<String> {
        self.shared.requests.lock().unwrap().clone()
    }

    /// The object of this kind, if there is exactly one.
    pub fn only(&self, plural: &str) -> Option<Value> {
        let store = self.shared.store.lock().unwrap();
        let mut found = store.of(plural);
        let only = found.next().cloned();
        assert!(found.next().is_none(), "there is more than one of {plural}");
        only
    }

    /// The directory of this volume of the only pod.
    pub fn volume(&self, name: &str) -> PathBuf {
        let pod = self.names("pods").remove(0);
        self.shared.node.join(pod).join(name)
    }

    /// The log lines of the only pod.
    pub fn log(&self) -> Vec<String> {
        let store = self.shared.store.lock().unwrap();
        let log = store.logs.values().next().unwrap();
        log.lines.iter().map(|(_, line)| line.clone()).collect()
    }

    /// Another user deletes the Job, whose pod needs time to end.
    pub fn begin_deleting(&self, job: &str) {
        self.shared.update(|store| {
            store.change(&format!("/apis/batch/v1/namespaces/{NAMESPACE}/jobs/{job}"), |job| {
                job["metadata"]["deletionTimestamp"] = json!(object::now());
            });
        });
    }

    /// The Job that is being deleted disappears with its pods. Its other objects remain, because
    /// the garbage collector is slow.
    pub fn end_deleting(&self, job: &str) {
        self.shared.update(|store| store.collects = false);
        kubelet::end_pods(
            &self.shared,
            &format!("/apis/batch/v1/namespaces/{NAMESPACE}/jobs/{job}"),
        );
    }

    /// The Job is deleted, and another one with its name is created.
    pub fn replace(&self, job: &str) {
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

    /// The Job's deadline passes before its pod has a node: the controller removes it.
    pub fn end_before_it_began(&self) {
        kubelet::pass_deadline(&self.shared);
    }

    /// Ended pods remain until their Job is deleted.
    pub fn keeps_pods(&self) {
        self.shared.update(|store| store.keeps_pods = true);
    }

    /// The pod's node stops reporting.
    pub fn lose_node(&self) {
        kubelet::mark_pod_of_lost_node(&self.shared);
    }

    /// The Job's deadline has passed and its pod's grace period is over since this time, but
    /// nothing on its node ends the pod.
    pub fn pass_deadline_without_pod_end(&self, ago: std::time::Duration) {
        let over = k8s_openapi::jiff::Timestamp::now() - ago;
        kubelet::pass_deadline_without_pod_end(&self.shared, over);
    }

    /// Creates this object in the namespace; only its name matters.
    pub fn keep(&self, plural: &str, name: &str) {
        let path = format!("/api/v1/namespaces/{NAMESPACE}/{plural}/{name}");
        self.shared.update(|store| {
            store.put(&path, json!({"metadata": {"name": name, "namespace": NAMESPACE}}))
        });
    }

    /// Creates an object, or replaces it.
    pub fn put(&self, path: &str, object: Value) {
        self.shared.update(|store| store.put(path, object));
    }

    /// A user creates a custom resource, or changes what it wants.
    pub fn custom(&self, plural: &str, namespace: &str, name: &str, spec: Value) {
        let path = custom_path(plural, namespace, name);
        self.shared.update(|store| {
            let known = store.get(&path).cloned();
            let generation = known.as_ref().map_or(0, |it| it["metadata"]["generation"].as_i64().unwrap());
            let mut object = known.unwrap_or_else(|| json!({
                "metadata": {
                    "name": name, "namespace": namespace, "uid": format!("{:032x}", fastrand::u128(..)),
                    "creationTimestamp": object::now(),
                },
            }));
            object["metadata"]["generation"] = json!(generation + 1);
            object["spec"] = spec;
            store.put(&path, object);
        });
    }

    /// A user changes a custom resource, but not what it wants: a label.
    pub fn touch(&self, plural: &str, namespace: &str, name: &str) {
        self.shared.update(|store| {
            store.change(&custom_path(plural, namespace, name), |object| {
                let label = format!("{:08x}", fastrand::u32(..));
                object["metadata"]["labels"] = json!({"touched": label});
            });
        });
    }

    /// A user deletes a custom resource.
    pub fn delete_custom(&self, plural: &str, namespace: &str, name: &str) {
        self.shared.update(|store| store.remove(&custom_path(plural, namespace, name)));
    }

    /// A custom resource.
    pub fn custom_object(&self, plural: &str, namespace: &str, name: &str) -> Value {
        let store = self.shared.store.lock().unwrap();
        store.get(&custom_path(plural, namespace, name)).cloned().unwrap_or_default()
    }

    /// How many changes named an earlier version of their object.
    pub fn conflicts(&self) -> usize {
        self.shared.conflicts.load(Ordering::SeqCst)
    }

    /// Creates a config map with one key.
    pub fn config_map(&self, name: &str, key: &str, value: &str) {
        let path = format!("/api/v1/namespaces/{NAMESPACE}/configmaps/{name}");
        let object = json!({
            "metadata": {"name": name, "namespace": NAMESPACE}, "data": {key: value},
        });
        self.shared.update(|store| store.put(&path, object));
    }

    /// All objects of this kind.
    pub fn all(&self, plural: &str) -> Vec<Value> {
        self.shared.store.lock().unwrap().of(plural).cloned().collect()
    }

    /// The names of all objects of this kind.
    pub fn names(&self, plural: &str) -> Vec<String> {
        let store = self.shared.store.lock().unwrap();
        let name = |object: &Value| object["metadata"]["name"].as_str().unwrap().to_owned();
        store.of(plural).map(name).collect()
    }

    /// The number of objects of all kinds except events.
    pub fn objects(&self) -> usize {
        let store = self.shared.store.lock().unwrap();
        ["jobs", "pods", "secrets", "networkpolicies"]
            .iter()
            .map(|kind| store.of(kind).count())
            .sum()
    }
}

fn custom_path(plural: &str, namespace: &str, name: &str) -> String {
    format!("/apis/runner.butlerlabs.dev/v1alpha1/namespaces/{namespace}/{plural}/{name}")
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        if let Some(server) = self.server.lock().unwrap().take() {
            server.abort();
        }
        container::kill_all(&self.shared);
    }
}
