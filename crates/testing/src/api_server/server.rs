//! The requests: create, get, list, watch, delete, and the log of a pod.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::stream;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::object::{is_selected, now, status};
use super::shared::{FaultEffect, Shared, TOKEN};
use super::store::Store;
use super::watching::watched;
use super::{discovery, kubelet};

pub(super) fn router(shared: Arc<Shared>) -> Router {
    let answer = move |method: Method, uri: Uri, headers: HeaderMap, body: Bytes| {
        let shared = Arc::clone(&shared);
        async move {
            shared.gather(&method, uri.path()).await;
            answer(&shared, &method, &uri, &headers, &body)
        }
    };
    Router::new().fallback(answer)
}

fn answer(
    shared: &Arc<Shared>,
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
    body: &Bytes,
) -> Response {
    let query: BTreeMap<String, String> =
        url::form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes())
            .into_owned()
            .collect();
    shared.requests.lock().unwrap().push(format!("{method} {uri}"));
    let login = format!("Bearer {TOKEN}");
    let is_known = headers.get(header::AUTHORIZATION).is_some_and(|given| *given == *login);
    if !shared.by_certificate && !is_known {
        return failure(401, "Unauthorized", "Unauthorized");
    }
    let is_watch = query.contains_key("watch");
    let broken = shared.broken(method, uri.path(), is_watch);
    match &broken {
        Some(FaultEffect::Status(code, reason, message)) => return failure(*code, reason, message),
        Some(FaultEffect::Later) => {
            let answer =
                failure(429, "TooManyRequests", "the server has received too many requests");
            return ([(header::RETRY_AFTER, "1")], answer).into_response();
        }
        _ => {}
    }
    let path = uri.path();
    let answer = if let Some(pod) = path.strip_suffix("/log") {
        log(shared, pod, &query, broken.as_ref())
    } else if is_watch {
        watched(shared, path, &query, matches!(broken, Some(FaultEffect::Gone)))
    } else {
        match method.as_str() {
            "POST" => create(shared, path, body, &query),
            "GET" => read(shared, path, &query),
            "PATCH" if headers[header::CONTENT_TYPE] == "application/merge-patch+json" => {
                merge_status(shared, path, body)
            }
            "PATCH" => apply(shared, path, body, &query),
            "DELETE" => delete(shared, path, body),
            _ => failure(405, "MethodNotAllowed", "the server does not allow this method"),
        }
    };
    match broken {
        Some(FaultEffect::AnswerLost) => {
            failure(500, "InternalError", "etcdserver: leader changed")
        }
        _ => answer,
    }
}

fn create(
    shared: &Arc<Shared>,
    collection: &str,
    body: &Bytes,
    query: &BTreeMap<String, String>,
) -> Response {
    let mut object: Value = serde_json::from_slice(body).unwrap();
    if let Some(prefix) = object["metadata"]["generateName"].as_str() {
        object["metadata"]["name"] = json!(format!("{prefix}{:05x}", fastrand::u32(..0x10_0000)));
    }
    let name = object["metadata"]["name"].as_str().unwrap().to_owned();
    let path = format!("{collection}/{name}");
    if shared.store.lock().unwrap().get(&path).is_some() {
        let plural = collection.rsplit('/').next().unwrap();
        let message = format!("{plural} \"{name}\" already exists");
        return failure(409, "AlreadyExists", &message);
    }
    if collection.ends_with("/pods")
        && let Some(refusal) = admit(&shared.store.lock().unwrap(), collection, &object)
    {
        return failure(403, "Forbidden", &refusal);
    }
    object["metadata"]["uid"] = json!(format!("{:032x}", fastrand::u128(..)));
    object["metadata"]["creationTimestamp"] = json!(now());
    if query.contains_key("dryRun") {
        return created(&object);
    }
    let object = shared.update(|store| store.put(&path, object));
    // Jobs of followers are ended by the tests.
    if collection.ends_with("/jobs") && kubelet::is_of_runner(&object) {
        tokio::spawn(kubelet::run_job(Arc::clone(shared), path, object.clone()));
    }
    created(&object)
}

