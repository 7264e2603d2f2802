//! GitLab: a trigger token starts a pipeline, and an access token reads it and finds it after a
//! lost response.

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::{RUN_ID, TOKEN, error_text, machine};
use butler_testing::ci_server::{CiServer, Received, Reply};
use butler_testing::machine::Machine;

const TRIGGER_TOKEN: &str = "glptt-hunter2hunter2";
const ACCESS_TOKEN: &str = "glpat-hunter3hunter3";

const START: &[&str] = &[
    "trigger",
    "gitlab-ci",
    "--repository",
    "group/sub/infra",
    "--ref",
    "main",
    "--timeout",
    "4s",
];

/// The path of the project, as one segment.
const PROJECT: &str = "/gitlab/api/v4/projects/group%2Fsub%2Finfra";

fn pipeline(id: u64, status: &str) -> Value {
    json!({
        "id": id,
        "iid": 3,
        "project_id": 7,
        "status": status,
        "source": "trigger",
        "ref": "main",
        "name": null,
        "created_at": humantime::format_rfc3339_millis(std::time::SystemTime::now()).to_string(),
        "web_url": format!("https://gitlab.example.com/group/sub/infra/-/pipelines/{id}"),
    })
}

fn gitlab_machine(server: &CiServer, access: bool) -> Machine {
    let mut machine = machine(server);
    machine.set("BUTLER_CI_TOKEN", TRIGGER_TOKEN);
    if access {
        machine.set("BUTLER_CI_API_TOKEN", ACCESS_TOKEN);
    }
    machine
}

/// The path below the project.
fn below(request: &Received) -> String {
    let path = request.path.strip_prefix(PROJECT).unwrap_or_else(|| panic!("{}", request.path));
    format!("{} {path}", request.method)
}

/// Runs the command with a GitLab below `/gitlab`.
fn run_with_server_below(
    machine: &Machine,
    server: &CiServer,
    words: &[&str],
) -> butler_testing::machine::CommandOutput {
    let url = format!("{}/gitlab", server.url());
    machine.run(&[words, &["--url", &url]].concat())
}

#[test]
fn trigger_token_is_sent_in_the_request_body() {
    let server = CiServer::start(|request| {
        assert_eq!(below(request), "POST /trigger/pipeline");
        Reply::json(201, &pipeline(257, "pending"))
    });
    let words = [START, &["--input", "operation=plan"]].concat();
    let said =
        run_with_server_below(&gitlab_machine(&server, false), &server, &words).expect_success();
    let expected = json!({
        "externalRunId": "257",
        "externalUrl": "https://gitlab.example.com/group/sub/infra/-/pipelines/257",
    });
    assert_eq!(said.json(), expected);
    let received = server.received();
    let [order] = &received[..] else { panic!("{received:?}") };
    assert!(order.query.is_empty());
    let expected = json!({
        "token": TRIGGER_TOKEN,
        "ref": "main",
        "variables": {
            "RUN_ID": RUN_ID,
            "CALLBACK_TOKEN": TOKEN,
            "BUTLER_ENDPOINT": "https://portal.example.com/api/registry",
            "operation": "plan",
        },
    });
    assert_eq!(order.json(), expected);
}

