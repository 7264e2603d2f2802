//! Jenkins: a crumb with its session, a queue item that becomes a build, and a server that does not
//! know its public URL.

use base64::Engine;
use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::{RUN_ID, TOKEN, error_text, machine};
use butler_testing::ci_server::{CiServer, Received, Reply};
use butler_testing::machine::{CommandOutput, Machine};

const START: &[&str] =
    &["trigger", "jenkins", "--job", "team/infra run", "--user", "bot", "--timeout", "4s"];

const BUILD: &str = "POST /jenkins/job/team/job/infra%20run/buildWithParameters";
const CRUMB: &str = "GET /jenkins/crumbIssuer/api/json";
const JOB: &str = "GET /jenkins/job/team/job/infra%20run/api/json";
const ITEM: &str = "GET /jenkins/queue/item/39/api/json";

/// Builds with this number and higher are newer than the trigger.
const NEXT_BUILD: u64 = 30;

/// Runs the command with a Jenkins below `/jenkins`.
fn run_with_server(machine: &Machine, server: &CiServer, words: &[&str]) -> CommandOutput {
    let url = format!("{}/jenkins", server.url());
    machine.run(&[words, &["--url", &url]].concat())
}

fn jenkins_machine(server: &CiServer) -> Machine {
    let mut machine = machine(server);
    machine.set("BUTLER_CI_TOKEN", "11hunter2hunter2");
    machine
}

/// The crumb of a session.
fn crumb() -> Reply {
    let body = json!({
        "_class": "hudson.security.csrf.DefaultCrumbIssuer",
        "crumb": "0123abc",
        "crumbRequestField": "Jenkins-Crumb",
    });
    Reply::json(200, &body)
        .with("set-cookie", "JSESSIONID.9f=node0abc.node0;Path=/jenkins;Secure;HttpOnly")
}

/// The job with its parameters and builds.
fn job(builds: &Value) -> Reply {
    let parameter = |name: &str, kind: &str| json!({"_class": format!("hudson.model.{kind}"), "name": name, "type": kind});
    let parameters = [
        parameter("RUN_ID", "StringParameterDefinition"),
        parameter("CALLBACK_TOKEN", "PasswordParameterDefinition"),
        parameter("BUTLER_ENDPOINT", "StringParameterDefinition"),
        parameter("OPERATION", "StringParameterDefinition"),
    ];
    let class = "hudson.model.ParametersDefinitionProperty";
    let properties = json!([{}, {"_class": class, "parameterDefinitions": parameters}]);
    Reply::json(
        200,
        &json!({"builds": builds, "property": properties, "nextBuildNumber": NEXT_BUILD}),
    )
}

/// The queue item with the URL that a server behind a proxy returns.
fn created() -> Reply {
    Reply::empty(201).with("location", "http://inside:8080/jenkins/queue/item/39/")
}

fn item(build: Option<u64>) -> Reply {
    let mut item = json!({
        "_class": "hudson.model.Queue$WaitingItem",
        "id": 39,
        "blocked": false,
        "buildable": false,
        "stuck": false,
        "why": "In the quiet period. Expires in 2.4 sec",
        "url": "queue/item/39/",
    });
    if let Some(number) = build {
        item["_class"] = json!("hudson.model.Queue$LeftItem");
        item["why"] = Value::Null;
        item["cancelled"] = json!(false);
        item["executable"] = json!({"number": number, "url": "http://inside:8080/jenkins/job/team/job/infra%20run/35/"});
    }
    Reply::json(200, &item)
}

/// The started run, with the server's URL replaced by a name.
fn started(server: &CiServer, said: CommandOutput) -> (String, String) {
    let answer = said.expect_success().json();
    let text = |name: &str| answer[name].as_str().unwrap().replace(&server.url(), "<server>");
    (text("externalRunId"), text("externalUrl"))
}

#[test]
fn build_is_started_with_a_crumb_and_followed_through_the_queue() {
    let mut looks = 0;
    let server = CiServer::start(move |request| match request.line().as_str() {
        JOB => job(&json!([])),
        CRUMB => crumb(),
        BUILD => created(),
        ITEM => {
            looks += 1;
            item((looks > 1).then_some(35))
        }
        other => panic!("{other}"),
    });
    let words = [START, &["--input", "OPERATION=plan & more"]].concat();
    let said = run_with_server(&jenkins_machine(&server), &server, &words);
    let (id, url) = started(&server, said);
    assert_eq!((&*id, &*url), ("35", "<server>/jenkins/job/team/job/infra%20run/35/"));
    let order = server.received_by("POST").remove(0);
    assert!(order.query.is_empty(), "nothing secret is in the URL");
    let expected = [
        ("BUTLER_ENDPOINT", "https://portal.example.com/api/registry"),
        ("CALLBACK_TOKEN", TOKEN),
        ("OPERATION", "plan & more"),
        ("RUN_ID", RUN_ID),
    ];
    let form = order.form();
    let form: Vec<_> = form.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(form, expected);
    assert_eq!(order.header("jenkins-crumb"), "0123abc");
    assert_eq!(order.header("cookie"), "JSESSIONID.9f=node0abc.node0");
    let login = base64::engine::general_purpose::STANDARD.encode("bot:11hunter2hunter2");
    for request in server.received() {
        assert_eq!(request.header("authorization"), format!("Basic {login}"), "{request:?}");
    }
}

