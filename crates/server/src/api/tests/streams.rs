//! Server-sent events.

use std::pin::Pin;

use axum::body::Bytes;
use axum::http::header;
use futures_util::{Stream, StreamExt};

use super::*;

/// A stream of server-sent events.
pub(super) struct Messages {
    body: Pin<Box<dyn Stream<Item = Result<Bytes, axum::Error>>>>,
    text: String,
}

/// A message: the kind, the id, and the data.
pub(super) type Received = (Option<String>, Option<String>, Value);

impl Tested {
    /// Follows `path` as a user.
    pub(super) async fn follow(&self, path: &str, token: &str, last: Option<&str>) -> Messages {
        let request = Request::builder().uri(format!("/api/v1{path}")).header("host", "localhost");
        let request = request.header("authorization", format!("Bearer {token}"));
        let mut request = request.header("accept", "text/event-stream");
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        let request = request.body(Body::empty()).unwrap();
        let answer = self.router.clone().oneshot(request).await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
        assert_eq!(answer.headers()[header::CONTENT_TYPE], "text/event-stream");
        Messages { body: Box::pin(answer.into_body().into_data_stream()), text: String::new() }
    }
}

impl Messages {
    /// The next message; `None` at the end of the stream.
    pub(super) async fn next(&mut self) -> Option<Received> {
        loop {
            if let Some((message, rest)) = self.text.split_once("\n\n") {
                let field = |name: &str| {
                    Some(message.lines().find_map(|it| it.strip_prefix(name))?.to_owned())
                };
                let (kind, id, data) = (field("event: "), field("id: "), field("data: "));
                self.text = rest.to_owned();
                // A message without data is a comment.
                let Some(data) = data else { continue };
                return Some((kind, id, serde_json::from_str(&data).unwrap()));
            }
            self.text += std::str::from_utf8(&self.body.next().await?.unwrap()).unwrap();
        }
    }
}

/// The entry of an operator in an access file.
fn user(name: &str) -> String {
    let hash = serde_json::to_value(TokenHash::of(&format!("breg_{name}"))).unwrap();
    format!("  - {{name: {name}, role: operator, token-sha256: {hash}}}\n")
}

#[tokio::test]
async fn streams_end_when_the_user_is_removed() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("access.yaml");
    std::fs::write(&file, format!("users:\n{}{}", user("ana"), user("ben"))).unwrap();
    let access = Access::looking(&file, Duration::ZERO).unwrap();
    let tested = tested_by(Hosts::new([127, 0, 0, 1].into()), Some(access)).await;
    let ask = async |path: &str| {
        let (status, run) = tested.ask(Method::POST, path, Some("breg_ben"), None).await;
        assert_eq!(status, StatusCode::ACCEPTED, "{run}");
        run["id"].as_str().unwrap().to_owned()
    };
    let run = ask("/layers/a/plan").await;
    let attempt = tested.start(&run, 1).await;
    tested.files(&attempt).create(crate::data::DataAccess::Server).unwrap();
    let log = tested.files(&attempt).log();
    let line = |sequence| butler_base::event::LogLine {
        sequence,
        stream: butler_base::event::Stream::Stdout,
        content: "text".to_owned(),
    };
    log.append(&[line(1)], 0, 1_000).unwrap();
    let log_path = format!("/runs/{run}/logs");
    let mut lines = tested.follow(&log_path, "breg_ana", None).await;
    let mut events = tested.follow("/events?after=2", "breg_ana", None).await;
    assert_eq!(lines.next().await.unwrap().1.unwrap(), "1");
    assert_eq!(events.next().await.unwrap().1.unwrap(), "3");
    std::fs::write(&file, format!("users:\n{}", user("ben"))).unwrap();
    log.append(&[line(2)], 1, 1_000).unwrap();
    ask("/layers/b/plan").await;
    let mut received = Vec::new();
    while let Some((_, id, _)) = events.next().await {
        received.push(id.unwrap());
    }
    // What was recorded before the removal may still be sent.
    assert!(received.iter().all(|id| id == "4"), "{received:?}");
    assert_eq!(lines.next().await, None);
}

#[tokio::test]
async fn stream_that_waits_ends_when_the_user_is_removed() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("access.yaml");
    std::fs::write(&file, format!("users:\n{}{}", user("ana"), user("ben"))).unwrap();
    let access = Access::looking(&file, Duration::ZERO).unwrap();
    let tested = tested_by(Hosts::new([127, 0, 0, 1].into()), Some(access)).await;
    let (_, run) = tested.ask(Method::POST, "/layers/a/plan", Some("breg_ben"), None).await;
    let log = format!("/runs/{}/logs", run["id"].as_str().unwrap());
    // Nothing follows: no line, and no entry after the last one.
    let mut lines = tested.follow(&log, "breg_ana", None).await;
    let mut events = tested.follow("/events?after=3", "breg_ana", None).await;
    let mut others = tested.follow("/events?after=3", "breg_ben", None).await;
    std::fs::write(&file, format!("users:\n{}", user("ben"))).unwrap();
    let bound = Duration::from_mins(1);
    for stream in [&mut lines, &mut events] {
        let end = tokio::time::timeout(bound, stream.next()).await.expect("the stream ends");
        assert_eq!(end, None);
    }
    // The stream of a user who was not removed goes on.
    tested.ask(Method::POST, "/layers/b/plan", Some("breg_ben"), None).await;
    assert_eq!(others.next().await.unwrap().1.unwrap(), "4");
}
