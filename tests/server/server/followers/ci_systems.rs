//! Followers whose commits a CI system delivers. The APIs are stand-ins ([`CiServer`]), because none can be installed here.

use std::sync::{Arc, Mutex};

use super::*;
use butler_testing::ci_server::{CiServer, Received, Reply};

/// The runs of a CI system.
#[derive(Default)]
struct Runs {
    /// The inputs of each one, in their order.
    started: Vec<Value>,
    /// The status of all of them, in the words of the CI system.
    status: &'static str,
    /// Whether the next answer to a start is lost.
    loses_answer: bool,
}

impl Runs {
    /// Notes a run. The answer is lost if that was asked for.
    fn start(&mut self, inputs: Value, answer: impl FnOnce(&Self, usize) -> Reply) -> Reply {
        self.started.push(inputs);
        if std::mem::take(&mut self.loses_answer) {
            return Reply::Lost;
        }
        answer(self, self.started.len())
    }
}

fn now() -> String {
    humantime::format_rfc3339_millis(std::time::SystemTime::now()).to_string()
}

/// A GitLab with the project `shop/web`.
fn gitlab(runs: &mut Runs, request: &Received) -> Reply {
    let path = request.path.strip_prefix("/api/v4/projects/shop%2Fweb").unwrap().to_owned();
    let shown = |runs: &Runs, id: usize| {
        json!({"id": id, "status": runs.status, "ref": "main", "name": null, "created_at": now(),
            "web_url": format!("https://ci.example.com/{id}")})
    };
    if path == "/trigger/pipeline" {
        let body = request.json();
        assert_eq!((&body["token"], &body["ref"]), (&json!("starter"), &json!("main")));
        return runs
            .start(body["variables"].clone(), |runs, id| Reply::json(201, &shown(runs, id)));
    }
    assert_eq!(request.header("private-token"), "glpat-reader");
    if path == "/pipelines" {
        let all = (1..=runs.started.len()).rev().map(|id| shown(runs, id));
        return Reply::json(200, &Value::Array(all.collect()));
    }
    let rest = path.strip_prefix("/pipelines/").unwrap();
    if let Some(id) = rest.strip_suffix("/variables") {
        let variables = runs.started[id.parse::<usize>().unwrap() - 1].as_object().unwrap();
        let variables = variables.iter().map(|(key, value)| json!({"key": key, "value": value}));
        return Reply::json(200, &Value::Array(variables.collect()));
    }
    Reply::json(200, &shown(runs, rest.parse().unwrap()))
}

/// A GitHub Enterprise server with the workflow `deploy.yml`, whose `run-name` is the id of the run.
fn github(runs: &mut Runs, request: &Received) -> Reply {
    assert_eq!(request.header("authorization"), "Bearer starter");
    let path = request.path.strip_prefix("/api/v3/repos/shop/web/actions").unwrap().to_owned();
    let shown = |runs: &Runs, id: usize| {
        let is_over = runs.status != "in_progress";
        json!({"id": id, "display_title": runs.started[id - 1]["run_id"], "event": "workflow_dispatch",
            "path": ".github/workflows/deploy.yml", "created_at": now(),
            "status": if is_over { "completed" } else { "in_progress" },
            "conclusion": is_over.then_some(runs.status),
            "html_url": format!("https://ci.example.com/{id}")})
    };
    let reply = match &*path {
        "/workflows/deploy.yml/dispatches" => {
            let body = request.json();
            assert_eq!(body["ref"], "main");
            runs.start(body["inputs"].clone(), |_, id| {
                let url = format!("https://ci.example.com/{id}");
                Reply::json(200, &json!({"workflow_run_id": id, "html_url": url}))
            })
        }
        "/workflows/deploy.yml/runs" => {
            let all: Vec<Value> =
                (1..=runs.started.len()).rev().map(|id| shown(runs, id)).collect();
            Reply::json(200, &json!({"total_count": all.len(), "workflow_runs": all}))
        }
        path => {
            let id = path.strip_prefix("/runs/").unwrap().parse().unwrap();
            Reply::json(200, &shown(runs, id))
        }
    };
    reply.with("date", httpdate::fmt_http_date(std::time::SystemTime::now()))
}

/// A Jenkins with the job `shop`, whose queue is always empty.
fn jenkins(runs: &mut Runs, request: &Received) -> Reply {
    let build = |runs: &Runs, number: usize| {
        let result = (runs.status != "building").then_some(runs.status);
        let parameters = runs.started[number - 1].as_object().unwrap().iter();
        let parameters: Vec<Value> =
            parameters.map(|(name, value)| json!({"name": name, "value": value})).collect();
        json!({"number": number, "queueId": number, "building": result.is_none(), "result": result,
            "actions": [{"parameters": parameters}]})
    };
    match &*request.line() {
        "GET /crumbIssuer/api/json" => Reply::page(404, "<html><title>Error 404 Not Found</title>"),
        "GET /queue/api/json" => Reply::json(200, &json!({"items": []})),
        "POST /job/shop/buildWithParameters" => runs.start(json!(request.form()), |_, number| {
            Reply::empty(201).with("location", format!("http://inside/queue/item/{number}/"))
        }),
        "GET /job/shop/api/json" => {
            let names = ["RUN_ID", "COMMIT", "FOLLOWER", "ENVIRONMENT"];
            let declared =
                names.map(|name| json!({"name": name, "type": "StringParameterDefinition"}));
            let builds: Vec<Value> =
                (1..=runs.started.len()).rev().map(|number| build(runs, number)).collect();
            Reply::json(
                200,
                &json!({"builds": builds, "nextBuildNumber": runs.started.len() + 1,
                "property": [{"parameterDefinitions": declared}]}),
            )
        }
        line => {
            let path = line.strip_prefix("GET ").unwrap();
            if let Some(item) = path.strip_prefix("/queue/item/") {
                let number: usize = item.split('/').next().unwrap().parse().unwrap();
                return Reply::json(
                    200,
                    &json!({"id": number, "cancelled": false,
                    "executable": {"number": number}}),
                );
            }
            let number = path.strip_prefix("/job/shop/").unwrap().split('/').next().unwrap();
            Reply::json(200, &build(runs, number.parse().unwrap()))
        }
    }
}