/// A server-side apply of a whole object. The real one also keeps what others have set.
fn apply(
    shared: &Arc<Shared>,
    path: &str,
    body: &Bytes,
    query: &BTreeMap<String, String>,
) -> Response {
    assert!(query.contains_key("fieldManager"), "{query:?}");
    let mut object: Value = serde_json::from_slice(body).unwrap();
    if let Some(Value::Object(texts)) = object.as_object_mut().unwrap().remove("stringData") {
        for (key, text) in texts {
            object["data"][key] = json!(STANDARD.encode(text.as_str().unwrap()));
        }
    }
    let known = shared.store.lock().unwrap().get(path).cloned();
    object["metadata"]["generation"] = json!(1);
    object["metadata"]["uid"] = json!(format!("{:032x}", fastrand::u128(..)));
    if let Some(known) = &known {
        object["metadata"]["uid"] = known["metadata"]["uid"].clone();
        object["status"] = known["status"].clone();
    }
    if query.contains_key("dryRun") {
        return found(&object);
    }
    found(&shared.update(|store| store.put(path, object)))
}

/// A merge patch of the status of a custom resource, which names the version that it changes.
fn merge_status(shared: &Arc<Shared>, path: &str, body: &Bytes) -> Response {
    let change: Value = serde_json::from_slice(body).unwrap();
    let path = path.strip_suffix("/status").expect("only the status is changed");
    let Some(mut object) = shared.store.lock().unwrap().get(path).cloned() else {
        return failure(404, "NotFound", "not found");
    };
    if change["metadata"]["resourceVersion"] != object["metadata"]["resourceVersion"] {
        shared.conflicts.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        let message = "the object has been modified; please apply your changes to the latest version and try again";
        return failure(409, "Conflict", message);
    }
    merge(&mut object["status"], &change["status"]);
    found(&shared.update(|store| store.put(path, object)))
}

/// RFC 7396.
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(members) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (name, value) in members {
        if value.is_null() {
            target.as_object_mut().unwrap().remove(name);
        } else {
            merge(&mut target[name.as_str()], value);
        }
    }
}

/// The reason why a pod is not admitted: its service account must exist.
fn admit(store: &Store, collection: &str, pod: &Value) -> Option<String> {
    let account = pod["spec"]["serviceAccountName"].as_str().filter(|name| *name != "default")?;
    let path = collection.replace("/pods", &format!("/serviceaccounts/{account}"));
    let name = pod["metadata"]["name"].as_str().unwrap();
    store.get(&path).is_none().then(|| {
        format!(
            "pods \"{name}\" is forbidden: error looking up service account runs/{account}: serviceaccount \"{account}\" not found"
        )
    })
}

fn read(shared: &Shared, path: &str, query: &BTreeMap<String, String>) -> Response {
    let store = shared.store.lock().unwrap();
    if let Some(object) = store.get(path) {
        return found(object);
    }
    let plural = path.rsplit('/').next();
    let kind = match plural {
        Some("jobs") => "JobList",
        Some("pods") => "PodList",
        Some("events") => "EventList",
        Some("repositories") => "RepositoryList",
        Some("layers") => "LayerList",
        Some("followers") => "FollowerList",
        Some("taskruns") => "TaskRunList",
        Some("roles") => "RoleList",
        Some("rolebindings") => "RoleBindingList",
        _ => {
            let mut parts = path.rsplit('/');
            let (name, plural) = (parts.next().unwrap(), parts.next().unwrap());
            if let Some(kinds) = discovery::kinds(path) {
                return found(&kinds);
            }
            if !discovery::is_served(path) {
                return (StatusCode::NOT_FOUND, "404 page not found\n").into_response();
            }
            let mut status = status(404, "NotFound", &format!("{plural} \"{name}\" not found"));
            status["details"] = json!({"name": name, "kind": plural});
            return (StatusCode::NOT_FOUND, found(&status)).into_response();
        }
    };
    // Without a namespace, those of all namespaces.
    let collection = if path.contains("/namespaces/") { path } else { plural.unwrap() };
    let items: Vec<_> = store.of(collection).filter(|object| is_selected(object, query)).collect();
    found(&json!({
        "apiVersion": "v1", "kind": kind, "items": items,
        "metadata": {"resourceVersion": store.version.to_string()},
    }))
}

