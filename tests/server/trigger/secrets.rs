//! Credentials and the run's token are not visible: not in the process list, the readable
//! environment, logs, output or errors.

use std::sync::mpsc;
use std::sync::{Arc, Mutex};

use serde_json::json;

use super::github::{GitHubServer, START};
use super::{CI_TOKEN, TOKEN, machine};
use butler_testing::ci_server::{CiServer, Reply};

#[test]
fn trigger_secrets_are_not_visible_on_the_machine() {
    let (arrived, waits) = mpsc::channel::<()>();
    let (resume, gone_on) = mpsc::channel::<()>();
    let gone_on = Arc::new(Mutex::new(gone_on));
    let mut hub = GitHubServer { says_details: true, ..GitHubServer::default() };
    let server = CiServer::start(move |request| {
        if request.method == "POST" {
            arrived.send(()).unwrap();
            gone_on.lock().unwrap().recv().unwrap();
        }
        hub.reply(request)
    });
    let mut machine = machine(&server);
    machine.set("BUTLER_LOG", "trace");
    let url = server.url();
    let child = machine.command(&[START, &["--url", &url]].concat()).spawn().unwrap();
    waits.recv().unwrap();
    let commands = std::fs::read_to_string(format!("/proc/{}/cmdline", child.id())).unwrap();
    // Only root can read the file.
    let environment = std::fs::read(format!("/proc/{}/environ", child.id())).unwrap_or_default();
    resume.send(()).unwrap();
    let said = machine.output_of(&child.wait_with_output().unwrap());
    let environment = String::from_utf8(environment).unwrap();
    assert!(commands.contains("octo/infra"), "{commands}");
    assert!(said.stderr.contains("asked GitHub to start the workflow"), "{}", said.stderr);
    for text in [&commands, &environment, &said.stdout, &said.stderr] {
        assert!(!text.contains(CI_TOKEN) && !text.contains(TOKEN), "{text}");
    }
    assert_eq!(said.code, Some(0));
}

#[test]
fn secrets_in_responses_of_the_server_are_masked() {
    let server = CiServer::start(|request| {
        let message = format!("bad {} and {TOKEN}", request.header("authorization"));
        Reply::json(403, &json!({"message": message}))
            .with("x-oauth-scopes", format!("a {CI_TOKEN}"))
    });
    let machine = machine(&server);
    let said = machine.run(&[START, &["--url", &server.url()]].concat());
    assert_eq!(said.code, Some(4));
    assert!(said.stderr.contains("bad Bearer *** and ***"), "{}", said.stderr);
    assert!(said.stderr.contains("this one has `a ***`"), "{}", said.stderr);
}

#[test]
fn secret_truncated_in_the_middle_is_masked() {
    let server = CiServer::start(|_| {
        let message = format!("{}{CI_TOKEN}", "x".repeat(290));
        Reply::json(403, &json!({"message": message}))
    });
    let said = machine(&server).run(&[START, &["--url", &server.url()]].concat());
    assert_eq!(said.code, Some(4));
    assert!(said.stderr.contains("xxx***"), "{}", said.stderr);
    assert!(!said.stderr.contains(&CI_TOKEN[..6]), "{}", said.stderr);
}

#[test]
fn secrets_in_urls_of_the_server_are_masked_on_standard_output() {
    let mut hub = GitHubServer::default();
    let server = CiServer::start(move |request| {
        if request.method == "GET" {
            return hub.reply(request);
        }
        let url = format!("https://ghe.example.com/?a={TOKEN}&b={CI_TOKEN}");
        Reply::json(200, &json!({"workflow_run_id": 7, "html_url": url}))
    });
    let said = machine(&server).run(&[START, &["--url", &server.url()]].concat()).expect_success();
    let expected = "https://ghe.example.com/?a=***&b=***";
    assert_eq!(said.json(), json!({"externalRunId": "7", "externalUrl": expected}));
}

#[test]
fn server_without_tls_causes_a_warning() {
    // An address reserved for documentation, where no server responds (RFC 5737).
    let other = CiServer::start(|_| Reply::empty(404));
    let mut machine = machine(&other);
    machine.set("BUTLER_LOG", "warn");
    let warned = |url: &str| {
        let said = machine.run(&[START, &["--timeout", "1s", "--url", url]].concat());
        assert_eq!(said.code, Some(4), "{said:?}");
        said.stderr.contains("the connection to GitHub does not use TLS")
    };
    assert!(warned("http://192.0.2.1"));
    assert!(!warned("https://192.0.2.1"));
    assert!(!warned("http://127.0.0.1:9"));
}
