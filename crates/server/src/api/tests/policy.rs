//! `GET /runs/ID/policy`.

use super::*;
use crate::model::FailureClass;

#[tokio::test]
async fn verdicts_of_the_newest_attempt_are_shown() {
    let tested = tested().await;
    let run = tested.plan("a").await;
    let path = format!("/runs/{run}/policy");
    let none = serde_json::json!({"items": [], "next": null});
    // Before there is an attempt, and before its program has ended.
    assert_eq!(tested.get(&path).await, none);
    let attempt = tested.start(&run, 1).await;
    assert_eq!(tested.get(&path).await, none);

    let leave = |attempt: &AttemptId, output: &str, passed: bool| {
        let reports = tested.files(attempt).reports();
        std::fs::create_dir_all(&reports).unwrap();
        let item = serde_json::json!({"program": "cost", "passed": passed, "output": output});
        let document = serde_json::json!({"items": [item]});
        std::fs::write(reports.join("after-plan.json"), document.to_string()).unwrap();
        serde_json::json!({"items": [item], "next": null})
    };
    let refused = leave(&attempt, "12 EUR are too much\n", false);
    assert_eq!(tested.get(&path).await, refused);

    // The next attempt has not been checked yet.
    tested.end(&attempt, Ending::Failed(FailureClass::Network)).await;
    let attempt = tested.start(&run, 2).await;
    assert_eq!(tested.get(&path).await, none);
    let accepted = leave(&attempt, "3 EUR\n", true);
    assert_eq!(tested.get(&path).await, accepted);

    let (status, body) =
        tested.ask(Method::GET, "/runs/none/policy", Some(&token(Role::Viewer)), None).await;
    assert_eq!(status, StatusCode::NOT_FOUND, "{body}");
}

#[tokio::test]
async fn file_that_is_not_valid_is_an_error_of_the_server() {
    let tested = tested().await;
    let run = tested.plan("a").await;
    let attempt = tested.start(&run, 1).await;
    let reports = tested.files(&attempt).reports();
    std::fs::create_dir_all(&reports).unwrap();
    std::fs::write(reports.join("after-plan.json"), "{").unwrap();
    let path = format!("/runs/{run}/policy");
    let (status, body) = tested.ask(Method::GET, &path, Some(&token(Role::Viewer)), None).await;
    assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR, "{body}");
}
