//! Requests for objects of any kind, against an API server that answers as it is told.

use std::convert::Infallible;
use std::sync::Arc;

use kube::Client;
use kube::client::Body;
use serde_json::json;

use super::*;

const RUN: NativeObject<'_> = NativeObject {
    api_version: "tekton.dev/v1",
    kind: "PipelineRun",
    namespace: Some("ci"),
    name: "web-1",
};

/// An API server that has two kinds, and gives this answer to all other requests.
struct Answering {
    objects: NativeObjects,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Answering {
    fn new(code: u16, body: &Value) -> Self {
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (log, body) = (Arc::clone(&requests), body.clone());
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let path = request.uri().path().to_owned();
            log.lock().unwrap().push(format!("{} {path}", request.method()));
            let (code, body) = match &*path {
                "/apis/tekton.dev/v1" => {
                    (200, kinds("tekton.dev/v1", "PipelineRun", "pipelineruns", true))
                }
                "/api/v1" => (200, kinds("v1", "Node", "nodes", false)),
                "/apis/argoproj.io/v1alpha1" => (404, status(404, "NotFound", "page not found")),
                _ => (code, body.clone()),
            };
            async move {
                let response = http::Response::builder().status(code);
                let body = Body::from(body.to_string().into_bytes());
                Ok::<_, Infallible>(response.body(body).unwrap())
            }
        });
        let client = Client::new(service, "runs");
        let cluster = Cluster::from_client(client, "https://server".into(), "runs".into());
        Self { objects: NativeObjects::new(cluster), requests }
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

fn kinds(version: &str, kind: &str, plural: &str, namespaced: bool) -> Value {
    json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": [{
        "name": plural, "singularName": "", "kind": kind, "namespaced": namespaced,
        "verbs": ["create", "get", "list", "watch"],
    }]})
}

fn status(code: u16, reason: &str, message: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
        "code": code, "reason": reason, "message": message,
    })
}

/// The answer about an object that does not exist.
fn not_found(name: &str) -> Value {
    let mut status = status(404, "NotFound", &format!("\"{name}\" not found"));
    status["details"] = json!({"name": name});
    status
}

fn object() -> Value {
    json!({
        "apiVersion": RUN.api_version, "kind": RUN.kind,
        "metadata": {"name": RUN.name, "namespace": "ci"},
        "spec": {"pipelineRef": {"name": "build"}},
    })
}

#[tokio::test]
async fn object_is_read_under_the_plural_of_its_kind_which_is_looked_up_once() {
    let mut stored = object();
    stored["metadata"]["managedFields"] = json!([{"manager": "tekton"}]);
    let cluster = Answering::new(200, &stored);
    for _ in 0..2 {
        assert_eq!(cluster.objects.read(RUN).await, Reading::Found(object()));
    }
    let read = "GET /apis/tekton.dev/v1/namespaces/ci/pipelineruns/web-1";
    assert_eq!(cluster.requests(), ["GET /apis/tekton.dev/v1", read, read]);
}

#[tokio::test]
async fn object_is_in_the_namespace_of_the_login_or_in_none() {
    let cluster = Answering::new(404, &not_found("web-1"));
    let here = NativeObject { namespace: None, ..RUN };
    assert_eq!(cluster.objects.read(here).await, Reading::Absent);
    let node = NativeObject { api_version: "v1", kind: "Node", namespace: None, name: "web-1" };
    assert_eq!(cluster.objects.read(node).await, Reading::Absent);
    let requests = cluster.requests();
    assert_eq!(requests[1], "GET /apis/tekton.dev/v1/namespaces/runs/pipelineruns/web-1");
    assert_eq!(requests[3], "GET /api/v1/nodes/web-1");
}