/// A CI system, with its words for runs that run, succeeded and failed.
struct Case {
    api: fn(&mut Runs, &Received) -> Reply,
    adapter: &'static str,
    words: [&'static str; 3],
    /// The inputs with the id and with the commit.
    inputs: [&'static str; 2],
}

/// A run is started once, also by a server that is killed after it. One that failed is started again.
async fn starts_each_run_once(case: Case) {
    let [running, succeeded, failed] = case.words;
    let runs = Arc::new(Mutex::new(Runs { status: running, ..Runs::default() }));
    let kept = Arc::clone(&runs);
    let server = CiServer::start(move |request| (case.api)(&mut kept.lock().unwrap(), request));
    let mut installation = Installation::new();
    let repository = Repository::create(&[("README.md", "shop")]);
    installation
        .configure(&format!("repositories: {{shop: {{url: '{}', poll: 1s}}}}", repository.url()));
    for (name, token) in [("starter", "starter"), ("reader", "glpat-reader")] {
        std::fs::write(installation.path(name), format!("{token}\n")).unwrap();
    }
    let path = |name: &str| installation.path(name).display().to_string();
    let adapter = case.adapter.replace("SERVER", &server.url());
    let adapter = adapter.replace("STARTER", &path("starter")).replace("READER", &path("reader"));
    let followers = format!(
        "controller: {{poll: 2s, watch: 1s, retry: {{first: 2s, longest: 4s}}}}
followers:
  - {{id: web, source: {{repository: shop, branch: main}}, adapter: {{{adapter}}}}}
"
    );
    std::fs::write(installation.path("followers.yaml"), followers).unwrap();
    let bundle = server.bundle().display().to_string();
    let arguments = ["--followers", "followers.yaml", "--ca-bundle", &bundle].map(str::to_owned);
    installation.serve(&arguments).await;
    let started = || runs.lock().unwrap().started.len();
    eventually("the run", || started() == 1).await;
    let commit = repository.head();
    let inputs = runs.lock().unwrap().started[0].clone();
    let [id, of_commit] = case.inputs;
    assert_eq!((&inputs[of_commit], &inputs["ENVIRONMENT"]), (&json!(commit), &json!("prod")));
    assert!(!inputs.to_string().to_lowercase().contains("callback_token"), "{inputs}");

    // The next server finds the run, and does not start another one.
    installation.kill().await;
    installation.serve(&arguments).await;
    let status = || installation.json(&["follower", "status"])["followers"][0].clone();
    eventually("a reading", || status()["message"].as_str().unwrap().contains("is running: "))
        .await;
    runs.lock().unwrap().status = succeeded;
    eventually("the delivery", || status()["succeeded"] == *commit).await;
    assert_eq!(started(), 1);
    let logs = text(&installation.ask(&["follower", "logs", "--follower", "web"]));
    assert!(logs.contains("the CI system has the log"), "{logs}");

    // A lost answer starts nothing twice, and a run that failed is started again under another id.
    {
        let mut runs = runs.lock().unwrap();
        runs.loses_answer = true;
        runs.status = failed;
    }
    repository.commit("Change", &[("README.md", "new")]);
    eventually("the second attempt", || started() == 3).await;
    let ids: Vec<Value> = runs.lock().unwrap().started.iter().map(|it| it[id].clone()).collect();
    assert_ne!(ids[1], ids[2]);
    assert!(ids[2].as_str().unwrap().ends_with("-a2"), "{ids:?}");
}

#[tokio::test]
async fn pipeline_of_a_ci_system_is_started_once_also_if_the_server_is_killed() {
    starts_each_run_once(Case {
        api: gitlab,
        adapter: "gitlab-ci: {project: shop/web, url: 'SERVER', token-file: STARTER, api-token-file: READER, inputs: {ENVIRONMENT: prod}}",
        words: ["running", "success", "failed"],
        inputs: ["RUN_ID", "COMMIT"],
    })
    .await;
}

#[tokio::test]
async fn workflow_of_github_is_started_once_also_if_the_server_is_killed() {
    starts_each_run_once(Case {
        api: github,
        adapter: "github-actions: {repository: shop/web, workflow: deploy.yml, url: 'SERVER', token-file: STARTER, inputs: {ENVIRONMENT: prod}}",
        words: ["in_progress", "success", "failure"],
        inputs: ["run_id", "commit"],
    })
    .await;
}

#[tokio::test]
async fn job_of_jenkins_is_started_once_also_if_the_server_is_killed() {
    starts_each_run_once(Case {
        api: jenkins,
        adapter: "jenkins: {job: shop, url: 'SERVER', user: bot, token-file: STARTER, inputs: {ENVIRONMENT: prod}}",
        words: ["building", "SUCCESS", "FAILURE"],
        inputs: ["RUN_ID", "COMMIT"],
    })
    .await;
}
