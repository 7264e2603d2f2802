//! A layer in full, users, and freed states.

use super::*;

#[tokio::test]
async fn layer_in_full_has_all_gates_and_its_configuration_without_secrets() {
    let tested = tested().await;
    let a = "{repository: infra, path: a, tool: 1.11.4, max-log: 1MiB, drift: {every: 1h},
      variables: {region: eu, db_password: hunter2a, api_tokens: {ci: hunter2e}, sizes: [[{password: hunter2f}]],
        database: 'postgres://u:hunter2g@h/d', tags: {team: net}},
      secrets: {token: {file: /run/secrets/token}},
      env: {AWS_PROFILE: prod, AWS_SECRET_ACCESS_KEY: hunter2b, OTHER: {env: FROM_SERVER}},
      backend: {type: s3, config: {bucket: tf, secret_key: hunter2c, access_key: {env: KEY},
        assume_role: {role_arn: 'arn:x', external_id: hunter2d}}}}";
    tested.desired.configure(configuration(a)).unwrap();
    tested.store.pause(&"a".parse().unwrap(), Some("ana")).await.unwrap();
    let name: LayerName = "a".parse().unwrap();
    let source = tested.desired.catalogs().borrow().layers[&name].clone();
    tested.views.look(&*tested.store, &name, Some(&source)).await;
    let layer = tested.get("/layers/a").await;
    assert!(!layer.to_string().contains("hunter2"), "{layer}");
    assert_eq!(
        layer["configuration"],
        serde_json::json!({
            "repository": "infra", "ref": "HEAD", "path": "a", "tool": "1.11.4",
            "strategy": "approve", "max-log": "1048576B",
            "drift": {"every": "1h", "repair": false, "compare": "state", "ignore": []},
            "retries": {"max": 5}, "timeout": {"plan": "1h", "apply": "4h"}, "plan-lifetime": "7days",
            "variables": {
                "region": "eu", "db_password": "***", "api_tokens": "***", "sizes": [[{"password": "***"}]],
                "database": "***", "tags": {"team": "net"},
            },
            "secrets": {"token": {"file": "/run/secrets/token"}},
            "env": {
                "AWS_PROFILE": "***", "AWS_SECRET_ACCESS_KEY": "***", "OTHER": {"env": "FROM_SERVER"},
            },
            "backend": {"type": "s3", "config": {
                "bucket": "tf", "secret_key": "***", "access_key": {"env": "KEY"},
                "assume_role": {"role_arn": "arn:x", "external_id": "***"},
            }},
        })
    );
    let gates = layer["gates"].as_array().unwrap();
    assert_eq!(gates.len(), 12);
    for gate in gates {
        let is_pause = gate["gate"] == "pause";
        assert_eq!(gate["open"], !is_pause, "{gate}");
        let reason = gate["reason"].as_str().unwrap_or_default();
        assert_eq!(reason.starts_with("paused by ana"), is_pause, "{gate}");
    }
}

#[tokio::test]
async fn users_are_listed_without_their_hashes() {
    let tested = tested().await;
    let administrator = token(Role::Administrator);
    let (status, body) = tested.ask(Method::GET, "/access", Some(&administrator), None).await;
    assert_eq!(status, StatusCode::OK);
    let users: Vec<_> = Role::ALL.map(|role| (role.name(), role, Value::Null)).to_vec();
    let limited = ("limited", Role::Administrator, serde_json::json!(["*a"]));
    let users: Vec<Value> = users
        .into_iter()
        .chain([limited])
        .map(|(name, role, layers)| serde_json::json!({"name": name, "role": role, "layers": layers}))
        .collect();
    assert_eq!(body, serde_json::json!({"items": users, "next": null}));
}

#[tokio::test]
async fn state_of_an_attempt_that_may_run_is_freed_only_by_force() {
    let mut tested = tested().await;
    let administrator = token(Role::Administrator);
    let run = tested.plan("a").await;
    let attempt = tested.start(&run, 1).await;
    while tested.events.try_recv().is_ok() {}
    let ask = async |path: &str| tested.ask(Method::POST, path, Some(&administrator), None).await;
    let (status, body) = ask("/layers/a/unlock").await;
    assert_eq!(status, StatusCode::CONFLICT);
    let message = body["error"]["message"].as_str().unwrap();
    assert!(
        message.contains(&format!("attempt 1 of run {run} has not ended on here")),
        "{message}"
    );
    assert!(message.contains("`butler-runner layer unlock a --force`"), "{message}");
    let (status, body) = ask("/layers/a/unlock?force=true").await;
    assert_eq!((status, &body["lost"]), (StatusCode::OK, &run.as_str().into()), "{body}");
    let facts = tested.store.snapshot(&"a".parse().unwrap(), "a", &[]).await.unwrap().facts;
    assert_eq!((facts.lease, facts.runs[0].last_end().unwrap().0), (None, Ending::Lost));
    // The attempt comes too late.
    let late = AttemptResult::ended(Ending::Succeeded);
    assert_eq!(tested.store.finish(&attempt, late).await.unwrap(), Outcome::Refused);
    let (status, body) = ask("/layers/a/unlock").await;
    assert_eq!((status, &body["lost"]), (StatusCode::OK, &Value::Null), "{body}");
    assert!(matches!(tested.events.try_recv(), Ok(Event::Finished(_))));
}
