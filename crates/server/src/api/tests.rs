//! The API against a store in memory.

pub(crate) mod breaker;
mod cancel;
mod conflicts;
mod errors;
mod events;
mod follower_jobs;
mod full;
mod layers;
mod logs;
mod metrics;
mod openapi;
mod origin;
mod policy;
mod runs;
mod state_locks;
mod streams;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Method, Request, StatusCode};
use butler_registry::TokenHash;
use serde_json::Value;
use tokio::sync::{Notify, mpsc, watch};
use tower::ServiceExt;

use super::*;
use crate::artifacts::unreliable::{Faults, Unreliable};
use crate::artifacts::{AttemptFiles, Bucket};
use crate::attempts::AttemptDirectory;
use crate::config::{Config, RemoteLimits, parse};
use crate::data::DataDirectory;
use crate::event::Event;
use crate::layers::LayerSource;
use crate::metrics::AttemptMetrics;
use crate::model::THIS_MACHINE;
use crate::model::{
    AttemptToken, Commit, Digest, Ending, LayerName, Moment, Revision, RunId, Sighting,
};
use crate::serve::{Desired, Leadership, Views};
use crate::store::{AttemptId, AttemptResult, MemoryStore, Note, Outcome, StartRequest, Store};

/// A server without processes.
pub(crate) struct Tested {
    pub(crate) state: Arc<ApiState<MemoryStore>>,
    router: Router,
    pub(crate) store: Arc<MemoryStore>,
    /// Milliseconds of the store's clock.
    pub(crate) clock: Arc<AtomicU64>,
    events: mpsc::UnboundedReceiver<Event>,
    due: Arc<Notify>,
    pub(crate) desired: Arc<Desired>,
    views: Arc<Views>,
    attempts: Arc<AttemptMetrics>,
    /// Makes another server decide.
    leads: watch::Sender<Leadership>,
    directory: tempfile::TempDir,
}

/// The token of an administrator who may change only layers that match `*a`.
pub(crate) const LIMITED: &str = "breg_limited";

/// The token of a role.
pub(crate) fn token(role: Role) -> String {
    format!("breg_{}", role.name())
}

/// A configuration with this layer `a`, and a layer `b`.
fn configuration(a: &str) -> Config {
    let text = format!(
        "repositories: {{infra: {{url: 'file:///infra'}}}}\nlayers:\n  a: {a}\n  b: {{repository: \
         infra, path: b, backend: {{type: s3, config: {{bucket: tf, key: b, region: eu-west-1}}}}}}"
    );
    parse(&[(PathBuf::from("butler.yaml"), text)]).unwrap()
}

pub(crate) async fn tested() -> Tested {
    tested_with(Hosts::new([127, 0, 0, 1].into())).await
}

pub(crate) async fn tested_with(hosts: Hosts) -> Tested {
    tested_by(hosts, None).await
}

/// With the users of `access`, or one of each role.
pub(crate) async fn tested_by(hosts: Hosts, access: Option<Access>) -> Tested {
    tested_as(hosts, access, None).await
}

/// With an object store that does not answer.
pub(crate) async fn tested_without_copies() -> Tested {
    let bucket = Bucket::of(Arc::new(Unreliable::new(Faults::Away)));
    tested_as(Hosts::new([127, 0, 0, 1].into()), None, Some(Arc::new(bucket))).await
}

