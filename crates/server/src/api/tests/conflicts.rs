//! Requests for which a person must act first.

use super::*;

#[tokio::test]
async fn plan_is_refused_with_the_reason_if_a_person_must_act_first() {
    let tested = tested().await;
    let operator = token(Role::Operator);
    let refused = async |path: &str, part: &str| {
        let (status, body) = tested.ask(Method::POST, path, Some(&operator), None).await;
        assert_eq!(status, StatusCode::CONFLICT, "{body}");
        let message = body["error"]["message"].as_str().unwrap();
        assert!(message.contains(part), "{message}");
    };
    let commit = Commit::new("c2");
    for (sighting, part) in [
        (Sighting::RefMissing, "does not have the layer's ref; push it, or change `ref`"),
        (
            Sighting::PathMissing { commit: commit.clone() },
            "commit c2 does not have the layer's path",
        ),
        (Sighting::Invalid { commit, why: "two modules".to_owned() }, "planned: two modules"),
    ] {
        tested.see(sighting).await;
        refused("/layers/a/plan", part).await;
    }
    tested.push("c3").await;
    tested.store.pause(&"a".parse().unwrap(), Some("ana")).await.unwrap();
    refused("/layers/a/plan", "paused by ana; `butler-runner layer resume` continues").await;
    tested.store.pause(&"a".parse().unwrap(), None).await.unwrap();

    let backend = "backend: {type: s3, config: {bucket: tf, key: b, region: eu-west-1}}";
    let same = configuration(&format!("{{repository: infra, path: a, {backend}}}"));
    tested.desired.configure(same).unwrap();
    refused("/layers/a/plan", "the layer has the same state as `b`").await;
    tested.desired.configure(configuration("{repository: infra, paths: ['x/*']}")).unwrap();
    for path in ["/layers/a/plan", "/layers/a/sync"] {
        refused(path, "the layer `a` is no longer in the configuration").await;
    }
    assert!(tested.store.runs(&"a".parse().unwrap()).is_empty());
    tested.desired.configure(configuration("{repository: infra, path: a}")).unwrap();
    tested.plan("a").await;
}
