//! What attempts report, on a store in memory.

use std::sync::atomic::{AtomicU64, Ordering};

use axum::http::{Request, StatusCode};
use secrecy::ExposeSecret;
use tower::ServiceExt;

use super::*;
use crate::artifacts::Bucket;
use crate::artifacts::unreliable::{Faults, Unreliable};
use crate::attempts::LogPosition;
use crate::model::{
    Action, AttemptToken, Cause, Commit, Digest, Moment, NewRun, Revision, Sighting, StopReason,
};
use crate::plans::PlanKeys;
use crate::store::{MemoryStore, StartRequest};
use crate::test_attempts::{end, start};

/// A registry on a store with a plan that runs, and the id of its attempt.
async fn with_attempt(
    data: &DataDirectory,
) -> (StoreRegistry<MemoryStore>, AttemptId, AttemptToken) {
    let store = MemoryStore::new(Arc::new(Moment::default));
    let layer: LayerName = "a".parse().unwrap();
    let revision = Revision { commit: Commit::new("c"), digest: Digest::new("d") };
    let seen = [(layer.clone(), Sighting::Found(revision.clone()))];
    assert_eq!(store.observe("infra", 0, &seen, &[]).await.unwrap(), Outcome::Made);
    let (action, cause, change) = (Action::Plan, Cause::Commit { change: 1 }, 1);
    let run = RunId::derived(&layer, &revision.digest, action, &cause);
    let new = NewRun { id: run.clone(), action, cause, revision, change, destroys: false };
    assert_eq!(store.insert_run(&layer, new).await.unwrap(), Outcome::Made);
    let id = AttemptId { layer, run, number: 1 };
    let token = AttemptToken::random().unwrap();
    let request = StartRequest {
        attempt: &id,
        state_key: "key",
        after: &[],
        concurrency: 1,
        repository: "infra",
        repository_concurrency: None,
        timeout: Duration::from_hours(1),
        place: "here",
        token: &token.hash(),
        fence: None,
    };
    assert_eq!(store.start_attempt(request).await.unwrap(), Outcome::Made);
    AttemptDirectory::of(&data.attempts(), &id).create(crate::data::DataAccess::Server).unwrap();
    let catalog = watch::Sender::new(Arc::<Catalog>::default()).subscribe();
    let secrets = Secrets::new(Arc::new(|_: &str| None));
    let events = mpsc::unbounded_channel().0;
    let keys = PlanKeys::at_or_new(&data.plan_key()).unwrap();
    let files = PlanFiles::new(keys);
    let all_files = Arc::new(AttemptFiles::new(data.attempts(), "here".to_owned(), None));
    let registry = StoreRegistry::new(
        Arc::new(store),
        catalog,
        data.clone(),
        secrets,
        files,
        all_files,
        events,
    );
    (registry, id, token)
}

