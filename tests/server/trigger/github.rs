//! GitHub: the run of a dispatch is found despite other runs and clock skew.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use super::{CI_TOKEN, RUN_ID, TOKEN, machine, run_with_server};
use butler_testing::ci_server::{CiServer, Received, Reply};
use butler_testing::machine::{CommandOutput, Machine};

/// The arguments of a plain trigger command.
pub(super) const START: &[&str] = &[
    "trigger",
    "github-actions",
    "--repository",
    "octo/infra",
    "--workflow-file",
    "butler-run.yml",
    "--ref",
    "main",
];

/// A GitHub Enterprise server with one repository and one workflow whose `run-name` contains the
/// run id.
#[derive(Default)]
pub(super) struct GitHubServer {
    /// Newest last.
    pub(super) runs: Vec<Value>,
    /// Clock skew of the server in seconds; positive is ahead.
    pub(super) ahead: i64,
    /// Whether the dispatch response names the run.
    pub(super) says_details: bool,
    /// Number of list requests after a dispatch before its run is listed.
    pub(super) slow: usize,
    /// Replies to the next requests with this prefix.
    pub(super) faults: Vec<(&'static str, Reply)>,
    /// Runs that are not listed yet, with the number of list requests until they are.
    pub(super) hidden: Vec<(usize, Value)>,
}

impl GitHubServer {
    /// Starts the server.
    pub(super) fn start(self) -> (CiServer, Arc<Mutex<Self>>) {
        let hub = Arc::new(Mutex::new(self));
        let shared = hub.clone();
        let server = CiServer::start(move |request| {
            let mut hub = shared.lock().unwrap();
            let reply = hub.reply(request);
            let is_dated = matches!(
                &reply,
                Reply::Response { headers, .. } if headers.iter().any(|(name, _)| name == "date")
            );
            let date = httpdate::fmt_http_date(hub.now());
            if is_dated { reply } else { reply.with("date", date) }
        });
        (server, hub)
    }

    pub(super) fn now(&self) -> SystemTime {
        let ahead = Duration::from_secs(self.ahead.unsigned_abs());
        if self.ahead < 0 { SystemTime::now() - ahead } else { SystemTime::now() + ahead }
    }

    /// A run that another user started this long ago.
    pub(super) fn add(&mut self, title: &str, event: &str, ago: u64) -> u64 {
        let run = self.run(title, event, ago);
        let id = run["id"].as_u64().unwrap();
        self.runs.push(run);
        id
    }

    fn run(&self, title: &str, event: &str, ago: u64) -> Value {
        let id = 30_433_642 + self.runs.len() + self.hidden.len();
        let created = humantime::format_rfc3339_seconds(self.now() - Duration::from_secs(ago));
        json!({
            "id": id,
            "name": "Butler run",
            "display_title": title,
            "event": event,
            "path": ".github/workflows/butler-run.yml",
            "status": "queued",
            "conclusion": null,
            "created_at": created.to_string(),
            "html_url": format!("https://ghe.example.com/octo/infra/actions/runs/{id}"),
        })
    }

    fn order(&mut self, run_id: &str, event: &str) -> u64 {
        let run = self.run(&format!("Butler run {run_id}"), event, 0);
        let id = run["id"].as_u64().unwrap();
        self.hidden.push((self.slow, run));
        id
    }

    pub(super) fn reply(&mut self, request: &Received) -> Reply {
        let line = request.line();
        // A dispatch with a lost response still starts a run.
        let fault = self.faults.iter().position(|(beginning, _)| line.starts_with(beginning));
        if let Some(at) = fault {
            return self.faults.remove(at).1;
        }
        let path = request.path.strip_prefix("/api/v3/repos/octo/infra").unwrap_or("elsewhere");
        match (request.method.as_str(), path) {
            ("GET", "") => Reply::json(200, &json!({"default_branch": "trunk", "private": true})),
            ("POST", "/actions/workflows/butler-run.yml/dispatches") => self.dispatch(request),
            ("POST", "/dispatches") => {
                let run_id =
                    request.json()["client_payload"]["run_id"].as_str().unwrap().to_owned();
                self.order(&run_id, "repository_dispatch");
                Reply::empty(204)
            }
            ("GET", "/actions/workflows/butler-run.yml/runs" | "/actions/runs") => {
                self.list(request)
            }
            ("GET", path) if path.starts_with("/actions/runs/") => {
                let id = path.rsplit('/').next().unwrap().parse::<u64>().unwrap();
                match self.runs.iter().find(|run| run["id"] == id) {
                    Some(run) => Reply::json(200, run),
                    None => not_found(),
                }
            }
            _ => not_found(),
        }
    }

