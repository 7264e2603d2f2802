//! Wrong requests for the journal.

use super::*;

#[tokio::test]
async fn wrong_parameters_of_events_are_refused() {
    let tested = tested().await;
    for path in ["/events?after=x", "/events?limit=-1", "/events?since=1"] {
        let (status, body) = tested.ask(Method::GET, path, Some(&token(Role::Viewer)), None).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{path}: {body}");
    }
    let request = Request::builder().uri("/api/v1/events").header("host", "localhost");
    let request = request.header("authorization", format!("Bearer {}", token(Role::Viewer)));
    let request = request.header("accept", "text/event-stream").header("last-event-id", "x");
    let answer = tested.router.clone().oneshot(request.body(Body::empty()).unwrap()).await;
    assert_eq!(answer.unwrap().status(), StatusCode::BAD_REQUEST);
    let events = tested.get("/events?limit=1").await;
    assert_eq!((&events["items"][0]["layer"], &events["next"]), (&"a".into(), &1.into()));
}
