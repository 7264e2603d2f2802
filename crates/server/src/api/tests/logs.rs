//! Logs that are read and followed.

use butler_base::event::{LogLine, Stream};

use super::streams::{Messages, Received};
use super::*;
use crate::model::FailureClass;

fn line(sequence: u32, content: &str) -> LogLine {
    LogLine { sequence, stream: Stream::Stdout, content: content.to_owned() }
}

/// The ids and texts of messages.
async fn take(messages: &mut Messages, count: usize) -> Vec<(String, String)> {
    let mut received = Vec::new();
    for _ in 0..count {
        let (kind, id, data) = messages.next().await.unwrap();
        assert_eq!(kind, None, "{data}");
        received.push((id.unwrap(), data["content"].as_str().unwrap().to_owned()));
    }
    received
}

fn ids(received: &[(String, String)]) -> Vec<&str> {
    received.iter().map(|(id, _)| id.as_str()).collect()
}

#[tokio::test]
async fn log_is_followed_through_all_attempts_until_the_run_is_over() {
    let tested = tested().await;
    let (run, viewer) = (tested.plan("a").await, token(Role::Viewer));
    let path = format!("/runs/{run}/logs");
    // It waits for the first attempt.
    let mut messages = tested.follow(&path, &viewer, None).await;
    let attempt = tested.start(&run, 1).await;
    tested.files(&attempt).create(crate::data::DataAccess::Server).unwrap();
    let log = tested.files(&attempt).log();
    log.append(&[line(1, "a"), line(2, "b")], 0, 1_000).unwrap();
    assert_eq!(ids(&take(&mut messages, 2).await), ["1", "2"]);
    log.append(&[line(3, "c")], 2, 1_000).unwrap();
    assert_eq!(take(&mut messages, 1).await, [("3".to_owned(), "c".to_owned())]);
    tested.end(&attempt, Ending::Failed(FailureClass::Network)).await;
    let shown = tested.get(&format!("/runs/{run}")).await;
    assert_eq!((&shown["phase"], &shown["over"]), (&"Failed".into(), &false.into()));
    let attempt = tested.start(&run, 2).await;
    tested.files(&attempt).create(crate::data::DataAccess::Server).unwrap();
    tested.files(&attempt).log().append(&[line(1, "d"), line(2, "e")], 0, 1_000).unwrap();
    assert_eq!(ids(&take(&mut messages, 2).await), ["2-1", "2-2"]);
    tested.end(&attempt, Ending::Failed(FailureClass::Syntax)).await;
    let (kind, id, end) = messages.next().await.unwrap();
    assert_eq!((kind.as_deref(), id), (Some("end"), None));
    assert_eq!((&end["run"]["phase"], &end["run"]["over"]), (&"Failed".into(), &true.into()));
    assert_eq!(messages.next().await, None::<Received>);

    // A client that connects again gets what it has missed, and nothing twice.
    for (last, expected) in
        [("2", vec!["3", "2-1", "2-2"]), ("3", vec!["2-1", "2-2"]), ("2-1", vec!["2-2"])]
    {
        let mut messages = tested.follow(&path, &viewer, Some(last)).await;
        assert_eq!(ids(&take(&mut messages, expected.len()).await), expected, "{last}");
        assert_eq!(messages.next().await.unwrap().0.unwrap(), "end");
    }
    // `after` is about the newest attempt, as without a stream.
    let mut messages = tested.follow(&format!("{path}?after=1"), &viewer, None).await;
    assert_eq!(ids(&take(&mut messages, 1).await), ["2-2"]);
    // One attempt only.
    let mut messages = tested.follow(&format!("{path}?attempt=1"), &viewer, None).await;
    assert_eq!(ids(&take(&mut messages, 3).await), ["1", "2", "3"]);
    assert_eq!(messages.next().await.unwrap().0.unwrap(), "end");
    let page = tested.get(&path).await;
    assert_eq!((&page["attempt"], &page["items"][0]["content"]), (&2.into(), &"d".into()));
}

#[tokio::test]
async fn run_is_over_if_its_retries_are_used_up_or_the_digest_has_changed() {
    let tested = tested().await;
    let over = async |run: &str| tested.get(&format!("/runs/{run}")).await["over"] == true;
    let run = tested.plan("a").await;
    for number in 1..=5 {
        assert!(!over(&run).await, "{number}");
        let attempt = tested.start(&run, number).await;
        assert!(!over(&run).await, "{number}");
        tested.end(&attempt, Ending::Failed(FailureClass::Network)).await;
    }
    assert!(over(&run).await);
    let run = tested.plan("a").await;
    let attempt = tested.start(&run, 1).await;
    tested.end(&attempt, Ending::Failed(FailureClass::Lock)).await;
    assert!(!over(&run).await);
    tested.push("c2").await;
    assert!(over(&run).await);
}

#[tokio::test]
async fn wrong_positions_in_a_log_are_refused() {
    let tested = tested().await;
    let (run, viewer) = (tested.plan("a").await, token(Role::Viewer));
    tested.start(&run, 1).await;
    for (query, last, status) in [
        ("?attempt=2", None, StatusCode::NOT_FOUND),
        ("?attempt=1", Some("2-1"), StatusCode::BAD_REQUEST),
        ("", Some("x"), StatusCode::BAD_REQUEST),
        ("", Some("1-"), StatusCode::BAD_REQUEST),
    ] {
        let request = Request::builder().uri(format!("/api/v1/runs/{run}/logs{query}"));
        let request = request.header("host", "localhost").header("accept", "text/event-stream");
        let mut request = request.header("authorization", format!("Bearer {viewer}"));
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        let request = request.body(Body::empty()).unwrap();
        let answer = tested.router.clone().oneshot(request).await.unwrap();
        assert_eq!(answer.status(), status, "{query} {last:?}");
    }
}