    fn dispatch(&mut self, request: &Received) -> Reply {
        let body = request.json();
        if !self.says_details && body.get("return_run_details").is_some() {
            let message = "Invalid request.\n\n\"return_run_details\" is not a permitted key.";
            return Reply::json(422, &json!({"message": message, "status": "422"}));
        }
        let id = self.order(body["inputs"]["run_id"].as_str().unwrap(), "workflow_dispatch");
        if self.says_details {
            let html_url = format!("https://ghe.example.com/octo/infra/actions/runs/{id}");
            return Reply::json(
                200,
                &json!({"workflow_run_id": id, "run_url": "x", "html_url": html_url}),
            );
        }
        Reply::empty(204)
    }

    /// Newest first, as in the API.
    fn list(&mut self, request: &Received) -> Reply {
        for (waits, run) in std::mem::take(&mut self.hidden) {
            match waits {
                0 => self.runs.push(run),
                waits => self.hidden.push((waits - 1, run)),
            }
        }
        let number = |name: &str, default| {
            request.query.get(name).map_or(default, |it| it.parse::<usize>().unwrap())
        };
        let (size, page) = (number("per_page", 30), number("page", 1));
        let since =
            request.query.get("created").map(|it| it.strip_prefix(">=").unwrap().to_owned());
        let fits = |run: &&Value| {
            request.query.get("event").is_none_or(|event| run["event"] == **event)
                && since
                    .as_ref()
                    .is_none_or(|since| run["created_at"].as_str().unwrap() >= since.as_str())
        };
        let all: Vec<&Value> = self.runs.iter().rev().filter(fits).collect();
        let shown: Vec<_> = all.iter().skip((page - 1) * size).take(size).collect();
        Reply::json(200, &json!({"total_count": all.len(), "workflow_runs": shown}))
    }
}

pub(super) fn not_found() -> Reply {
    let url = "https://docs.github.com/rest";
    Reply::json(404, &json!({"message": "Not Found", "documentation_url": url, "status": "404"}))
}

/// The printed id.
pub(super) fn printed(said: CommandOutput) -> u64 {
    let said = said.expect_success();
    let answer = said.json();
    let id = answer["externalRunId"].as_str().unwrap().parse().unwrap();
    assert_eq!(
        answer["externalUrl"],
        format!("https://ghe.example.com/octo/infra/actions/runs/{id}")
    );
    assert_eq!(answer.as_object().unwrap().len(), 2, "{answer}");
    id
}

/// The runs with this id on the server.
fn runs_of(hub: &Mutex<GitHubServer>, run_id: &str) -> Vec<u64> {
    let hub = hub.lock().unwrap();
    let all = hub.runs.iter().chain(hub.hidden.iter().map(|(_, run)| run));
    let title = format!("Butler run {run_id}");
    all.filter(|run| run["display_title"] == *title)
        .map(|run| run["id"].as_u64().unwrap())
        .collect()
}

#[test]
fn run_named_in_the_dispatch_response_is_used() {
    let (server, hub) = GitHubServer { says_details: true, ..GitHubServer::default() }.start();
    let id = printed(run_with_server(&machine(&server), &server, START));
    assert_eq!(runs_of(&hub, RUN_ID), [id]);
    let orders = server.received_by("POST");
    let [order] = &orders[..] else { panic!("{orders:?}") };
    assert_eq!(order.path, "/api/v3/repos/octo/infra/actions/workflows/butler-run.yml/dispatches");
    let expected = json!({
        "ref": "main",
        "inputs": {"run_id": RUN_ID, "callback_token": TOKEN},
        "return_run_details": true,
    });
    assert_eq!(order.json(), expected);
    assert_eq!(order.header("authorization"), format!("Bearer {CI_TOKEN}"));
    assert_eq!(order.header("accept"), "application/vnd.github+json");
    assert_eq!(order.header("x-github-api-version"), "2022-11-28");
    assert!(order.header("user-agent").starts_with("butler-runner/"));
}

#[test]
fn dispatch_without_return_run_details_finds_the_run_by_name() {
    let (server, hub) = GitHubServer { slow: 2, ..GitHubServer::default() }.start();
    hub.lock().unwrap().add("Butler run something else", "workflow_dispatch", 0);
    let id = printed(run_with_server(&machine(&server), &server, START));
    assert_eq!(runs_of(&hub, RUN_ID), [id]);
    let orders = server.received_by("POST");
    assert_eq!(orders.len(), 2, "the first was refused for the word");
    assert_eq!(orders[1].json().get("return_run_details"), None);
}

#[test]
fn two_dispatches_in_the_same_second_find_their_own_runs() {
    let ids = ["run-1", "run-12", "run-1-2"];
    let hub = Arc::new(Mutex::new(GitHubServer::default()));
    let shared = hub.clone();
    let server = CiServer::start(move |request| {
        let mut hub = shared.lock().unwrap();
        let reply = hub.reply(request);
        if request.method != "GET" {
            return reply;
        }
        // All appear at once, and the oldest has an id that is a prefix of the others.
        if hub.runs.len() < ids.len() {
            return Reply::json(200, &json!({"workflow_runs": []}));
        }
        hub.runs.sort_by_key(|run| run["display_title"].as_str().unwrap().len());
        hub.reply(request)
    });
    let children = ids.map(|run_id| {
        let mut machine = machine(&server);
        machine.set("BUTLER_RUN_ID", run_id);
        let url = server.url();
        let child = machine.command(&[START, &["--url", &url]].concat()).spawn().unwrap();
        (machine, child)
    });
    for (run_id, (machine, child)) in ids.into_iter().zip(children) {
        let id = printed(machine.output_of(&child.wait_with_output().unwrap()));
        assert_eq!(runs_of(&hub, run_id), [id], "{run_id}");
    }
}

#[test]
fn run_is_searched_by_the_clock_of_the_server() {
    for ahead in [-300_000, 300_000] {
        let (server, hub) = GitHubServer { ahead, ..GitHubServer::default() }.start();
        let id = printed(run_with_server(&machine(&server), &server, START));
        assert_eq!(runs_of(&hub, RUN_ID), [id], "{ahead}");
    }
}

#[test]
fn older_run_with_the_same_id_is_not_reported_as_the_new_one() {
    let (server, hub) = GitHubServer { slow: 1, ..GitHubServer::default() }.start();
    let old = hub.lock().unwrap().add(&format!("Butler run {RUN_ID}"), "workflow_dispatch", 1);
    let id = printed(run_with_server(&machine(&server), &server, START));
    assert_ne!(id, old);
    assert_eq!(runs_of(&hub, RUN_ID), [old, id]);
}

#[test]
fn run_on_the_second_page_of_the_list_is_found() {
    let (server, hub) = GitHubServer { slow: 0, ..GitHubServer::default() }.start();
    // Other runs appear between the dispatch and the first list request.
    let title = "Butler run of somebody else";
    let made = Mutex::new(false);
    let shared = hub.clone();
    let crowded = CiServer::start(move |request| {
        let mut hub = shared.lock().unwrap();
        let reply = hub.reply(request);
        let is_order =
            request.method == "POST" && matches!(reply, Reply::Response { status: 204, .. });
        if is_order && !std::mem::replace(&mut *made.lock().unwrap(), true) {
            let (_, run) = hub.hidden.pop().unwrap();
            hub.runs.push(run);
            for _ in 0..130 {
                hub.add(title, "workflow_dispatch", 0);
            }
        }
        reply
    });
    drop(server);
    let id = printed(run_with_server(&machine(&crowded), &crowded, START));
    assert_eq!(runs_of(&hub, RUN_ID), [id]);
    let pages: Vec<_> =
        crowded.received_by("GET").iter().map(|it| it.query["page"].clone()).collect();
    assert_eq!(pages, ["1", "1", "2"]);
}

#[test]
fn repository_dispatch_sends_the_documented_payload() {
    let (server, hub) = GitHubServer::default().start();
    let words = [
        "trigger",
        "github",
        "--repository",
        "octo/infra",
        "--event",
        "repository_dispatch",
        "--input",
        "operation=plan",
        "--input",
        "module_name=vpc",
    ];
    let id = printed(run_with_server(&machine(&server), &server, &words));
    assert_eq!(runs_of(&hub, RUN_ID), [id]);
    let orders = server.received_by("POST");
    assert_eq!(orders[0].path, "/api/v3/repos/octo/infra/dispatches");
    let expected = json!({
        "event_type": "butler-run",
        "client_payload": {
            "butler_url": "https://portal.example.com/api/registry",
            "run_id": RUN_ID,
            "callback_token": TOKEN,
            "operation": "plan",
            "module_name": "vpc",
        },
    });
    assert_eq!(orders[0].json(), expected);
}

#[test]
fn ci_config_names_the_repository_and_a_mounted_secret_the_credentials() {
    let (server, hub) = GitHubServer { says_details: true, ..GitHubServer::default() }.start();
    let mut machine = machine(&server);
    machine.set("BUTLER_CI_TOKEN", "");
    let secret = machine.path("secrets/butler-system/github");
    std::fs::create_dir_all(&secret).unwrap();
    std::fs::write(secret.join("token"), format!("{CI_TOKEN}\n")).unwrap();
    machine.set("BUTLER_SECRETS_DIR", machine.path("secrets"));
    let config = json!({
        "provider": "github-actions",
        "url": server.url(),
        "repository": "octo/infra",
        "workflowFile": "butler-run.yml",
        "credentials": {"source": "secret", "ref": "butler-system/github", "key": "token"},
        "later": true,
    });
    std::fs::write(machine.path("ci.json"), config.to_string()).unwrap();
    let id = printed(machine.run(&["trigger", "github-actions", "--ci-config", "ci.json"]));
    assert_eq!(runs_of(&hub, RUN_ID), [id]);
    let order = server.received_by("POST").remove(0);
    assert_eq!(order.header("authorization"), format!("Bearer {CI_TOKEN}"));
    assert_eq!(order.json()["ref"], "trunk", "the default branch was asked for");
}

#[test]
fn ci_config_is_read_from_standard_input() {
    use std::io::Write;
    let (server, hub) = GitHubServer { says_details: true, ..GitHubServer::default() }.start();
    let machine = machine(&server);
    let config =
        json!({"url": server.url(), "repository": "octo/other", "workflowFile": "butler-run.yml"});
    let words = ["trigger", "github", "--ci-config", "-", "--repository", "octo/infra"];
    let mut command = machine.command(&words);
    let mut child = command.stdin(std::process::Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(config.to_string().as_bytes()).unwrap();
    let id = printed(machine.output_of(&child.wait_with_output().unwrap()));
    assert_eq!(runs_of(&hub, RUN_ID), [id]);
}

#[test]
fn run_id_is_in_the_hint_if_it_cannot_be_printed() {
    let (server, hub) = GitHubServer { says_details: true, ..GitHubServer::default() }.start();
    let machine = machine(&server);
    let url = server.url();
    let mut command = machine.command(&[START, &["--url", &url]].concat());
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let said = machine.output_of(&command.stdout(full).output().unwrap());
    assert_eq!(said.code, Some(1));
    let [id] = runs_of(&hub, RUN_ID)[..] else { panic!("{said:?}") };
    let hint = format!("hint: its externalRunId is {id}; do not start it again\n");
    assert!(said.stderr.ends_with(&hint), "{}", said.stderr);
}

/// Status and exit code of `ci-status` for a run in this state.
fn status_of(machine: &Machine, server: &CiServer, id: u64) -> (Value, Option<i32>) {
    let words = ["ci-status", "github", "--repository", "octo/infra"];
    let id = id.to_string();
    let said =
        run_with_server(machine, server, &[&words[..], &["--external-run-id", &id]].concat());
    (said.json(), said.code)
}

#[test]
fn status_uses_the_names_of_the_registry_and_an_exit_code() {
    let (server, hub) = GitHubServer::default().start();
    let machine = machine(&server);
    let id = hub.lock().unwrap().add("x", "workflow_dispatch", 0);
    for (status, conclusion, expected, code) in [
        ("waiting", Value::Null, "pending", 5),
        ("queued", Value::Null, "queued", 5),
        ("in_progress", Value::Null, "running", 5),
        ("completed", json!("success"), "succeeded", 0),
        ("completed", json!("failure"), "failed", 1),
        ("completed", json!("timed_out"), "timed_out", 1),
        ("completed", json!("cancelled"), "cancelled", 3),
        ("completed", json!("skipped"), "skipped", 3),
    ] {
        let run = &mut hub.lock().unwrap().runs[0].clone();
        (run["status"], run["conclusion"]) = (json!(status), conclusion);
        hub.lock().unwrap().runs[0] = run.clone();
        let (state, exit) = status_of(&machine, &server, id);
        assert_eq!((&state["status"], exit), (&json!(expected), Some(code)), "{state}");
        assert_eq!(state["externalRunId"], id.to_string());
    }
}

#[test]
fn triggered_run_is_followed_to_its_end() {
    let (server, hub) = GitHubServer::default().start();
    let id = hub.lock().unwrap().add("x", "workflow_dispatch", 0);
    let asked = Mutex::new(0);
    let shared = hub.clone();
    let server_that_ends = CiServer::start(move |request| {
        let mut asked = asked.lock().unwrap();
        *asked += 1;
        let run = &mut shared.lock().unwrap().runs[0].clone();
        match *asked {
            1 => {}
            // A single 404 does not end the wait.
            2 => return Reply::empty(502),
            _ => (run["status"], run["conclusion"]) = (json!("completed"), json!("cancelled")),
        }
        assert_eq!(request.path, format!("/api/v3/repos/octo/infra/actions/runs/{id}"));
        Reply::json(200, run)
    });
    drop(server);
    let machine = machine(&server_that_ends);
    let id = id.to_string();
    let words = ["ci-status", "github", "--repository", "octo/infra"];
    let words = [&words[..], &["--wait", "--external-run-id", &id]].concat();
    let said = run_with_server(&machine, &server_that_ends, &words);
    assert_eq!((said.code, &said.json()["status"]), (Some(3), &json!("cancelled")));
}