#[tokio::test]
async fn plan_that_is_too_large_for_a_report_succeeds_and_its_log_is_completed() {
    let root = tempfile::tempdir().unwrap();
    let data = DataDirectory::create(root.path()).unwrap();
    let (registry, id, _) = with_attempt(&data).await;
    let directory = registry.directory(&id);
    // What `execute` writes in any case, and what it sends of a plan above the limit.
    std::fs::write(directory.reports().join("plan.json"), "{\"complete\": true}").unwrap();
    std::fs::write(directory.reports().join("plan.txt"), "complete").unwrap();
    let found = registry.find(&id.to_string()).await.unwrap().unwrap();
    let plan: PlanReport = serde_json::from_str(r#"{"plan_text": "cut"}"#).unwrap();
    let recorded = registry.record(&found.run, Report::Plan(plan)).await.unwrap();
    assert_eq!(recorded, Recorded::Recorded);
    // Lines that it could not deliver while the server was away.
    std::fs::create_dir(directory.recovery()).unwrap();
    let line = r#"{"sequence":1,"stream":"stdout","content":"late"}"#;
    std::fs::write(directory.recovery().join("undelivered-log-1.jsonl"), line).unwrap();
    let status = r#"{"status": "succeeded", "plan_changes": true, "resources_to_add": 1}"#;
    let status: StatusReport = serde_json::from_str(status).unwrap();
    let recorded = registry.record(&found.run, Report::Status(status)).await.unwrap();
    assert_eq!(recorded, Recorded::Recorded);

    let (_, run) = registry.store.run(&id.run).await.unwrap().unwrap();
    assert_eq!(run.last_end().map(|(ending, _)| ending), Some(Ending::Succeeded));
    assert_eq!(run.plan.unwrap().counts.add, 1);
    assert_eq!(directory.plan_json().unwrap().unwrap(), b"{\"complete\": true}");
    assert_eq!(directory.plan_text().unwrap().unwrap(), b"cut");
    assert_eq!(directory.log().page(LogPosition::default()).unwrap().lines[0].content, "late");
    assert!(registry.sessions.lock().unwrap().is_empty());
}

#[tokio::test]
async fn attempts_that_are_no_longer_heard_of_are_forgotten() {
    let root = tempfile::tempdir().unwrap();
    let data = DataDirectory::create(root.path()).unwrap();
    let (registry, id, _) = with_attempt(&data).await;
    assert_eq!(registry.hear(&id).await.unwrap(), Outcome::Made);
    let other = |number| AttemptId { number, ..id.clone() };
    for number in 2..9 {
        // Its end was found out in another way.
        assert_eq!(registry.hear(&other(number)).await.unwrap(), Outcome::Refused);
    }
    assert!(registry.sessions.lock().unwrap().len() <= 2);
    assert!(registry.sessions.lock().unwrap().contains_key(&id));
}

#[tokio::test]
async fn repeated_report_is_answered_like_the_first_one() {
    // Terraform fails when it is interrupted, and a plan that was not saved cannot succeed.
    for (is_stopped, status, other) in [
        (true, "failed", "cancelled"),
        (true, "cancelled", "failed"),
        (false, "failed", "succeeded"),
        (false, "timed_out", "failed"),
        (false, "cancelled", "failed"),
        (false, "succeeded", "failed"),
    ] {
        let root = tempfile::tempdir().unwrap();
        let data = DataDirectory::create(root.path()).unwrap();
        let (registry, id, token) = with_attempt(&data).await;
        if is_stopped {
            let stop = Note::StopRequested(StopReason::Cancelled);
            assert_eq!(registry.store.note(&id, stop).await.unwrap(), Outcome::Made);
        }
        let router = butler_registry::router(Arc::new(registry));
        let report = async |status: &str| {
            let body = format!("{{\"status\": \"{status}\"}}");
            let request = Request::post(format!("/v1/ci/module-runs/{id}/status"))
                .header("authorization", format!("Bearer {}", token.secret().expose_secret()))
                .header("content-type", "application/json")
                .body(Body::from(body))
                .unwrap();
            router.clone().oneshot(request).await.unwrap().status()
        };
        let context = format!("{is_stopped} {status}");
        assert_eq!(report(status).await, StatusCode::OK, "{context}");
        assert_eq!(report(status).await, StatusCode::OK, "{context}");
        assert_eq!(report(other).await, StatusCode::CONFLICT, "{context}");
    }
}

#[tokio::test]
async fn plan_that_another_server_has_not_copied_is_waited_for_and_then_made_again() {
    let (root, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let data = DataDirectory::create(root.path()).unwrap();
    let now = Arc::new(AtomicU64::new(0));
    let told = now.clone();
    let clock = move || Moment::from_millis(told.load(Ordering::Relaxed));
    let store = MemoryStore::new(Arc::new(clock));
    let layer: LayerName = "a".parse().unwrap();
    let revision = Revision { commit: Commit::new("c"), digest: Digest::new("d") };
    let seen = [(layer.clone(), Sighting::Found(revision.clone()))];
    assert_eq!(store.observe("infra", 0, &seen, &[]).await.unwrap(), Outcome::Made);
    let planned = start(&store, &DataDirectory::create(other.path()).unwrap(), "a", "1").await;
    end(&store, &planned).await;
    let plan = store.run(&planned.run).await.unwrap().unwrap().1.plan.unwrap().digest;
    let (action, cause) = (Action::Apply, Cause::Plan { plan });
    let run = RunId::derived(&layer, &revision.digest, action, &cause);
    let new = NewRun { id: run.clone(), action, cause, revision, change: 1, destroys: false };
    assert_eq!(store.insert_run(&layer, new).await.unwrap(), Outcome::Made);
    let id = AttemptId { layer, run, number: 1 };
    let request = StartRequest {
        attempt: &id,
        state_key: "key",
        after: &[],
        concurrency: 1,
        repository: "infra",
        repository_concurrency: None,
        timeout: Duration::from_hours(1),
        place: "here",
        token: &AttemptToken::random().unwrap().hash(),
        fence: None,
    };
    assert_eq!(store.start_attempt(request).await.unwrap(), Outcome::Made);
    let bucket = Bucket::of(Arc::new(Unreliable::new(Faults::None)));
    let files = AttemptFiles::new(data.attempts(), "here".to_owned(), Some(Arc::new(bucket)));
    let registry = StoreRegistry::new(
        Arc::new(store),
        watch::Sender::new(Arc::<Catalog>::default()).subscribe(),
        data.clone(),
        Secrets::new(Arc::new(|_: &str| None)),
        PlanFiles::new(PlanKeys::at_or_new(&data.plan_key()).unwrap()),
        Arc::new(files),
        mpsc::unbounded_channel().0,
    );
    registry.directory(&id).create(crate::data::DataAccess::Server).unwrap();
    let ending = async || {
        let found = registry.find(&id.to_string()).await.unwrap().unwrap();
        assert!(registry.plan_file(&found.run).await.is_err());
        let (_, run) = registry.store.run(&id.run).await.unwrap().unwrap();
        run.last_end().map(|(ending, _)| ending)
    };
    let wait = u64::try_from(Duration::from_mins(15).as_millis()).unwrap();
    now.store(wait - 1, Ordering::Relaxed);
    assert_eq!(ending().await, None);
    now.store(wait, Ordering::Relaxed);
    assert_eq!(ending().await, Some(Ending::StalePlan));
}