#[tokio::test]
async fn kind_that_the_cluster_does_not_have_is_named() {
    let cluster = Answering::new(200, &object());
    for (api_version, kind) in [("argoproj.io/v1alpha1", "Application"), ("v1", "Nod")] {
        let unknown = NativeObject { api_version, kind, ..RUN };
        let Reading::Denied { why } = cluster.objects.read(unknown).await else {
            panic!("{kind} is known")
        };
        let expected = format!("the cluster has no kind `{kind}` in `{api_version}`; install it");
        assert!(why.starts_with(&expected), "{why}");
    }
}

#[tokio::test]
async fn object_is_absent_only_if_the_answer_names_it() {
    for (body, text) in [
        (not_found("ci"), "\"ci\" not found"),
        (
            json!("404 page not found"),
            "the cluster does not serve `PipelineRun` of `tekton.dev/v1` now",
        ),
    ] {
        let cluster = Answering::new(404, &body);
        for _ in 0..2 {
            assert_eq!(cluster.objects.read(RUN).await, Reading::Unknown { why: text.to_owned() });
        }
        // The path is looked up again if it is not served any more.
        let lookups =
            cluster.requests().iter().filter(|it| *it == "GET /apis/tekton.dev/v1").count();
        assert_eq!(lookups, if body.is_string() { 2 } else { 1 });
    }
    // It can be served again.
    let cluster = Answering::new(404, &json!("404 page not found"));
    assert!(matches!(cluster.objects.create(&object()).await, Creation::Unknown { .. }));
}

#[tokio::test]
async fn answer_to_a_creation_says_whether_a_repetition_can_help() {
    let refused = |why: &str| Creation::Refused { why: why.to_owned() };
    let unknown = |why: &str| Creation::Unknown { why: why.to_owned() };
    for (code, body, expected) in [
        (201, object(), Creation::Exists),
        (409, status(409, "AlreadyExists", "it exists"), Creation::Exists),
        (409, status(409, "Conflict", "being deleted"), unknown("being deleted (409)")),
        (422, status(422, "Invalid", "spec: Required"), refused("spec: Required")),
        (403, status(403, "Forbidden", "cannot create"), refused("cannot create")),
        (429, status(429, "TooManyRequests", "later"), unknown("later (429)")),
        (503, status(503, "ServiceUnavailable", "etcd is away"), unknown("etcd is away (503)")),
    ] {
        let cluster = Answering::new(code, &body);
        assert_eq!(cluster.objects.create(&object()).await, expected, "{code}");
        let post = "POST /apis/tekton.dev/v1/namespaces/ci/pipelineruns".to_owned();
        assert_eq!(cluster.requests().iter().filter(|it| **it == post).count(), 1, "{code}");
    }
}

/// Whether a person has to change something.
#[tokio::test]
async fn reading_that_is_refused_is_told_apart_from_one_that_is_possible_later() {
    let denied = |why: &str| Reading::Denied { why: why.to_owned() };
    let unknown = |why: &str| Reading::Unknown { why: why.to_owned() };
    for (code, body, expected) in [
        (403, status(403, "Forbidden", "cannot get"), denied("cannot get")),
        (401, status(401, "Unauthorized", "who?"), unknown("who? (401)")),
        (429, status(429, "TooManyRequests", "later"), unknown("later (429)")),
        (503, status(503, "ServiceUnavailable", "etcd is away"), unknown("etcd is away (503)")),
    ] {
        assert_eq!(Answering::new(code, &body).objects.read(RUN).await, expected, "{code}");
    }
    let list = json!({"kind": "PipelineRunList", "apiVersion": "tekton.dev/v1", "metadata": {}, "items": [object()]});
    let cluster = Answering::new(200, &list);
    let listed = cluster.objects.labelled(RUN, "tekton.dev/pipelineRun=web-1").await;
    assert_eq!(listed, Ok(vec![object()]));
    let cluster = Answering::new(403, &status(403, "Forbidden", "cannot list"));
    assert_eq!(cluster.objects.labelled(RUN, "a=b").await, Err("cannot list".to_owned()));
}