#[test]
fn default_branch_is_read_with_the_access_token() {
    let server = CiServer::start(|request| match below(request).as_str() {
        "GET " => Reply::json(200, &json!({"id": 7, "default_branch": "trunk"})),
        _ => Reply::json(201, &pipeline(257, "pending")),
    });
    let words = ["trigger", "gitlab", "--project", "group/sub/infra"];
    run_with_server_below(&gitlab_machine(&server, true), &server, &words).expect_success();
    let received = server.received();
    assert_eq!(received[0].header("private-token"), ACCESS_TOKEN);
    assert_eq!(received[1].json()["ref"], "trunk");
    assert_eq!(received[1].header("private-token"), "", "the order needs only its own token");
    let said = run_with_server_below(&gitlab_machine(&server, false), &server, &words);
    expect![[r"
        error: GitLab needs a branch or tag
        hint: add --ref NAME; a trigger token cannot ask for the default branch
    "]]
    .assert_eq(&error_text(&said, 2));
}

/// A GitLab that starts pipelines without naming them; afterwards its list contains `made`.
fn server_without_run_id_in_response(answer: Reply, made: bool, named: bool) -> CiServer {
    let mut started = false;
    CiServer::start(move |request| match below(request).as_str() {
        "POST /trigger/pipeline" => {
            assert!(!std::mem::replace(&mut started, true), "ordered twice");
            answer.clone()
        }
        "GET /pipelines" => {
            assert_eq!(request.query["source"], "trigger");
            assert_eq!(request.query["ref"], "main");
            let mut ours = pipeline(300, "created");
            if named {
                ours["name"] = json!(format!("Butler run {RUN_ID}"));
            }
            let mut old = pipeline(100, "success");
            old["created_at"] = json!("2026-01-01T00:00:00.000Z");
            let all = if made {
                vec![pipeline(301, "created"), ours, old]
            } else {
                vec![pipeline(301, "created"), old]
            };
            Reply::json(200, &json!(all))
        }
        "GET /pipelines/300/variables" => Reply::json(
            200,
            &json!([{"key": "RUN_ID", "variable_type": "env_var", "value": RUN_ID}]),
        ),
        "GET /pipelines/301/variables" => Reply::json(
            200,
            &json!([{"key": "RUN_ID", "variable_type": "env_var", "value": "another"}]),
        ),
        "GET /pipelines/100/variables" => panic!("it is older than the order"),
        other => panic!("{other}"),
    })
}

#[test]
fn pipeline_is_found_by_name_or_variables_after_a_lost_response() {
    for named in [true, false] {
        let server = server_without_run_id_in_response(Reply::Lost, true, named);
        let said =
            run_with_server_below(&gitlab_machine(&server, true), &server, START).expect_success();
        assert_eq!(said.json()["externalRunId"], "300");
    }
}

#[test]
fn pipeline_is_found_if_the_trigger_response_does_not_name_it() {
    for answer in [
        Reply::json(201, &json!({"message": "created"})),
        Reply::page(201, "{\"id\": 3"),
        Reply::empty(202),
        Reply::page(408, "Request Timeout"),
    ] {
        let server = server_without_run_id_in_response(answer, true, false);
        let said =
            run_with_server_below(&gitlab_machine(&server, true), &server, START).expect_success();
        assert_eq!(said.json()["externalRunId"], "300");
        let asked = server.received();
        let asked = asked.iter().filter(|it| it.path.ends_with("/301/variables")).count();
        assert_eq!(asked, 1);
    }
}

#[test]
fn pipeline_that_is_not_found_is_reported_as_unclear_and_not_repeated() {
    for answer in [Reply::Lost, Reply::json(201, &json!({"message": "created"}))] {
        let server = server_without_run_id_in_response(answer, false, false);
        let said = run_with_server_below(&gitlab_machine(&server, true), &server, START);
        let text = error_text(&said, 1);
        assert!(text.starts_with("error: unclear whether GitLab started a run"), "{text}");
        assert!(
            text.ends_with(
                "hint: look at the pipelines of `group/sub/infra` before you start it again\n"
            ),
            "{text}"
        );
        let asked = server.received();
        let asked = |end: &str| asked.iter().filter(|it| it.path.ends_with(end)).count();
        assert!(asked("/pipelines") > 1, "it is looked for more than once");
        assert_eq!(asked("/301/variables"), 1, "and what another one was started with but once");
    }
    let server = server_without_run_id_in_response(Reply::Lost, true, true);
    let text =
        error_text(&run_with_server_below(&gitlab_machine(&server, false), &server, START), 1);
    assert!(
        text.contains("to let the runner search, set BUTLER_CI_API_TOKEN to an access token"),
        "{text}"
    );
}

#[test]
fn malformed_project_is_a_usage_error() {
    let server = CiServer::start(|_| panic!("nothing is asked"));
    for project in ["/", "..", "."] {
        let place = ["--repository", project, "--ref", "main", "--timeout", "2s"];
        let words = [&["trigger", "gitlab-ci"], &place[..]].concat();
        let text =
            error_text(&run_with_server_below(&gitlab_machine(&server, true), &server, &words), 2);
        assert!(text.contains("is neither GROUP/PROJECT nor a number"), "{text}");
    }
}

#[test]
fn trigger_is_retried_after_the_rate_limit() {
    let mut asked = 0;
    let server = CiServer::start(move |_| {
        asked += 1;
        match asked {
            1 => Reply::page(429, "Retry later\n")
                .with("retry-after", "1")
                .with("ratelimit-remaining", "0"),
            _ => Reply::json(201, &pipeline(257, "pending")),
        }
    });
    run_with_server_below(&gitlab_machine(&server, false), &server, START).expect_success();
    assert_eq!(server.received().len(), 2);
}

#[test]
fn gitlab_refusals_name_the_missing_permission() {
    let refused = |token: &str, status: u16, body: Value, expected: &Expect| {
        let server = CiServer::start(move |_| Reply::json(status, &body));
        let mut machine = gitlab_machine(&server, false);
        machine.set("BUTLER_CI_TOKEN", token);
        expected.assert_eq(&error_text(&run_with_server_below(&machine, &server, START), 4));
        assert_eq!(server.received().len(), 1);
    };
    refused(
        TRIGGER_TOKEN,
        404,
        json!({"message": "404 Not Found"}),
        &expect![[r"
        error: GitLab refused to start the pipeline: 404 Not Found: 404 Not Found
        hint: check `group/sub/infra`, and that the trigger token is one of this project's and its owner still a member
    "]],
    );
    refused(
        ACCESS_TOKEN,
        404,
        json!({"message": "404 Not Found"}),
        &expect![[r"
        error: GitLab refused to start the pipeline: 404 Not Found: 404 Not Found
        hint: this is an access token; pipelines are started with a trigger token (`glptt-...`, Settings > CI/CD > Pipeline trigger tokens)
    "]],
    );
    refused(
        TRIGGER_TOKEN,
        403,
        json!({"message": "403 Forbidden"}),
        &expect![[r"
        error: GitLab refused to start the pipeline: 403 Forbidden: 403 Forbidden
        hint: the owner of the trigger token needs the role Developer, and may have to be allowed to run pipelines on this branch
    "]],
    );
    refused(
        TRIGGER_TOKEN,
        400,
        json!({"message": {"base": ["Reference not found"]}}),
        &expect![[r"
        error: GitLab refused to start the pipeline: 400 Bad Request: Reference not found
        hint: check --ref: the project has no branch or tag `main`
    "]],
    );
    let variables =
        json!({"message": {"base": ["Insufficient permissions to set pipeline variables"]}});
    refused(
        TRIGGER_TOKEN,
        400,
        variables,
        &expect![[r"
        error: GitLab refused to start the pipeline: 400 Bad Request: Insufficient permissions to set pipeline variables
        hint: allow the owner of the trigger token to set pipeline variables (Settings > CI/CD > Variables: minimum role)
    "]],
    );
    let rules = "Pipeline will not run for the selected trigger. The rules configuration prevented any jobs from being added to the pipeline.";
    refused(
        TRIGGER_TOKEN,
        400,
        json!({"message": {"base": [rules]}}),
        &expect![[r"
        error: GitLab refused to start the pipeline: 400 Bad Request: Pipeline will not run for the selected trigger. The rules configuration prevented any jobs from being added to the pipeline.
        hint: check the project's .gitlab-ci.yml: its rules have to let pipelines of triggers run
    "]],
    );
}

#[test]
fn sign_in_page_is_not_a_pipeline() {
    let server = CiServer::start(|_| Reply::empty(302).with("location", "/users/sign_in"));
    let said = run_with_server_below(&gitlab_machine(&server, false), &server, START);
    expect![[r"
        error: GitLab redirects to `<server>/users/sign_in` when asked to start the pipeline
        hint: this is a sign-in page: the credentials were rejected, or --url is not the address of the API
    "]].assert_eq(&error_text(&said, 4));
    // A success page of a proxy may mean that the request was forwarded.
    let server = CiServer::start(|_| Reply::page(200, "<!DOCTYPE html>"));
    let said = run_with_server_below(&gitlab_machine(&server, false), &server, START);
    let text = error_text(&said, 1);
    assert!(
        text.contains(
            "the response is not from GitLab's API: a web page); no matching run was found"
        ),
        "{text}"
    );
}

#[test]
fn status_is_read_with_the_access_token() {
    for (status, expected, code) in [
        ("created", "pending", 5),
        ("waiting_for_resource", "queued", 5),
        ("running", "running", 5),
        ("canceling", "running", 5),
        ("success", "succeeded", 0),
        ("failed", "failed", 1),
        ("canceled", "cancelled", 3),
        ("skipped", "skipped", 3),
    ] {
        let server = CiServer::start(move |request| {
            assert_eq!(below(request), "GET /pipelines/257");
            assert_eq!(request.header("private-token"), ACCESS_TOKEN);
            Reply::json(200, &pipeline(257, status))
        });
        let words = [
            "ci-status",
            "gitlab-ci",
            "--repository",
            "group/sub/infra",
            "--external-run-id",
            "257",
        ];
        let said = run_with_server_below(&gitlab_machine(&server, true), &server, &words);
        assert_eq!((said.code, &said.json()["status"]), (Some(code), &json!(expected)));
        assert_eq!(said.json()["reported"], status);
    }
    let server = CiServer::start(|request| {
        assert_eq!(request.header("private-token"), "", "a trigger token reads nothing");
        Reply::json(404, &json!({"message": "404 Project Not Found"}))
    });
    let words =
        ["ci-status", "gitlab-ci", "--repository", "group/sub/infra", "--external-run-id", "257"];
    let said = run_with_server_below(&gitlab_machine(&server, false), &server, &words);
    expect![[r"
        error: GitLab refused to read the pipeline's state: 404 Not Found: 404 Project Not Found
        hint: GitLab hides private projects: give an access token with the scope `read_api` in BUTLER_CI_API_TOKEN, and check `group/sub/infra`
    "]].assert_eq(&error_text(&said, 4));
}
