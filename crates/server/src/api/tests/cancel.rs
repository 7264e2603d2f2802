//! Runs that are cancelled.

use super::*;
use crate::model::{FailureClass, StopReason};

/// Cancels a run.
async fn cancel(tested: &Tested, run: &str) -> (StatusCode, Value) {
    let path = format!("/runs/{run}/cancel");
    tested.ask(Method::POST, &path, Some(&token(Role::Operator)), None).await
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
    let attempt = tested.start(&run, 1).await;
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
    tested.end(&attempt, Ending::Failed(FailureClass::Platform)).await;
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
        let attempt = tested.start(&run, 1).await;
        tested.end(&attempt, Ending::Failed(class)).await;
        assert_eq!(cancel(&tested, &run).await.0, expected, "{class:?}");
    }
}

#[tokio::test]
async fn run_whose_retries_are_used_up_is_over() {
    let tested = tested().await;
    let run = tested.plan("a").await;
    for number in 1..=5 {
        let attempt = tested.start(&run, number).await;
        tested.end(&attempt, Ending::Failed(FailureClass::Network)).await;
    }
    let shown = tested.get(&format!("/runs/{run}")).await;
    assert_eq!((&shown["phase"], &shown["over"]), (&"Failed".into(), &true.into()));
    let (status, body) = cancel(&tested, &run).await;
    assert_eq!(status, StatusCode::CONFLICT, "{body}");
    assert_eq!(tested.get(&format!("/runs/{run}")).await, shown);
}

#[tokio::test]
async fn run_that_failed_before_the_digest_changed_is_over() {
    let tested = tested().await;
    let run = tested.plan("a").await;
    let attempt = tested.start(&run, 1).await;
    tested.end(&attempt, Ending::Failed(FailureClass::Network)).await;
    tested.push("c2").await;
    let (status, body) = cancel(&tested, &run).await;
    assert_eq!(status, StatusCode::CONFLICT, "{body}");
    assert_eq!(body["error"]["message"], format!("the run `{run}` is over"));
}