#[test]
fn no_crumb_is_sent_to_a_server_without_crumbs() {
    let server = CiServer::start(|request| match request.line().as_str() {
        JOB => job(&json!([])),
        CRUMB => Reply::page(404, "<html><title>Error 404 Not Found</title>"),
        BUILD => created(),
        _ => item(Some(35)),
    });
    run_with_server(&jenkins_machine(&server), &server, START).expect_success();
    let order = server.received_by("POST").remove(0);
    assert_eq!((order.header("jenkins-crumb"), order.header("cookie")), ("", ""));
}

#[test]
fn queued_build_counts_as_started_and_can_be_queried() {
    let server = CiServer::start(|request| match request.line().as_str() {
        JOB => job(&json!([])),
        CRUMB => crumb(),
        BUILD => created(),
        _ => item(None),
    });
    let (id, url) = started(&server, run_with_server(&jenkins_machine(&server), &server, START));
    assert_eq!((&*id, &*url), ("queue/39", "<server>/jenkins/queue/item/39/"));
    let said = status_of(&server, &id);
    assert_eq!((said.code, &said.json()["status"]), (Some(5), &json!("queued")));
    assert_eq!(said.json()["reported"], "In the quiet period. Expires in 2.4 sec");
}

#[test]
fn build_cancelled_in_the_queue_is_reported() {
    let server = CiServer::start(|request| match request.line().as_str() {
        JOB => job(&json!([])),
        CRUMB => crumb(),
        BUILD => created(),
        _ => Reply::json(200, &json!({"id": 39, "cancelled": true, "why": null})),
    });
    expect![[r"
        error: Jenkins accepted the request, but the run was cancelled in the queue
    "]]
    .assert_eq(&error_text(&run_with_server(&jenkins_machine(&server), &server, START), 1));
}

/// A Jenkins with a queue and builds, whose trigger response does not name the queue item.
fn server_without_run_id_in_response(answer: Reply, queue: Value, builds: Value) -> CiServer {
    let mut ordered = false;
    CiServer::start(move |request: &Received| match request.line().as_str() {
        CRUMB => crumb(),
        BUILD => {
            assert!(!std::mem::replace(&mut ordered, true), "ordered twice");
            answer.clone()
        }
        "GET /jenkins/queue/api/json" => Reply::json(200, &json!({"items": queue})),
        JOB => job(&builds),
        ITEM => item(Some(36)),
        other => panic!("{other}"),
    })
}

/// The parameters of builds and queue items of a run.
fn run_parameters(run_id: &str) -> Value {
    json!([{"parameters": [{"name": "RUN_ID", "value": run_id}, {"name": "CALLBACK_TOKEN"}]}, {}])
}

#[test]
fn build_is_found_in_the_queue_or_the_build_list_after_a_lost_response() {
    let job = "http://inside:8080/jenkins/job/team/job/infra%20run/";
    let queue = json!([
        {"id": 36, "task": {"url": "http://inside:8080/jenkins/job/infra%20run/"}, "actions": run_parameters(RUN_ID)},
        {"id": 37, "task": {"url": "http://inside:8080/job/a/job/team/job/infra%20run/"}, "actions": run_parameters(RUN_ID)},
        {"id": 38, "task": {"url": job}, "actions": run_parameters("another")},
        {"id": 39, "task": {"url": job}, "actions": run_parameters(RUN_ID)},
    ]);
    let builds = json!([
        {"number": 36, "building": true, "result": null, "actions": run_parameters("another")},
        {"number": 35, "building": true, "result": null, "actions": run_parameters(RUN_ID)},
    ]);
    let nameless = Reply::empty(201);
    for answer in [Reply::Lost, nameless.clone(), Reply::page(200, "<html>a page")] {
        let server = server_without_run_id_in_response(answer.clone(), queue.clone(), json!([]));
        assert_eq!(
            started(&server, run_with_server(&jenkins_machine(&server), &server, START)).0,
            "36"
        );
        let server = server_without_run_id_in_response(answer, json!([]), builds.clone());
        assert_eq!(
            started(&server, run_with_server(&jenkins_machine(&server), &server, START)).0,
            "35"
        );
    }
    // Builds that exist before belong to an earlier trigger.
    let earlier =
        json!([{"number": NEXT_BUILD - 1, "building": true, "actions": run_parameters(RUN_ID)}]);
    for answer in [Reply::Lost, nameless] {
        let server = server_without_run_id_in_response(answer, json!([]), earlier.clone());
        let text = error_text(&run_with_server(&jenkins_machine(&server), &server, START), 1);
        assert!(text.contains("unclear whether Jenkins started a run"), "{text}");
        let place = "look at the queue and the builds of `team/infra run` before";
        assert!(text.contains(place), "{text}");
    }
}

#[test]
fn build_merged_with_a_queued_one_is_followed() {
    let server = CiServer::start(|request| match request.line().as_str() {
        JOB => job(&json!([])),
        CRUMB => crumb(),
        BUILD => Reply::empty(303).with("location", "http://inside:8080/jenkins/queue/item/39/"),
        ITEM => item(Some(35)),
        other => panic!("{other}"),
    });
    assert_eq!(
        started(&server, run_with_server(&jenkins_machine(&server), &server, START)).0,
        "35"
    );
}

/// The output of `ci-status` for this id.
fn status_of(server: &CiServer, id: &str) -> CommandOutput {
    let words = ["ci-status", "jenkins", "--job", "team/infra run", "--user", "bot"];
    let words = [&words[..], &["--external-run-id", id]].concat();
    run_with_server(&jenkins_machine(server), server, &words)
}

#[test]
fn expired_queue_item_is_resolved_to_its_build() {
    let server = CiServer::start(|request| match request.line().as_str() {
        JOB => job(&json!([{"number": 36, "queueId": 40}, {"number": 35, "queueId": 39}])),
        "GET /jenkins/job/team/job/infra%20run/35/api/json" => {
            Reply::json(200, &json!({"number": 35, "building": false, "result": "SUCCESS"}))
        }
        _ => Reply::page(404, "<title>Not Found</title>"),
    });
    let said = status_of(&server, "queue/39").expect_success();
    assert_eq!(said.json()["externalRunId"], "35");
    expect![[r"
        error: Jenkins refused to read the queue item: 404 Not Found: Not Found
        hint: no recent build of `team/infra run` started from it: it was cancelled in the queue, or its build is old; look at the job's builds
    "]].assert_eq(&error_text(&status_of(&server, "queue/3"), 4));
}

#[test]
fn queue_item_of_another_job_is_refused() {
    let server = CiServer::start(|_| {
        let task = json!({"url": "http://inside:8080/jenkins/job/team/job/other/"});
        Reply::json(200, &json!({"id": 39, "task": task, "executable": {"number": 35}}))
    });
    expect![[r"
        error: `externalRunId` of the CI configuration is a queue item of another job than `team/infra run`
    "]].assert_eq(&error_text(&status_of(&server, "queue/39"), 2));
}

#[test]
fn jenkins_refusals_name_the_missing_permission() {
    let refused = |line: &'static str, reply: Reply, expected: &Expect| {
        let server = CiServer::start(move |request| match request.line().as_str() {
            it if it == line => reply.clone(),
            JOB => job(&json!([])),
            CRUMB => crumb(),
            _ => created(),
        });
        expected
            .assert_eq(&error_text(&run_with_server(&jenkins_machine(&server), &server, START), 4));
    };
    let anonymous = Reply::page(401, "<html><title>Error 401 Unauthorized</title>");
    refused(
        CRUMB,
        anonymous,
        &expect![[r"
        error: Jenkins refused to get a crumb: 401 Unauthorized: Error 401 Unauthorized
        hint: the API token was rejected: check --user and the token (the user's page > Security); a password does not work
    "]],
    );
    let denied = Reply::page(403, "<html>bot is missing the Job/Build permission")
        .with("x-you-are-authenticated-as", "bot")
        .with("x-required-permission", "hudson.model.Item.Build");
    refused(
        BUILD,
        denied,
        &expect![[r"
        error: Jenkins refused to start the job: 403 Forbidden
        hint: `bot` needs the permission `Job/Build`
    "]],
    );
    let crumb =
        Reply::page(403, "<title>Error 403 No valid crumb was included in the request</title>");
    refused(
        BUILD,
        crumb,
        &expect![[r"
        error: Jenkins refused to start the job: 403 Forbidden: Error 403 No valid crumb was included in the request
        hint: the crumb was rejected: behind a proxy that changes the client's address, let Jenkins' crumb issuer ignore that (proxy compatibility)
    "]],
    );
    refused(
        BUILD,
        Reply::page(404, "<title>Error 404 Not Found</title>"),
        &expect![[r"
        error: Jenkins refused to start the job: 404 Not Found: Error 404 Not Found
        hint: check --url and --job; Jenkins hides jobs for which `anonymous` has no Job/Read
    "]],
    );
    refused(
        BUILD,
        Reply::page(409, "<title>Error 409 infra run is not buildable</title>"),
        &expect![[r"
        error: Jenkins refused to start the job: 409 Conflict: Error 409 infra run is not buildable
        hint: the job `team/infra run` is disabled: enable it on its page
    "]],
    );
    refused(
        BUILD,
        Reply::page(400, "<title>Error 400 This job is not parameterized</title>"),
        &expect![[r"
        error: Jenkins refused to start the job: 400 Bad Request: Error 400 This job is not parameterized
        hint: the job `team/infra run` has to have the parameters RUN_ID and CALLBACK_TOKEN (a password parameter)
    "]],
    );
    let login = Reply::empty(302).with("location", "/jenkins/securityRealm/commenceLogin?from=%2F");
    refused(
        CRUMB,
        login,
        &expect![[r"
        error: Jenkins redirects to `<server>/jenkins/securityRealm/commenceLogin` when asked to get a crumb
        hint: this is a sign-in page: the credentials were rejected, or --url is not the address of the API
    "]],
    );
    refused(
        BUILD,
        Reply::empty(302).with("location", "http://inside:8080/jenkins/job/team/job/infra%20run/"),
        &expect![[r"
        error: cannot start a run on Jenkins: the queue does not accept the job `team/infra run`
        hint: look at the job's page and at the log of Jenkins: a plugin may block the job
    "]],
    );
}

#[test]
fn job_without_the_needed_parameters_is_not_started() {
    let refused = |properties: Value, words: &[&str], expected: &Expect| {
        let server = CiServer::start(move |request| match request.line().as_str() {
            JOB => Reply::json(200, &json!({"property": properties})),
            other => panic!("{other}"),
        });
        let words = [START, words].concat();
        expected.assert_eq(&error_text(
            &run_with_server(&jenkins_machine(&server), &server, &words),
            4,
        ));
    };
    // A pipeline that was never built.
    refused(
        json!([]),
        &[],
        &expect![[r"
        error: cannot start a run on Jenkins: the job `team/infra run` has no parameter `RUN_ID`, `CALLBACK_TOKEN`
        hint: `butler-runner generate jenkins` writes a pipeline with RUN_ID and CALLBACK_TOKEN; Jenkins reads the parameters of a pipeline in its first build: build it once manually
    "]],
    );
    let plain = json!([{"parameterDefinitions": [{"name": "RUN_ID"}, {"name": "CALLBACK_TOKEN"}]}]);
    refused(
        plain,
        &["--input", "OPERATION=plan"],
        &expect![[r"
        error: cannot start a run on Jenkins: the job `team/infra run` has no parameter `OPERATION`
        hint: `butler-runner generate jenkins` writes a pipeline with RUN_ID and CALLBACK_TOKEN; Jenkins reads the parameters of a pipeline in its first build: build it once manually
    "]],
    );
}

#[test]
fn plain_text_token_parameter_causes_a_warning() {
    let open = json!([{"parameterDefinitions": [
        {"name": "RUN_ID", "type": "StringParameterDefinition"},
        {"name": "CALLBACK_TOKEN", "type": "StringParameterDefinition"},
    ]}]);
    let server = CiServer::start(move |request| match request.line().as_str() {
        JOB => Reply::json(200, &json!({"property": open})),
        CRUMB => crumb(),
        BUILD => created(),
        _ => item(Some(35)),
    });
    let mut machine = jenkins_machine(&server);
    machine.set("BUTLER_LOG", "warn");
    let said = run_with_server(&machine, &server, START).expect_success();
    assert!(said.stderr.contains("CALLBACK_TOKEN is not a password parameter"), "{}", said.stderr);
}

#[test]
fn status_is_derived_from_the_jenkins_build() {
    for (building, result, expected, code) in [
        (true, Value::Null, "running", 5),
        (false, json!("SUCCESS"), "succeeded", 0),
        (false, json!("UNSTABLE"), "failed", 1),
        (false, json!("FAILURE"), "failed", 1),
        (false, json!("ABORTED"), "cancelled", 3),
        (false, json!("NOT_BUILT"), "skipped", 3),
    ] {
        let build = json!({"number": 35, "building": building, "result": result});
        let server = CiServer::start(move |request| match request.line().as_str() {
            "GET /jenkins/job/team/job/infra%20run/35/api/json" => Reply::json(200, &build),
            ITEM => item(Some(35)),
            other => panic!("{other}"),
        });
        // A queue item is resolved to its build.
        for id in ["35", "queue/39"] {
            let said = status_of(&server, id);
            assert_eq!((said.code, &said.json()["status"]), (Some(code), &json!(expected)));
            assert_eq!(said.json()["externalRunId"], "35");
        }
    }
}
