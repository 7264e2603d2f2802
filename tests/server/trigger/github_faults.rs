//! GitHub when it refuses, is at its limits, or its answer is lost: what is said, and that nothing is
//! ordered twice.

use expect_test::{Expect, expect};
use serde_json::json;

use super::github::{GitHubServer, START, not_found, printed};
use super::{CI_TOKEN, error_text, machine, run_with_server};
use butler_testing::HeldPort;
use butler_testing::ci_server::{CiServer, Reply};

const DISPATCH: &str = "POST /api/v3/repos/octo/infra/actions/workflows/butler-run.yml/dispatches";
const RUNS: &str = "GET /api/v3/repos/octo/infra/actions/workflows/butler-run.yml/runs";

fn refusal(status: u16, message: &str) -> Reply {
    let body = json!({"message": message, "documentation_url": "https://docs.github.com/rest"});
    Reply::json(status, &body).with("x-ratelimit-remaining", "4999")
}

/// Orders at a server that answers the first request of this beginning so; says what was complained.
fn refused(beginning: &'static str, reply: Reply, code: i32, expected: &Expect) -> CiServer {
    let hub = GitHubServer {
        says_details: true,
        faults: vec![(beginning, reply)],
        ..GitHubServer::default()
    };
    let (server, _) = hub.start();
    let words = [START, &["--timeout", "3s"]].concat();
    let said = run_with_server(&machine(&server), &server, &words);
    expected.assert_eq(&error_text(&said, code));
    server
}

