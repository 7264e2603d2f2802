//! Runs that are cancelled.

use std::time::Duration;

use super::*;
use crate::model::{AttemptToken, Ending, FailureClass, LayerName, RunId, StopReason};
use crate::store::{AttemptId, AttemptResult, Note, StartRequest};

/// Cancels a run.
async fn cancel(tested: &Tested, run: &str) -> (StatusCode, Value) {
    let path = format!("/runs/{run}/cancel");
    tested.ask(Method::POST, &path, Some(&token(Role::Operator)), None).await
}

/// Starts the first attempt of a run of the layer `a`.
async fn start(tested: &Tested, run: &str) -> AttemptId {
    let layer: LayerName = "a".parse().unwrap();
    let attempt = AttemptId { layer, run: RunId::new(run), number: 1 };
    let request = StartRequest {
        attempt: &attempt,
        state_key: "a",
        after: &[],
        concurrency: 1,
        timeout: Duration::from_hours(1),
        place: "here",
        token: &AttemptToken::random().unwrap().hash(),
    };
    assert_eq!(tested.store.start_attempt(request).await.unwrap(), Outcome::Made);
    assert_eq!(tested.store.note(&attempt, Note::Heartbeat).await.unwrap(), Outcome::Made);
    attempt
}

#[tokio::test]
async fn waiting_run_is_closed_and_cannot_be_cancelled_again() {
    let mut tested = tested().await;
    let run = tested.plan("a").await;
    while tested.events.try_recv().is_ok() {}
    let (status, body) = cancel(&tested, &run).await;
    assert_eq!(status, StatusCode::ACCEPTED, "{body}");
    assert_eq!((&body["phase"], &body["ended"]), (&"Skipped".into(), &"cancelled".into()));
    assert_eq!(body["cancelling"], false);
    assert!(matches!(tested.events.try_recv(), Ok(Event::Changed(layer)) if layer.as_str() == "a"));
    let (status, body) = cancel(&tested, &run).await;
    assert_eq!(status, StatusCode::CONFLICT);
    assert_eq!(body["error"]["message"], format!("the run `{run}` is over"));
    assert_eq!(cancel(&tested, "none").await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn running_attempt_is_asked_to_stop_and_shows_it_until_it_has_ended() {
    let mut tested = tested().await;
    let run = tested.plan("a").await;
    let attempt = start(&tested, &run).await;
    while tested.events.try_recv().is_ok() {}
    // A repeated request changes nothing.
    for _ in 0..2 {
        let (status, body) = cancel(&tested, &run).await;
        assert_eq!(status, StatusCode::ACCEPTED, "{body}");
        assert_eq!((&body["phase"], &body["cancelling"]), (&"ClosingOut".into(), &true.into()));
        assert!(matches!(tested.events.try_recv(), Ok(Event::Changed(_))));
    }
    let stored = tested.store.run(&attempt.run).await.unwrap().unwrap().1;
    let stop = stored.running().unwrap().stop.unwrap();
    assert_eq!(stop.0, StopReason::Cancelled);
    // The runner reports that it was cancelled.
    let result = AttemptResult::ended(Ending::Failed(FailureClass::Platform));
    assert_eq!(tested.store.finish(&attempt, result).await.unwrap(), Outcome::Made);
    let shown = tested.get(&format!("/runs/{run}")).await;
    assert_eq!((&shown["phase"], &shown["ended"]), (&"Skipped".into(), &"cancelled".into()));
    assert_eq!(shown["cancelling"], false);
    assert_eq!(cancel(&tested, &run).await.0, StatusCode::CONFLICT);
}

#[tokio::test]
async fn failed_run_can_be_cancelled_only_if_it_is_retried() {
    for (class, expected) in [
        (FailureClass::Network, StatusCode::ACCEPTED),
        (FailureClass::Syntax, StatusCode::CONFLICT),
    ] {
        let tested = tested().await;
        let run = tested.plan("a").await;
        let attempt = start(&tested, &run).await;
        let result = AttemptResult::ended(Ending::Failed(class));
        assert_eq!(tested.store.finish(&attempt, result).await.unwrap(), Outcome::Made);
        assert_eq!(cancel(&tested, &run).await.0, expected, "{class:?}");
    }
}

#[tokio::test]
async fn run_that_failed_before_the_digest_changed_is_over() {
    let tested = tested().await;
    let run = tested.plan("a").await;
    let attempt = start(&tested, &run).await;
    let result = AttemptResult::ended(Ending::Failed(FailureClass::Network));
    assert_eq!(tested.store.finish(&attempt, result).await.unwrap(), Outcome::Made);
    tested.push("c2").await;
    let (status, body) = cancel(&tested, &run).await;
    assert_eq!(status, StatusCode::CONFLICT, "{body}");
    assert_eq!(body["error"]["message"], format!("the run `{run}` is over"));
}
