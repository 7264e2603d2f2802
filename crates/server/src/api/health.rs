//! Whether the server works, for those who watch it. These requests need no token, so answers
//! contain no details; the log has them.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::{Value, json};

use super::state::Shared;
use crate::store::{Store, StoreError};

/// How long the store and the disk may take.
const LIMIT: Duration = Duration::from_secs(5);

/// `GET /healthz`: the process answers.
pub(super) async fn healthz() -> &'static str {
    "ok"
}

/// `GET /readyz`: the store answers too, and the disk of the data directory can be written. A part that fails for itself
/// is named, and the server is ready all the same.
pub(super) async fn readyz<S: Store>(State(state): State<Shared<S>>) -> (StatusCode, Json<Value>) {
    let disk = state.disk.look(state.data.root());
    let (status, mut body) = readiness(&*state.store, disk, &state.isolation, LIMIT).await;
    // The server works for all that does not need this part.
    if status.is_success()
        && let Some(part) = state.desired.ailing.first()
    {
        body["failed"] = part.as_str().into();
    }
    (status, body)
}

async fn readiness<S: Store>(
    store: &S,
    disk: impl Future<Output = Result<(), String>>,
    isolation: &str,
    limit: Duration,
) -> (StatusCode, Json<Value>) {
    let late = |what: &str| format!("{what} did not answer within {limit:?}");
    let store = match tokio::time::timeout(limit, store.busy()).await {
        Ok(Ok(_)) => None,
        Ok(Err(error @ StoreError::Full(_))) => Some(("disk", error.to_string())),
        Ok(Err(error)) => Some(("store", butler_base::error::chain(&error))),
        Err(_) => Some(("store", late("the store"))),
    };
    let problem = match store {
        Some(problem) => Some(problem),
        None => match tokio::time::timeout(limit, disk).await {
            Ok(found) => found.err().map(|why| ("disk", why)),
            Err(_) => Some(("disk", late("the disk of the data directory"))),
        },
    };
    let Some((failed, why)) = problem else {
        return (StatusCode::OK, Json(json!({"ok": true, "isolation": isolation})));
    };
    tracing::error!("the server is not ready: {why}");
    let body = json!({"ok": false, "isolation": isolation, "failed": failed});
    (StatusCode::SERVICE_UNAVAILABLE, Json(body))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use rusqlite::Connection;

    use super::super::disk::DiskLook;
    use super::*;
    use crate::store::SqliteStore;

    #[tokio::test]
    async fn server_is_not_ready_while_the_store_does_not_answer() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store.sqlite");
        let store = SqliteStore::open(&path).unwrap();
        let disk = || std::future::ready(Ok(()));
        // Another connection holds the lock of the database.
        let other = Connection::open(&path).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        let (status, Json(body)) =
            readiness(&store, disk(), "landlock", Duration::from_millis(50)).await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(body, json!({"ok": false, "isolation": "landlock", "failed": "store"}));
        other.execute_batch("ROLLBACK").unwrap();
        let (status, Json(body)) =
            readiness(&store, disk(), "landlock", Duration::from_mins(1)).await;
        assert_eq!(status, StatusCode::OK);
        assert_eq!(body, json!({"ok": true, "isolation": "landlock"}));
    }

    #[tokio::test]
    async fn server_is_not_ready_while_nothing_can_be_written() {
        let directory = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(&directory.path().join("store.sqlite")).unwrap();
        let limit = Duration::from_mins(1);
        let ready = async |look: &DiskLook, path: &Path| {
            let (status, Json(body)) = readiness(&store, look.look(path), "none", limit).await;
            (status.as_u16(), body["failed"].clone())
        };
        let look = DiskLook::default();
        assert_eq!(ready(&look, directory.path()).await, (200, Value::Null));
        // Each request would write otherwise.
        let missing = directory.path().join("missing");
        assert_eq!(ready(&look, &missing).await, (200, Value::Null));
        assert_eq!(ready(&DiskLook::default(), &missing).await, (503, "disk".into()));
    }
}
