//! The breaker.

use super::*;
use crate::model::{Action, Cause, ChangeCounts, FailureClass, NewRun, PlanDigest, SavedPlan};

/// Three layers whose automatic applies fail.
pub(crate) const BROKEN: [&str; 3] = ["x", "y", "z"];

/// Makes an automatic apply of a layer fail that is not configured.
pub(crate) async fn fail(tested: &Tested, name: &str, request: u64) {
    let layer: LayerName = name.parse().unwrap();
    let revision = Revision { commit: Commit::new("c1"), digest: Digest::new("d1") };
    if request == 0 {
        tested.see_of(name, Sighting::Found(revision.clone())).await;
    }
    let digest = PlanDigest::new(format!("p-{name}-{request}"));
    let plan = SavedPlan {
        digest: digest.clone(),
        counts: ChangeCounts::default(),
        is_empty: false,
        is_stored: true,
        saved: Moment::default(),
        discarded: None,
        stale: None,
    };
    let planned = AttemptResult { plan: Some(plan), ..AttemptResult::ended(Ending::Succeeded) };
    let failed = AttemptResult::ended(Ending::Failed(FailureClass::Module));
    let person = Cause::Person { request: request.to_string() };
    for (action, cause, result) in
        [(Action::Plan, person, planned), (Action::Apply, Cause::Plan { plan: digest }, failed)]
    {
        let id = RunId::derived(&layer, &revision.digest, action, &cause);
        let revision = revision.clone();
        let run = NewRun { id: id.clone(), action, cause, revision, change: 1, destroys: false };
        assert_eq!(tested.store.insert_run(&layer, run).await.unwrap(), Outcome::Made);
        let attempt = tested.start_of(name, id.as_str(), 1).await;
        assert_eq!(tested.store.finish(&attempt, result).await.unwrap(), Outcome::Made);
    }
}

#[tokio::test]
async fn open_breaker_is_listed_as_a_problem_until_an_administrator_resets_it() {
    let mut tested = tested().await;
    let closed = serde_json::json!({"open": false, "since": null, "failures": []});
    for layer in BROKEN {
        // A layer counts once.
        for request in 0..3 {
            assert_eq!(tested.get("/breaker").await, closed);
            assert_eq!(tested.get("/layers").await["problems"], serde_json::json!([]));
            fail(&tested, layer, request).await;
            if layer == BROKEN[2] {
                break;
            }
        }
    }
    let shown = tested.get("/breaker").await;
    assert_eq!(
        (&shown["open"], &shown["since"]),
        (&true.into(), &"1970-01-01T00:00:01.000Z".into())
    );
    let failures = shown["failures"].as_array().unwrap();
    let layers: Vec<_> =
        failures.iter().map(|failure| failure["layer"].as_str().unwrap()).collect();
    assert_eq!(layers, BROKEN, "{shown}");
    for failure in failures {
        assert_eq!(failure["attempt"], 1, "{shown}");
        assert_eq!(failure["outcome"], "Terraform reported an error", "{shown}");
    }
    let problems = tested.get("/layers").await["problems"].clone();
    let problem = problems[0].as_str().unwrap();
    assert!(problem.contains("those of 3 layers in a row have failed (x, y, z)"), "{problems}");
    while tested.events.try_recv().is_ok() {}
    for (token, expected) in [
        (token(Role::Operator), StatusCode::FORBIDDEN),
        // It concerns more than the layers of this administrator.
        (LIMITED.to_owned(), StatusCode::FORBIDDEN),
        (token(Role::Administrator), StatusCode::OK),
    ] {
        let (status, body) = tested.ask(Method::POST, "/breaker/reset", Some(&token), None).await;
        assert_eq!(status, expected, "{body}");
        assert_eq!(body["wasOpen"] == true, expected == StatusCode::OK, "{body}");
    }
    assert_eq!(tested.get("/breaker").await, closed);
    assert!(matches!(tested.events.try_recv(), Ok(Event::BreakerReset)));
    assert_eq!(tested.get("/layers").await["problems"], serde_json::json!([]));
    let events = tested.get("/events").await;
    let last = events["items"].as_array().unwrap().last().unwrap();
    assert_eq!((&last["kind"], &last["by"]), (&"breaker-reset".into(), &"administrator".into()));
}
