//! Whether the server works, for those who watch it. These requests need no token, so answers
//! contain no details; the log has them.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::{Value, json};

use super::state::Shared;
use crate::store::Store;

/// How long the store may take.
const LIMIT: Duration = Duration::from_secs(5);

/// `GET /healthz`: the process answers.
pub(super) async fn healthz() -> &'static str {
    "ok"
}

/// `GET /readyz`: the store answers too.
pub(super) async fn readyz<S: Store>(State(state): State<Shared<S>>) -> (StatusCode, Json<Value>) {
    readiness(&*state.store, &state.isolation, LIMIT).await
}

async fn readiness<S: Store>(
    store: &S,
    isolation: &str,
    limit: Duration,
) -> (StatusCode, Json<Value>) {
    let problem = match tokio::time::timeout(limit, store.busy()).await {
        Ok(Ok(_)) => return (StatusCode::OK, Json(json!({"ok": true, "isolation": isolation}))),
        Ok(Err(error)) => butler_base::error::chain(&error),
        Err(_) => format!("the store did not answer within {limit:?}"),
    };
    tracing::error!("the server is not ready: {problem}");
    let body = json!({"ok": false, "isolation": isolation, "failed": "store"});
    (StatusCode::SERVICE_UNAVAILABLE, Json(body))
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;
    use crate::store::SqliteStore;

    #[tokio::test]
    async fn server_is_not_ready_while_the_store_does_not_answer() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store.sqlite");
        let store = SqliteStore::open(&path).unwrap();
        // Another connection holds the lock of the database.
        let other = Connection::open(&path).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        let (status, Json(body)) = readiness(&store, "landlock", Duration::from_millis(50)).await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(body, json!({"ok": false, "isolation": "landlock", "failed": "store"}));
        other.execute_batch("ROLLBACK").unwrap();
        let (status, Json(body)) = readiness(&store, "landlock", Duration::from_mins(1)).await;
        assert_eq!(status, StatusCode::OK);
        assert_eq!(body, json!({"ok": true, "isolation": "landlock"}));
    }
}
