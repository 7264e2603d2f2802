//! Followers whose commits a CI system delivers. Its API is a stand-in ([`CiServer`]), because none can be installed here.

use std::sync::{Arc, Mutex};

use super::*;
use crate::support::ci_server::{CiServer, Reply};

/// The pipelines of a GitLab.
#[derive(Default)]
struct Pipelines {
    /// The variables of each one, in their order.
    started: Vec<Value>,
    /// The status of all of them.
    status: &'static str,
    /// Whether the next answer to a start is lost.
    loses_answer: bool,
}

/// A GitLab with the project `shop/web`.
fn gitlab(pipelines: &Arc<Mutex<Pipelines>>) -> CiServer {
    let pipelines = Arc::clone(pipelines);
    CiServer::start(move |request| {
        let mut pipelines = pipelines.lock().unwrap();
        let path = request.path.strip_prefix("/api/v4/projects/shop%2Fweb").unwrap().to_owned();
        let shown = |pipelines: &Pipelines, index: usize| {
            let at = humantime::format_rfc3339_millis(std::time::SystemTime::now()).to_string();
            json!({"id": index + 1, "status": pipelines.status, "ref": "main", "name": null,
                "created_at": at, "web_url": format!("https://gitlab.example.com/{}", index + 1)})
        };
        if path == "/trigger/pipeline" {
            let body = request.json();
            assert_eq!((&body["token"], &body["ref"]), (&json!("trigger"), &json!("main")));
            pipelines.started.push(body["variables"].clone());
            if std::mem::take(&mut pipelines.loses_answer) {
                return Reply::Lost;
            }
            let last = pipelines.started.len() - 1;
            return Reply::json(201, &shown(&pipelines, last));
        }
        assert_eq!(request.header("private-token"), "glpat-reader");
        if path == "/pipelines" {
            let all = (0..pipelines.started.len()).rev().map(|index| shown(&pipelines, index));
            return Reply::json(200, &Value::Array(all.collect()));
        }
        let rest = path.strip_prefix("/pipelines/").unwrap();
        if let Some(id) = rest.strip_suffix("/variables") {
            let variables = pipelines.started[id.parse::<usize>().unwrap() - 1].clone();
            let variables = variables.as_object().unwrap().iter();
            let variables = variables.map(|(key, value)| json!({"key": key, "value": value}));
            return Reply::json(200, &Value::Array(variables.collect()));
        }
        Reply::json(200, &shown(&pipelines, rest.parse::<usize>().unwrap() - 1))
    })
}

#[tokio::test]
async fn pipeline_of_a_ci_system_is_started_once_also_if_the_server_is_killed() {
    let pipelines = Arc::new(Mutex::new(Pipelines { status: "running", ..Pipelines::default() }));
    let gitlab = gitlab(&pipelines);
    let mut installation = Installation::new();
    let repository = Repository::create(&[("README.md", "shop")]);
    installation
        .configure(&format!("repositories: {{shop: {{url: '{}', poll: 1s}}}}", repository.url()));
    for (name, token) in [("trigger", "trigger"), ("reader", "glpat-reader")] {
        std::fs::write(installation.path(name), format!("{token}\n")).unwrap();
    }
    let path = |name: &str| installation.path(name).display().to_string();
    let followers = format!(
        "controller: {{poll: 2s, watch: 1s, retry: {{first: 2s, longest: 4s}}}}
followers:
  - id: web
    source: {{repository: shop, branch: main}}
    adapter:
      gitlab-ci: {{project: shop/web, url: '{}', token-file: {}, api-token-file: {}, inputs: {{ENVIRONMENT: prod}}}}
",
        gitlab.url(),
        path("trigger"),
        path("reader"),
    );
    std::fs::write(installation.path("followers.yaml"), followers).unwrap();
    let bundle = gitlab.bundle().display().to_string();
    let arguments = ["--followers", "followers.yaml", "--ca-bundle", &bundle].map(str::to_owned);
    installation.serve(&arguments).await;
    let started = || pipelines.lock().unwrap().started.len();
    eventually("the pipeline", || started() == 1).await;
    let commit = repository.head();
    let variables = pipelines.lock().unwrap().started[0].clone();
    assert_eq!((&variables["COMMIT"], &variables["ENVIRONMENT"]), (&json!(commit), &json!("prod")));
    assert!(variables["CALLBACK_TOKEN"].is_null(), "{variables}");

    // The next server finds the pipeline, and does not start another one.
    installation.kill().await;
    installation.serve(&arguments).await;
    let status = || installation.json(&["follower", "status"])["followers"][0].clone();
    eventually("a reading", || {
        status()["message"].as_str().unwrap().contains("gitlab.example.com/1")
    })
    .await;
    pipelines.lock().unwrap().status = "success";
    eventually("the delivery", || status()["succeeded"] == *commit).await;
    assert_eq!(started(), 1);

    // A lost answer starts nothing twice, and a pipeline that failed is started again under another id.
    {
        let mut pipelines = pipelines.lock().unwrap();
        pipelines.loses_answer = true;
        pipelines.status = "failed";
    }
    repository.commit("Change", &[("README.md", "new")]);
    eventually("the second attempt", || started() == 3).await;
    let ids: Vec<Value> =
        pipelines.lock().unwrap().started.iter().map(|it| it["RUN_ID"].clone()).collect();
    assert_ne!(ids[1], ids[2]);
    assert!(ids[2].as_str().unwrap().ends_with("-a2"), "{ids:?}");
}
