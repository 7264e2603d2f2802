//! Watches: the events after a version, and what happens to them on their way.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::object::{is_selected, status};
use super::shared::{Shared, Watching};
use super::store::{Store, is_in};

/// The parts of a watch.
struct Watched {
    shared: Arc<Shared>,
    path: String,
    query: BTreeMap<String, String>,
    /// All events up to this version were sent.
    version: u64,
    end: Instant,
}

type Events = mpsc::Sender<io::Result<String>>;

/// The response to a watch.
pub(super) fn watched(
    shared: &Arc<Shared>,
    path: &str,
    query: &BTreeMap<String, String>,
    is_expired: bool,
) -> Response {
    let version: u64 = query["resourceVersion"].parse().unwrap();
    let oldest = shared.store.lock().unwrap().oldest;
    if is_expired || version < oldest {
        let text = format!("too old resource version: {version} ({oldest})");
        let object = status(410, "Expired", &text);
        return format!("{}\n", json!({"type": "ERROR", "object": object})).into_response();
    }
    let limit = Duration::from_secs(query["timeoutSeconds"].parse().unwrap());
    let watched = Watched {
        shared: Arc::clone(shared),
        path: path.to_owned(),
        query: query.clone(),
        version,
        end: Instant::now() + limit,
    };
    let (events, received) = mpsc::channel(1);
    tokio::spawn(watched.send(events));
    let body = stream::unfold(received, |mut received| async {
        received.recv().await.map(|event| (event, received))
    });
    let content = [(header::CONTENT_TYPE, "application/json;stream=watch")];
    (content, Body::from_stream(body)).into_response()
}

impl Watched {
    /// Sends events until the time is over, the client has gone, or the watch breaks.
    async fn send(mut self, events: Events) {
        let (mut changes, mut watching) =
            (self.shared.changes.subscribe(), self.shared.watching.subscribe());
        let mut before = *watching.borrow_and_update();
        loop {
            changes.mark_unchanged();
            let now = *watching.borrow_and_update();
            let has_bookmark = now.bookmarks > before.bookmarks;
            // A watch that breaks does not send what has just happened.
            let breaks = now.breaks > before.breaks;
            let due =
                if breaks && !has_bookmark { Vec::new() } else { self.next(&now, has_bookmark) };
            for event in due {
                let times = if now.repeats { 2 } else { 1 };
                for _ in 0..times {
                    if events.send(Ok(format!("{event}\n"))).await.is_err() {
                        return;
                    }
                }
            }
            if breaks {
                let _ = events.send(Ok(r#"{"type": "MODI"#.to_owned())).await;
                let _ = events.send(Err(io::Error::other("broken"))).await;
                return;
            }
            before = now;
            tokio::select! {
                _ = changes.changed() => {}
                _ = watching.changed() => {}
                () = events.closed() => return,
                () = tokio::time::sleep_until(self.end) => return,
            }
        }
    }

    /// The events that are due, in their order, and a bookmark.
    fn next(&mut self, watching: &Watching, has_bookmark: bool) -> Vec<Value> {
        if watching.holds {
            return Vec::new();
        }
        let store = self.shared.store.lock().unwrap();
        let later = store.history.iter().filter(|change| {
            change.version > self.version
                && is_in(&change.path, &self.path)
                && is_selected(&change.object, &self.query)
        });
        let mut events: Vec<Value> =
            later.map(|change| json!({"type": change.what, "object": change.object})).collect();
        self.version = store.version;
        if has_bookmark && self.query.get("allowWatchBookmarks").is_some_and(|it| it == "true") {
            events.push(bookmark(&store, &self.path));
        }
        events
    }
}

/// An object of which only the kind and the version count.
fn bookmark(store: &Store, path: &str) -> Value {
    let (version, kind) = if path.ends_with("/jobs") { ("batch/v1", "Job") } else { ("v1", "Pod") };
    let object = json!({
        "apiVersion": version, "kind": kind,
        "metadata": {"resourceVersion": store.version.to_string(), "creationTimestamp": null},
    });
    json!({"type": "BOOKMARK", "object": object})
}