async fn tested_as(hosts: Hosts, access: Option<Access>, bucket: Option<Arc<Bucket>>) -> Tested {
    let config = configuration("{repository: infra, path: a}");
    let clock = Arc::new(AtomicU64::new(1_000));
    let time = Arc::clone(&clock);
    let time = move || Moment::from_millis(time.load(Ordering::Relaxed));
    let store = Arc::new(MemoryStore::new(Arc::new(time)));
    let views = Arc::new(Views::default());
    let desired = Arc::new(Desired::new(config, RemoteLimits::default()));
    let layers: Vec<(LayerName, Arc<LayerSource>)> =
        desired.catalogs().borrow().layers.clone().into_iter().collect();
    let (commit, digest) = (Commit::new("c1"), Digest::new("d1"));
    let seen = Sighting::Found(Revision { commit, digest });
    let sightings: Vec<_> = layers.iter().map(|(name, _)| (name.clone(), seen.clone())).collect();
    assert_eq!(store.observe("infra", 0, &sightings, &[]).await.unwrap(), Outcome::Made);
    for (name, source) in &layers {
        views.look(&*store, name, Some(source)).await;
    }
    let directory = tempfile::tempdir().unwrap();
    let (sender, events) = mpsc::unbounded_channel();
    let users = Role::ALL.map(|role| User {
        name: role.name().to_owned(),
        role,
        layers: None,
        token: TokenHash::of(&token(role)),
    });
    let limited = User {
        name: "limited".to_owned(),
        role: Role::Administrator,
        layers: Some(Layers::new(["*a"]).unwrap()),
        token: TokenHash::of(LIMITED),
    };
    let users = users.into_iter().chain([limited]).collect();
    let due = desired.due("infra");
    let attempts = Arc::new(AttemptMetrics::after(0));
    let (leads, leadership) = watch::channel(Leadership::Decides(None));
    let state = ApiState {
        store: Arc::clone(&store),
        views: Arc::clone(&views),
        desired: Arc::clone(&desired),
        data: DataDirectory::create(directory.path()).unwrap(),
        files: Arc::new(AttemptFiles::new(
            directory.path().join("attempts"),
            THIS_MACHINE.to_owned(),
            bucket,
        )),
        disk: DiskLook::default(),
        plans: Rendered::default(),
        not_copied: Arc::default(),
        events: sender,
        access: access.unwrap_or_else(|| Access::new(users)),
        sign_ins: SignIns::default(),
        hosts,
        isolation: "landlock".to_owned(),
        leadership,
        attempts: Arc::clone(&attempts),
        poll_durations: Arc::default(),
        transactions: Arc::default(),
        log_watch: Arc::default(),
        followers: Arc::default(),
        follower_cluster: Arc::default(),
        deliveries: Arc::default(),
        notifications: Arc::default(),
        metrics_open: false,
    };
    let state = Arc::new(state);
    let others =
        Router::new().fallback(async |request: Request<Body>| unknown(request.uri().path()));
    let router = router(Arc::clone(&state), others);
    Tested { state, router, store, clock, events, due, desired, views, attempts, leads, directory }
}

impl Tested {
    async fn ask(
        &self,
        method: Method,
        path: &str,
        token: Option<&str>,
        key: Option<&str>,
    ) -> (StatusCode, Value) {
        let mut request = Request::builder().method(method).uri(format!("/api/v1{path}"));
        request = request.header("host", "localhost:7373");
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        let request = request.body(Body::empty()).unwrap();
        let answer = self.router.clone().oneshot(request).await.unwrap();
        let status = answer.status();
        let body = to_bytes(answer.into_body(), 1 << 20).await.unwrap();
        (status, serde_json::from_slice(&body).unwrap_or_default())
    }

    /// Starts the next attempt of a run of the layer `a`.
    pub(crate) async fn start(&self, run: &str, number: u32) -> AttemptId {
        self.start_of("a", run, number).await
    }

    /// Starts the next attempt of a run of a layer.
    pub(crate) async fn start_of(&self, layer: &str, run: &str, number: u32) -> AttemptId {
        let state_key = layer;
        let layer: LayerName = layer.parse().unwrap();
        let attempt = AttemptId { layer, run: RunId::new(run), number };
        let request = StartRequest {
            attempt: &attempt,
            state_key,
            after: &[],
            concurrency: 1,
            repository: "infra",
            repository_concurrency: None,
            timeout: Duration::from_hours(1),
            place: "here",
            token: &AttemptToken::random().unwrap().hash(),
            fence: None,
        };
        assert_eq!(self.store.start_attempt(request).await.unwrap(), Outcome::Made);
        assert_eq!(self.store.note(&attempt, Note::Heartbeat).await.unwrap(), Outcome::Made);
        attempt
    }

    /// Records the end of an attempt.
    pub(crate) async fn end(&self, attempt: &AttemptId, ending: Ending) {
        let result = AttemptResult::ended(ending);
        assert_eq!(self.store.finish(attempt, result).await.unwrap(), Outcome::Made);
    }

    /// The files of an attempt.
    pub(crate) fn files(&self, attempt: &AttemptId) -> AttemptDirectory {
        let data = DataDirectory::at(self.directory.path());
        AttemptDirectory::of(&data.attempts(), attempt)
    }

    /// Records what the repository contains for the layer `a`.
    async fn see(&self, sighting: Sighting) {
        self.see_of("a", sighting).await;
    }

    /// Records what the repository contains for a layer.
    pub(crate) async fn see_of(&self, layer: &str, sighting: Sighting) {
        let readings = self.store.readings("infra").await.unwrap();
        let seen = [(layer.parse().unwrap(), sighting)];
        assert_eq!(self.store.observe("infra", readings, &seen, &[]).await.unwrap(), Outcome::Made);
    }

