//! Requests about layers and repositories.

use super::*;

#[tokio::test]
async fn layers_are_filtered_and_paged() {
    let tested = tested().await;
    let names = async |query: &str| {
        let body = tested.get(&format!("/layers{query}")).await;
        let items = body["items"].as_array().unwrap().clone();
        let names: Vec<String> =
            items.iter().map(|item| item["name"].as_str().unwrap().to_owned()).collect();
        (names, body["next"].clone())
    };
    assert_eq!(names("").await.0, ["a", "b"]);
    assert_eq!(names("?q=b").await.0, ["b"]);
    assert_eq!(names("?repository=other").await.0, Vec::<String>::new());
    assert_eq!(names("?phase=Noop&phase=Blocked").await.0, Vec::<String>::new());
    assert_eq!(names("?limit=1").await, (vec!["a".to_owned()], "a".into()));
    assert_eq!(names("?limit=1&after=a").await, (vec!["b".to_owned()], Value::Null));
    for (query, part) in [
        ("?phase=Nope", "`Nope` is not a value of `phase`: use Observed, Noop"),
        ("?phases=Noop", "`phases` is not a parameter"),
        ("?limit=x", "`limit` is a number"),
        ("?waiting=bogus", "`bogus` is not a value of `waiting`: use approval"),
        ("?drift=bogus", "`bogus` is not a value of `drift`: use unknown, unchecked, none, found"),
    ] {
        let viewer = token(Role::Viewer);
        let path = format!("/layers{query}");
        let (status, body) = tested.ask(Method::GET, &path, Some(&viewer), None).await;
        assert_eq!(status, StatusCode::BAD_REQUEST);
        assert!(body["error"]["message"].as_str().unwrap().contains(part), "{body}");
    }
}

#[tokio::test]
async fn layer_shows_what_the_repository_contains() {
    let tested = tested().await;
    let layer = tested.get("/layers/a").await;
    for (field, expected) in [
        ("name", "a"),
        ("repository", "infra"),
        ("ref", "HEAD"),
        ("path", "a"),
        ("drift", "unknown"),
    ] {
        assert_eq!(layer[field], expected, "{layer}");
    }
    assert_eq!(layer["revision"]["commit"], "c1");
    let viewer = token(Role::Viewer);
    let (status, body) = tested.ask(Method::GET, "/layers/c", Some(&viewer), None).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    assert_eq!(body["error"]["message"], "there is no layer `c`");
}

#[tokio::test]
async fn repeated_request_for_a_plan_makes_one_run() {
    let mut tested = tested().await;
    let operator = token(Role::Operator);
    let mut plan = Vec::new();
    for key in ["k1", "k1", "k2"] {
        let path = "/layers/a/plan";
        let (status, run) = tested.ask(Method::POST, path, Some(&operator), Some(key)).await;
        assert_eq!(status, StatusCode::ACCEPTED, "{run}");
        assert_eq!((&run["action"], &run["cause"]), (&"plan".into(), &"person".into()));
        plan.push(run["id"].as_str().unwrap().to_owned());
    }
    assert_eq!(plan[0], plan[1]);
    assert_ne!(plan[0], plan[2]);
    assert_eq!(tested.store.runs(&"a".parse().unwrap()).len(), 2);
    let mut changed = Vec::new();
    while let Ok(event) = tested.events.try_recv() {
        changed.push(format!("{event:?}"));
    }
    assert_eq!(changed.len(), 2, "{changed:?}");
    let runs = tested.get("/runs?layer=a&limit=1").await;
    assert_eq!(runs["items"][0]["id"], *plan[2]);
    assert_eq!(runs["next"], *plan[2]);
    let run = tested.get(&format!("/runs/{}", plan[0])).await;
    assert_eq!((&run["phase"], &run["layer"]), (&"PendingTrigger".into(), &"a".into()));
    let logs = tested.get(&format!("/runs/{}/logs", plan[0])).await;
    assert_eq!(logs["items"], serde_json::json!([]));
}

#[tokio::test]
async fn sync_makes_the_next_poll_begin() {
    let tested = tested().await;
    let operator = token(Role::Operator);
    for path in ["/layers/a/sync", "/repositories/infra/sync"] {
        let (status, _) = tested.ask(Method::POST, path, Some(&operator), None).await;
        assert_eq!(status, StatusCode::ACCEPTED);
        tested.due.notified().await;
    }
    let (status, _) = tested.ask(Method::POST, "/repositories/x/sync", Some(&operator), None).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn repositories_are_listed_without_logins() {
    let tested = tested().await;
    let body = tested.get("/repositories").await;
    let known = serde_json::json!({
        "name": "infra", "url": "file:///infra", "lastPoll": null, "error": null, "polls": 0,
        "lastDelivery": null, "warning": null,
    });
    assert_eq!(body["items"], serde_json::json!([known]));
    for (url, shown) in [
        ("https://ana:s3cret@git.test/a.git", "https://git.test/a.git"),
        ("https://s3cret@git.test/a.git", "https://git.test/a.git"),
        ("ssh://git@git.test:22/a.git", "ssh://git@git.test:22/a.git"),
        ("ssh://git:s3cret@git.test/a.git", "ssh://git@git.test/a.git"),
        ("git@git.test:a.git", "git@git.test:a.git"),
    ] {
        assert_eq!(crate::config::without_login(url), shown);
    }
}

#[tokio::test]
async fn layer_is_up_to_date_also_if_its_last_run_was_of_another_change() {
    let tested = tested().await;
    let name = "a".parse().unwrap();
    let is_up_to_date = async || tested.get("/layers/a").await["upToDate"] == true;
    let run = tested.plan("a").await;
    assert!(!is_up_to_date().await, "the view has no run yet");
    tested.push("other").await;
    let source = tested.desired.catalogs().borrow().layers.get(&name).cloned();
    tested.views.look(&*tested.store, &name, source.as_deref()).await;
    assert_eq!(tested.get("/layers/a").await["lastRun"]["id"], *run);
    assert!(is_up_to_date().await, "`layer sync --wait` would not end");
}