fn delete(shared: &Arc<Shared>, path: &str, body: &Bytes) -> Response {
    let options: Value = serde_json::from_slice(body).unwrap_or_default();
    let Some(object) = shared.store.lock().unwrap().get(path).cloned() else {
        return failure(404, "NotFound", "not found");
    };
    assert_eq!(options["preconditions"]["uid"], object["metadata"]["uid"], "this one and no other");
    if !path.contains("/jobs/") {
        shared.update(|store| store.remove(path));
        return found(&object);
    }
    assert_eq!(options["propagationPolicy"], "Foreground", "its pods go first");
    shared.update(|store| {
        store.change(path, |job| job["metadata"]["deletionTimestamp"] = json!(now()));
    });
    kubelet::end_pods(shared, path);
    found(&shared.store.lock().unwrap().get(path).cloned().unwrap_or(object))
}

fn log(
    shared: &Arc<Shared>,
    pod: &str,
    query: &BTreeMap<String, String>,
    broken: Option<&FaultEffect>,
) -> Response {
    let other = shared
        .store
        .lock()
        .unwrap()
        .get(pod)
        .and_then(|pod| pod["test/log"].as_str().map(str::to_owned));
    if let Some(text) = other {
        return text.into_response();
    }
    assert_eq!(query.get("container").map(String::as_str), Some("runner"));
    assert!(query.contains_key("timestamps"), "lines are told apart by their times");
    let name = pod.rsplit('/').next().unwrap().to_owned();
    if shared.store.lock().unwrap().get(pod).is_none() {
        return failure(404, "NotFound", &format!("pods \"{name}\" not found"));
    }
    if !shared.store.lock().unwrap().logs.contains_key(&name) {
        let message = format!("container \"runner\" in pod \"{name}\" is waiting to start");
        return failure(400, "BadRequest", &message);
    }
    let follows = query.get("follow").is_some_and(|follow| follow == "true");
    let since: Option<Timestamp> = query.get("sinceTime").map(|time| time.parse().unwrap());
    let left = match broken {
        Some(FaultEffect::LogAfter(lines)) => Some(*lines),
        Some(FaultEffect::Silence) => {
            return Body::from_stream(stream::pending::<Result<Bytes, std::io::Error>>())
                .into_response();
        }
        _ => None,
    };
    let changes = shared.changes.subscribe();
    let shared = Arc::clone(shared);
    let lines = stream::unfold((0, left, changes), move |(at, left, mut changes)| {
        let (shared, name) = (Arc::clone(&shared), name.clone());
        async move {
            if at == usize::MAX {
                return Some((Err(std::io::Error::other("broken")), (at, None, changes)));
            }
            loop {
                changes.mark_unchanged();
                let (line, is_complete) = {
                    let store = shared.store.lock().unwrap();
                    let log = store.logs.get(&name)?;
                    (log.lines.get(at).cloned(), log.is_complete)
                };
                let Some((time, text)) = line else {
                    if is_complete || !follows {
                        return None;
                    }
                    let _ = changes.changed().await;
                    continue;
                };
                if since.is_some_and(|since| time < since) {
                    return Some((Ok(String::new()), (at + 1, left, changes)));
                }
                let line = format!("{time} {text}\n");
                return Some(match left {
                    Some(0) => {
                        let half = line[..line.len() / 2].to_owned();
                        (Ok(half), (usize::MAX, None, changes))
                    }
                    left => (Ok(line), (at + 1, left.map(|left| left - 1), changes)),
                });
            }
        }
    });
    Body::from_stream(lines).into_response()
}

fn found(object: &Value) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], object.to_string()).into_response()
}

fn created(object: &Value) -> Response {
    (StatusCode::CREATED, found(object)).into_response()
}

fn failure(code: u16, reason: &str, message: &str) -> Response {
    (StatusCode::from_u16(code).unwrap(), found(&status(code, reason, message))).into_response()
}