    /// Records another commit of the layer `a`, with another digest.
    pub(crate) async fn push(&self, name: &str) {
        let (commit, digest) = (Commit::new(name), Digest::new(name));
        self.see(Sighting::Found(Revision { commit, digest })).await;
    }

    /// Asks for a plan of a layer. Returns the id of the run.
    pub(crate) async fn plan(&self, layer: &str) -> String {
        let path = format!("/layers/{layer}/plan");
        let (_, run) = self.ask(Method::POST, &path, Some(&token(Role::Operator)), None).await;
        run["id"].as_str().unwrap().to_owned()
    }

    async fn get(&self, path: &str) -> Value {
        let (status, body) = self.ask(Method::GET, path, Some(&token(Role::Viewer)), None).await;
        assert_eq!(status, StatusCode::OK, "{path}: {body}");
        body
    }
}

#[tokio::test]
async fn each_route_is_open_to_its_role_and_those_above_only() {
    let tested = tested().await;
    let runs = [tested.plan("a").await, tested.plan("b").await];
    for route in routes::<MemoryStore>() {
        let of = |layer: &str, run: &str| {
            let path = route.path.replace("{layer}", layer).replace("{run}", run);
            path.replace("{repository}", "infra")
        };
        let path = of("a", &runs[0]);
        let ask = async |token: Option<&str>| {
            tested.ask(route.method.clone(), &path, token, None).await.0
        };
        // The token of an attempt, no token, and an unknown one.
        for stranger in [None, Some("brce_viewer"), Some("breg_unknown"), Some("viewer")] {
            assert_eq!(ask(stranger).await, StatusCode::UNAUTHORIZED, "{route:?} {stranger:?}");
        }
        for role in Role::ALL {
            let status = ask(Some(&token(role))).await;
            let refused = status == StatusCode::FORBIDDEN;
            assert_eq!(refused, role < route.role, "{route:?} {role:?} {status}");
            assert_ne!(status, StatusCode::UNAUTHORIZED, "{route:?} {role:?}");
            assert!(!status.is_server_error(), "{route:?} {role:?} {status}");
        }
        // Another layer, no layer, and a layer of the user: reading is not limited.
        let has_layer = path != of("b", &runs[1]);
        for (path, is_own) in [(path, has_layer), (of("b", &runs[1]), false)] {
            let (status, body) = tested.ask(route.method.clone(), &path, Some(LIMITED), None).await;
            let refused = status == StatusCode::FORBIDDEN;
            assert_eq!(refused, route.method == Method::POST && !is_own, "{path} {body}");
        }
    }
}

#[tokio::test]
async fn name_of_a_layer_is_decoded_before_it_is_compared() {
    let tested = tested().await;
    for (path, expected) in [
        ("/layers/%61/pause", StatusCode::OK),
        ("/layers/%62/pause", StatusCode::FORBIDDEN),
        ("/layers/b%2Fa/pause", StatusCode::NOT_FOUND),
    ] {
        let (status, body) = tested.ask(Method::POST, path, Some(LIMITED), None).await;
        assert_eq!(status, expected, "{path}: {body}");
    }
}

#[tokio::test]
async fn server_says_without_a_token_how_it_is() {
    let tested = tested().await;
    let ask = async |path: &str, host: &str| {
        let request = Request::builder().uri(path).header("host", host);
        let request = request.body(Body::empty()).unwrap();
        let answer = tested.router.clone().oneshot(request).await.unwrap();
        let status = answer.status();
        let body = to_bytes(answer.into_body(), 1 << 20).await.unwrap();
        (status, String::from_utf8(body.to_vec()).unwrap())
    };
    assert_eq!(ask("/healthz", "localhost").await, (StatusCode::OK, "ok".to_owned()));
    let (status, ready) = ask("/readyz", "127.0.0.1:7373").await;
    assert_eq!(status, StatusCode::OK);
    let ready: Value = serde_json::from_str(&ready).unwrap();
    assert_eq!(ready, serde_json::json!({"ok": true, "isolation": "landlock"}));
    for path in
        ["/healthz", "/readyz", "/metrics", "/api/v1/layers", "/api/v1/openapi.json", "/none"]
    {
        let (status, error) = ask(path, "evil.test").await;
        assert_eq!(status, StatusCode::MISDIRECTED_REQUEST, "{path}");
        let error: Value = serde_json::from_str(&error).unwrap();
        assert_eq!(error["error"]["message"], "`evil.test` is not a name of this server");
        assert!(error["error"]["hint"].as_str().unwrap().contains("--allowed-host"), "{error}");
    }
}
