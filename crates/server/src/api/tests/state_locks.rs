//! The removal of locks of Terraform.

use butler_protocol::backend::{Holder, StateLock};

use super::*;
use crate::model::FailureClass;

/// Ends an attempt because of this lock.
async fn find_lock(tested: &Tested, attempt: &AttemptId, id: &str) {
    let holder = Holder {
        who: "alice@host".to_owned(),
        operation: "OperationTypeApply".to_owned(),
        created: "2026-01-01".to_owned(),
    };
    let lock = Some(StateLock { id: Some(id.to_owned()), holder: Some(holder) });
    let ended = AttemptResult::ended(Ending::Failed(FailureClass::Lock));
    let result = AttemptResult { lock, ..ended };
    assert_eq!(tested.store.finish(attempt, result).await.unwrap(), Outcome::Made);
}

async fn unlock(tested: &Tested, query: &str, key: Option<&str>) -> (StatusCode, Value) {
    let path = format!("/layers/a/unlock?{query}");
    tested.ask(Method::POST, &path, Some(&token(Role::Administrator)), key).await
}

fn message(body: &Value) -> &str {
    body["error"]["message"].as_str().unwrap()
}

#[tokio::test]
async fn reported_lock_is_shown_and_a_request_with_one_key_makes_one_run_that_removes_it() {
    let mut tested = tested().await;
    let run = tested.plan("a").await;
    let attempt = tested.start(&run, 1).await;
    find_lock(&tested, &attempt, "1-2").await;
    let shown = serde_json::json!({
        "id": "1-2", "who": "alice@host", "operation": "OperationTypeApply", "created": "2026-01-01",
    });
    let view = tested.get(&format!("/runs/{run}")).await;
    assert_eq!(view["attempts"][0]["stateLock"], shown, "{view}");
    let (name, source) = {
        let catalog = tested.desired.catalogs().borrow().clone();
        let (name, source) = catalog.layers.iter().find(|(name, _)| name.as_str() == "a").unwrap();
        (name.clone(), source.clone())
    };
    tested.views.look(&*tested.store, &name, Some(&source)).await;
    let layer = tested.get("/layers/a").await;
    assert_eq!(layer["stateLock"], shown, "{layer}");
    let reasons = layer["reasons"].to_string();
    assert!(reasons.contains("the state is locked by alice@host since 2026-01-01"), "{reasons}");
    assert!(reasons.contains("`butler-runner layer unlock a --state-lock 1-2`"), "{reasons}");

    while tested.events.try_recv().is_ok() {}
    let (status, made) = unlock(&tested, "stateLock=1-2", Some("k")).await;
    assert_eq!(status, StatusCode::OK, "{made}");
    let (id, cause) = (&made["run"]["id"], &made["run"]["cause"]);
    assert_eq!((cause, &made["lost"]), (&"unlock".into(), &Value::Null), "{made}");
    assert!(matches!(tested.events.try_recv(), Ok(Event::Changed(_))));
    // The request is repeated while the run waits, while it runs, and after it has ended.
    let again = async || {
        let (status, again) = unlock(&tested, "stateLock=1-2", Some("k")).await;
        assert_eq!((status, &again["run"]["id"]), (StatusCode::OK, id), "{again}");
    };
    again().await;
    let attempt = tested.start(id.as_str().unwrap(), 1).await;
    again().await;
    tested.end(&attempt, Ending::Failed(FailureClass::Network)).await;
    again().await;
    assert_eq!(tested.store.runs(&name).len(), 2);
}

#[tokio::test]
async fn removal_of_a_lock_is_refused_unless_it_was_reported_last_and_nothing_runs() {
    let tested = tested().await;
    let refused = async |query: &str, expected: StatusCode, part: &str| {
        let (status, body) = unlock(&tested, query, None).await;
        assert_eq!(status, expected, "{body}");
        assert!(message(&body).contains(part), "{body}");
    };
    let conflict = StatusCode::CONFLICT;
    refused("stateLock=1-2", conflict, "no run of `a` has reported a lock").await;
    let run = tested.plan("a").await;
    let attempt = tested.start(&run, 1).await;
    refused("stateLock=1-2", conflict, &format!("attempt 1 of run {run} uses the state")).await;
    find_lock(&tested, &attempt, "1-2").await;
    refused("stateLock=2-3", conflict, "another lock than `2-3`: the state is locked by alice")
        .await;
    let attempt = tested.start(&run, 2).await;
    find_lock(&tested, &attempt, "2-3").await;
    refused("stateLock=1-2", conflict, "another lock than `1-2`").await;
    for query in
        ["stateLock=-lock%3Dfalse", "stateLock=", "stateLock=a%20b", "stateLock=2-3&force=true"]
    {
        refused(query, StatusCode::BAD_REQUEST, "stateLock").await;
    }
    tested.store.pause(&"a".parse().unwrap(), Some("ana")).await.unwrap();
    refused("stateLock=2-3", conflict, "paused by ana").await;
    tested.store.pause(&"a".parse().unwrap(), None).await.unwrap();
    assert_eq!(tested.store.runs(&"a".parse().unwrap()).len(), 1);
    let (status, body) = unlock(&tested, "stateLock=2-3", None).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    // The lock was reported by a plan that does not destroy.
    let runs = tested.store.runs(&"a".parse().unwrap());
    assert_eq!((runs.len(), runs[1].destroys), (2, false));
}