#[test]
fn not_found_error_lists_what_to_check() {
    let server = refused(
        RUNS,
        not_found(),
        4,
        &expect![[r"
        error: GitHub refused to list the workflow's runs: 404 Not Found: Not Found
        hint: GitHub hides what a token may not see: check the repository `octo/infra` and its workflow `butler-run.yml`, which has to be on the default branch, and that the token is for it, with `actions: write` (classic: the scope `repo`)
    "]],
    );
    assert!(server.received_by("POST").is_empty(), "nothing is started that could not be found");
}

#[test]
fn wrong_token_and_missing_permission_are_reported() {
    let bad = refusal(401, "Bad credentials");
    refused(
        RUNS,
        bad,
        4,
        &expect![[r"
        error: GitHub refused to list the workflow's runs: 401 Unauthorized: Bad credentials
        hint: the token is wrong, expired, or revoked; classic tokens start with `ghp_`, fine-grained ones with `github_pat_`
    "]],
    );
    let fine = refusal(403, "Resource not accessible by personal access token")
        .with("x-accepted-github-permissions", "actions=write");
    refused(
        DISPATCH,
        fine,
        4,
        &expect![[r"
        error: GitHub refused to start the workflow: 403 Forbidden: Resource not accessible by personal access token
        hint: the token needs the permission `actions=write`
    "]],
    );
    let classic = refusal(403, "Must have admin rights to Repository.")
        .with("x-oauth-scopes", "read:org")
        .with("x-accepted-oauth-scopes", "repo");
    refused(
        DISPATCH,
        classic,
        4,
        &expect![[r"
        error: GitHub refused to start the workflow: 403 Forbidden: Must have admin rights to Repository.
        hint: a classic token needs the scope `repo`; this one has `read:org`
    "]],
    );
    let sso = refusal(403, "Resource protected by organization SAML enforcement.").with(
        "x-github-sso",
        "required; url=https://github.com/orgs/octo/sso?authorization_request=A1",
    );
    refused(
        RUNS,
        sso,
        4,
        &expect![[r"
        error: GitHub refused to list the workflow's runs: 403 Forbidden: Resource protected by organization SAML enforcement.
        hint: authorize the token for the organization's single sign-on: https://github.com/orgs/octo/sso
    "]],
    );
}

#[test]
fn workflow_that_rejects_the_dispatch_is_reported_with_the_reason() {
    let no_trigger = refusal(422, "Workflow does not have 'workflow_dispatch' trigger");
    refused(
        DISPATCH,
        no_trigger,
        4,
        &expect![[r"
        error: GitHub refused to start the workflow: 422 Unprocessable Entity: Workflow does not have 'workflow_dispatch' trigger
        hint: add `workflow_dispatch` to `on:` of `butler-run.yml` on the branch --ref names, or use --event repository_dispatch
    "]],
    );
    refused(
        DISPATCH,
        refusal(422, "No ref found for: main"),
        4,
        &expect![[r"
        error: GitHub refused to start the workflow: 422 Unprocessable Entity: No ref found for: main
        hint: check --ref: the branch or tag does not exist
    "]],
    );
    let inputs = refusal(422, "Unexpected inputs provided: [\"callback_token\"]");
    refused(
        DISPATCH,
        inputs,
        4,
        &expect![[r#"
        error: GitHub refused to start the workflow: 422 Unprocessable Entity: Unexpected inputs provided: ["callback_token"]
        hint: `butler-run.yml` has to declare the inputs run_id and callback_token, and those of --input; `butler-runner generate github-actions` writes one that does
    "#]],
    );
}

#[test]
fn redirects_and_web_pages_are_errors() {
    let moved = Reply::json(301, &json!({"message": "Moved Permanently"}))
        .with("location", "/api/v3/repositories/1296269/actions/runs?a=b");
    refused(
        RUNS,
        moved,
        4,
        &expect![[r"
        error: GitHub redirects to `<server>/api/v3/repositories/1296269/actions/runs` when asked to list the workflow's runs
        hint: the resource has moved: use its new name
    "]],
    );
    let login = Reply::empty(302).with("location", "https://idp.example.com/oauth/login?x=y");
    let server = refused(
        DISPATCH,
        login,
        4,
        &expect![[r"
        error: GitHub redirects to `https://idp.example.com/oauth/login` when asked to start the workflow
        hint: this is a sign-in page: the credentials were rejected, or --url is not the address of the API
    "]],
    );
    assert_eq!(server.received_by("POST").len(), 1);
    refused(
        RUNS,
        Reply::page(200, "<html><title>Sign in</title>"),
        4,
        &expect![[r"
        error: cannot list the workflow's runs: the response is not from GitHub's API: a web page
        hint: check that --url is the address of the API, and that no sign-in page or proxy is in front of it
    "]],
    );
    let proxy = Reply::page(407, "<html><title>Proxy login</title>");
    refused(
        RUNS,
        proxy,
        4,
        &expect![[r"
        error: GitHub refused to list the workflow's runs: 407 Proxy Authentication Required: Proxy login
        hint: the proxy asks for a login: put it into HTTPS_PROXY, or name the host in NO_PROXY
    "]],
    );
}

#[test]
fn credentials_are_not_sent_to_another_server() {
    let other = CiServer::start(|_| Reply::empty(200));
    let there = format!("{}/steal", other.url());
    let moved = Reply::empty(307).with("location", &there);
    let hub = GitHubServer {
        says_details: true,
        faults: vec![(DISPATCH, moved)],
        ..GitHubServer::default()
    };
    let (server, _) = hub.start();
    let mut machine = machine(&server);
    machine.replace_in_output(other.url(), "<other>");
    expect![[r"
        error: GitHub redirects to `<other>/steal` when asked to start the workflow
        hint: requests are not sent there; set --url to this address if it is the same server
    "]]
    .assert_eq(&error_text(&run_with_server(&machine, &server, START), 4));
    assert!(other.received().is_empty());
}

#[test]
fn rate_limit_that_ends_before_the_timeout_is_waited_for() {
    let soon = |hub: &GitHubServer| {
        let now = hub.now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
        refusal(403, "API rate limit exceeded for user ID 1.")
            .with("x-ratelimit-remaining", "0")
            .with("x-ratelimit-reset", now.to_string())
    };
    let mut hub = GitHubServer { says_details: true, ahead: 300_000, ..GitHubServer::default() };
    let primary = soon(&hub);
    let Reply::Response { status, mut headers, body } = primary else { unreachable!() };
    headers.retain(|(_, value)| value != "4999");
    hub.faults.push((RUNS, Reply::Response { status, headers, body }));
    let secondary =
        refusal(429, "You have exceeded a secondary rate limit.").with("retry-after", "1");
    hub.faults.push((DISPATCH, secondary));
    let (server, hub) = hub.start();
    printed(run_with_server(&machine(&server), &server, START));
    assert!(hub.lock().unwrap().faults.is_empty());
    assert_eq!(server.received_by("POST").len(), 2, "what a limit refuses was not carried out");
}

#[test]
fn rate_limit_beyond_the_timeout_is_an_error_with_its_end() {
    let reply = refusal(403, "API rate limit exceeded for user ID 1.")
        .with("date", "Sat, 21 Nov 2026 17:00:00 GMT")
        .with("x-ratelimit-reset", "1795282200");
    let Reply::Response { status, mut headers, body } = reply else { unreachable!() };
    headers.retain(|(_, value)| value != "4999");
    headers.push(("x-ratelimit-remaining".to_owned(), "0".to_owned()));
    let server = refused(
        DISPATCH,
        Reply::Response { status, headers, body },
        4,
        &expect![[r"
        error: GitHub refuses requests until 2026-11-21T17:30:01Z (request quota)
        hint: the request had no effect; try again after that time, or raise --timeout
    "]],
    );
    assert_eq!(server.received_by("POST").len(), 1);
    let secondary =
        refusal(403, "You have exceeded a secondary rate limit. Please wait a few minutes.")
            .with("date", "Sat, 21 Nov 2026 17:00:00 GMT");
    refused(
        RUNS,
        secondary,
        4,
        &expect![[r"
        error: GitHub refuses requests until 2026-11-21T17:01:00Z (burst limit)
        hint: the request had no effect; try again after that time, or raise --timeout
    "]],
    );
}

#[test]
fn retry_after_zero_still_pauses_between_requests() {
    let limited = refusal(429, "Too many requests").with("retry-after", "0");
    let server = CiServer::start(move |_| limited.clone());
    let words = [START, &["--timeout", "3s"]].concat();
    let text = error_text(&run_with_server(&machine(&server), &server, &words), 4);
    assert!(text.starts_with("error: GitHub refuses requests until "), "{text}");
    let asked = server.received().len();
    assert!((1..=3).contains(&asked), "{asked} times within three seconds");
}

/// A server that carries an order out and then answers it so.
fn answers_orders_with(reply: Reply, carries_out: bool) -> CiServer {
    let mut hub = GitHubServer { says_details: true, slow: 1, ..GitHubServer::default() };
    CiServer::start(move |request| {
        if request.method != "POST" {
            return hub.reply(request);
        }
        if carries_out {
            hub.reply(request);
        }
        reply.clone()
    })
}

#[test]
fn dispatch_with_a_lost_response_is_searched_and_not_repeated() {
    for reply in [
        Reply::Lost,
        Reply::page(502, "<html>"),
        Reply::page(504, "<html>"),
        Reply::page(408, "<html>"),
        Reply::page(200, "<html>"),
    ] {
        let server = answers_orders_with(reply, true);
        printed(run_with_server(&machine(&server), &server, START));
        assert_eq!(server.received_by("POST").len(), 1);
    }
}

#[test]
fn dispatch_without_a_matching_run_is_reported_as_unclear_and_not_repeated() {
    let server = answers_orders_with(Reply::page(502, "<title>Unicorn!</title>"), false);
    let words = [START, &["--timeout", "3s"]].concat();
    let said = run_with_server(&machine(&server), &server, &words);
    expect![[r"
        error: unclear whether GitHub started a run (GitHub refused to start the workflow: 502 Bad Gateway: Unicorn!); no matching run was found
        hint: look at the Actions page of `octo/infra` before you start it again
    "]].assert_eq(&error_text(&said, 1));
    assert_eq!(server.received_by("POST").len(), 1);
}

#[test]
fn accepted_dispatch_without_a_run_names_the_page_to_check() {
    let server = answers_orders_with(Reply::empty(204), false);
    let words = [START, &["--timeout", "1s"]].concat();
    let said = run_with_server(&machine(&server), &server, &words);
    let text = error_text(&said, 1);
    assert!(
        text.starts_with("error: GitHub accepted the request, but lists no matching run within "),
        "{text}"
    );
    assert!(text.contains("`run-name` has to carry the input run_id"), "{text}");
}

#[test]
fn failed_search_after_an_accepted_dispatch_is_reported_as_such() {
    let mut hub = GitHubServer::default();
    let mut lists = 0;
    let server = CiServer::start(move |request| {
        lists += usize::from(request.method == "GET");
        if lists > 1 { refusal(401, "Bad credentials") } else { hub.reply(request) }
    });
    let text = error_text(&run_with_server(&machine(&server), &server, START), 1);
    expect![[r"
        error: GitHub accepted the request, but lists no matching run within 1s
        hint: look at the Actions page of `octo/infra`: its runs could not be listed (GitHub refused to list the workflow's runs: 401 Unauthorized: Bad credentials)
    "]]
    .assert_eq(&text);
}

#[test]
fn status_requests_are_retried_after_server_errors() {
    let faults = vec![
        (RUNS, Reply::Lost),
        (RUNS, Reply::page(503, "")),
        (RUNS, Reply::page(408, "")),
        (RUNS, Reply::json(500, &json!({"message": "Server Error"}))),
    ];
    let (server, _) =
        GitHubServer { says_details: true, faults, ..GitHubServer::default() }.start();
    printed(run_with_server(&machine(&server), &server, START));
}

#[test]
fn unreachable_server_is_reported_before_a_dispatch() {
    let (server, _) = GitHubServer::default().start();
    let machine = machine(&server);
    let held = HeldPort::new();
    let unused_address = format!("https://127.0.0.1:{}", held.port());
    let said = machine.run(&[START, &["--url", &unused_address, "--timeout", "1s"]].concat());
    let text = error_text(&said, 4);
    assert!(text.starts_with("error: cannot reach GitHub to list the workflow's runs: "), "{text}");
    assert!(text.contains("hint: check --url, the network, the proxy, and --ca-bundle"), "{text}");
}

#[test]
fn untrusted_certificate_of_the_ci_server_is_not_retried() {
    let (server, _) = GitHubServer::default().start();
    let mut machine = machine(&server);
    machine.set("BUTLER_CA_BUNDLE", "");
    machine.set("BUTLER_LOG", "warn");
    let words = [START, &["--timeout", "2s"]].concat();
    let text = error_text(&run_with_server(&machine, &server, &words), 4);
    assert!(text.contains("issued by an untrusted authority"), "{text}");
    assert!(!text.contains("trying again"), "{text}");
    assert!(server.received().is_empty());
}

#[test]
fn malformed_trigger_options_are_usage_errors() {
    let (server, _) = GitHubServer::default().start();
    let mut machine = machine(&server);
    let usage = |machine: &butler_testing::machine::Machine, words: &[&str]| {
        error_text(&run_with_server(machine, &server, words), 2)
    };
    expect![[r"
        error: GitHub needs a repository
        hint: add --repository OWNER/NAME
    "]]
    .assert_eq(&usage(&machine, &["trigger", "github"]));
    expect![[r"
        error: GitHub needs a workflow file for workflow_dispatch
        hint: add --workflow-file NAME.yml, or --event repository_dispatch
    "]]
    .assert_eq(&usage(&machine, &["trigger", "github", "--repository", "octo/infra"]));
    expect![[r"
        error: `repository` of the CI configuration is not OWNER/NAME
    "]]
    .assert_eq(&usage(&machine, &["trigger", "github", "--repository", "octo/infra/../x"]));
    let words = ["trigger", "github", "--repository", "octo/infra", "--workflow-file", "../.."];
    expect![[r"
        error: `workflowFile` of the CI configuration is not a file name
    "]]
    .assert_eq(&usage(&machine, &words));
    std::fs::write(machine.path("ci.json"), r#"{"provider": "jenkins"}"#).unwrap();
    expect![[r"
        error: the CI configuration is for `jenkins`, not for `github-actions`
        hint: write `jenkins` on the command line
    "]]
    .assert_eq(&usage(&machine, &["trigger", "github", "--ci-config", "ci.json"]));
    let reference = [START, &["--credentials", "butler-system/github:token"]].concat();
    expect![[r"
        error: the credentials for GitHub do not exist where the reference says
        hint: call it something else (`BUTLER_*` is reserved) or mount `<secrets-dir>/butler-system/github/token` for --secrets-dir
    "]].assert_eq(&usage(&machine, &reference));
    // Somebody who takes the reference for the token itself does not see it again.
    let misplaced = [START, &["--credentials", CI_TOKEN]].concat();
    assert!(!usage(&machine, &misplaced).contains("hunter2"));
    machine.set("BUTLER_TOKEN", "breg_registry");
    expect![[r"
        error: `breg_` tokens cannot be used for runs; a callback token starts with `brce_` (--token, BUTLER_TOKEN)
    "]].assert_eq(&usage(&machine, START));
    machine.set("BUTLER_TOKEN", super::TOKEN);
    machine.set("BUTLER_CI_TOKEN", super::TOKEN);
    expect![[r"
        error: the credentials for GitHub are a token of the registry, not of a CI system
    "]]
    .assert_eq(&usage(&machine, START));
    machine.set("BUTLER_CI_TOKEN", "");
    expect![[r"
        error: the credentials for GitHub are missing
        hint: put a token, or the private key of an App, into BUTLER_CI_TOKEN, or name a mounted secret with --credentials NAMESPACE/NAME:KEY and --secrets-dir
    "]].assert_eq(&usage(&machine, START));
    assert!(server.received().is_empty());
}
