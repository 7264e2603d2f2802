//! A job that fails before the runner starts reports this to the registry, once; after the start,
//! only the runner reports.

use std::path::PathBuf;
use std::process::Output;

use nix::sys::signal::{Signal, kill};
use serde_json::json;

use super::github::{Kind, by_hand, dispatched, step};
use super::run::{
    Releases, archive, in_gitlab, in_gitlab_shell, in_jenkins, shown, with_variable, world,
};
use super::{generate, gitlab_script, jenkins_script};
use butler_testing::environment::find_program;
use butler_testing::release_site::{Fault, executable};
use butler_testing::world::{RUN_ID, TOKEN, World, eventually};

/// The report of a run that never started. Asserts that there is one complete report.
fn failure_report(world: &World) -> String {
    let received = world.received();
    assert_eq!(world.statuses(), ["failed"]);
    let status = world.last_status();
    let summary = status["plan_summary"].as_str().unwrap().to_owned();
    assert_eq!(status["error"]["message"], *summary);
    assert!(status["exit_code"].as_i64().unwrap() > 0, "{status}");
    let lines: Vec<_> = received.logs.iter().map(|line| line.content.as_str()).collect();
    assert_eq!(lines, [summary.as_str()], "people look at the log");
    assert_eq!(received.logs[0].sequence, 1);
    summary
}

/// Asserts that the token is not in the log and not in the arguments of curl.
fn assert_token_not_printed(world: &World, output: &Output) {
    let said = shown(output);
    assert!(!said.contains(TOKEN), "{said}");
    assert!(said.contains("the failure of the run was reported to the registry"), "{said}");
    let arguments = std::fs::read_to_string(world.path("curl-arguments")).unwrap();
    assert!(arguments.contains("/status"), "{arguments}");
    assert!(!arguments.contains(TOKEN), "{arguments}");
}

/// Installs a curl that records its arguments. Returns its directory.
fn install_recording_curl(world: &World) -> PathBuf {
    let curl = find_program("curl").unwrap();
    let script = format!(
        "#!/bin/sh\nprintf '%s\\n' \"$*\" >>'{}'\nexec '{}' \"$@\"\n",
        world.path("curl-arguments").display(),
        curl.display()
    );
    executable(&world.path("noting/curl"), script);
    world.path("noting")
}

/// Does that for the steps of a GitHub job. Steps add their own lines to the file.
fn put_recording_curl_on_path(world: &World) {
    let line = format!("{}\n", install_recording_curl(world).display());
    std::fs::write(world.path("GITHUB_PATH"), line).unwrap();
}

/// PATH with this directory first.
fn path_with(directory: PathBuf) -> std::ffi::OsString {
    let mut paths = vec![directory];
    paths.extend(std::env::split_paths(&butler_testing::environment::search_path()));
    std::env::join_paths(paths).unwrap()
}

#[tokio::test]
async fn github_job_with_a_failed_installation_or_login_reports_the_run_as_failed() {
    let releases = Releases::that_starts_the_runner();
    let aws = json!({"aws_role_arn": "arn:aws:iam::1:role/a"});
    for kind in Kind::ALL {
        for (event, failing, expected) in [
            (by_hand(), None, "installing butler-runner"),
            (dispatched(&aws), Some("Log in to AWS"), "logging in to AWS"),
        ] {
            let world = world("plan", &releases).await;
            releases.site.inject_fault(&archive(), Fault::Missing);
            let (mut job, steps) = kind.job(&world, &event, &["--oidc=aws"]);
            put_recording_curl_on_path(&world);
            job.failing.extend(failing);
            let done = job.execute(&steps).await;
            releases.site.remove_faults();
            assert_eq!(step(&done, "Execute the run").outcome, "skipped");
            assert_eq!(step(&done, "Keep the report").outcome, "skipped");
            let report = step(&done, "Report a run that did not start");
            let output = report.output.as_ref().unwrap();
            // GitHub prints the environment of a step before it starts.
            assert!(!report.given.values().any(|value| value.contains(TOKEN)), "{report:?}");
            assert_token_not_printed(&world, output);
            let place = "https://github.com/acme/infra/actions/runs/42";
            let expected =
                format!("the job ended before butler-runner started, while {expected}: {place}");
            assert_eq!(failure_report(&world), expected, "{kind:?} {}", shown(output));
        }
    }
}

#[tokio::test]
async fn github_job_that_is_cancelled_before_the_runner_starts_reports_the_run_as_failed() {
    let releases = Releases::that_starts_the_runner();
    let aws = json!({"aws_role_arn": "arn:aws:iam::1:role/a"});
    for kind in Kind::ALL {
        let world = world("plan", &releases).await;
        let (mut job, steps) = kind.job(&world, &dispatched(&aws), &["--oidc=aws"]);
        put_recording_curl_on_path(&world);
        job.cancelled_in = Some("Log in to AWS");
        let done = job.execute(&steps).await;
        assert_eq!(step(&done, "Execute the run").outcome, "skipped");
        let report = step(&done, "Report a run that did not start");
        assert_token_not_printed(&world, report.output.as_ref().expect("it is reported"));
        assert!(
            failure_report(&world).contains("while being cancelled: "),
            "{kind:?} {}",
            failure_report(&world)
        );
    }
}

#[tokio::test]
async fn github_job_with_a_missing_image_reports_the_run_as_failed() {
    let releases = Releases::that_starts_the_runner();
    let world = world("plan", &releases).await;
    let docker = "#!/bin/sh\n[ \"$1\" != run ] || touch \"$HOME/was-run\"\nexit 1\n";
    executable(&world.path("noting/docker"), docker);
    let (mut job, steps) = Kind::Workflow.job(&world, &by_hand(), &["--image"]);
    put_recording_curl_on_path(&world);
    let done = job.execute(&steps).await;
    assert_eq!(step(&done, "Execute the run").outcome, "failure");
    assert!(!world.path("home/was-run").exists());
    assert_token_not_printed(
        &world,
        step(&done, "Report a run that did not start").output.as_ref().unwrap(),
    );
    assert!(
        failure_report(&world).contains("while starting butler-runner"),
        "{}",
        failure_report(&world)
    );
}

/// An executable of another machine.
const OF_ANOTHER_MACHINE: &str = "\x7fELF\x02\x01\x01\0\0\0\n";

/// A release with an executable that does not start.
fn releases_for_another_machine() -> Releases {
    let directory = tempfile::tempdir().unwrap();
    let binary = directory.path().join("butler-runner");
    executable(&binary, OF_ANOTHER_MACHINE);
    Releases::with(&binary)
}

/// A docker that has the image and cannot start a container.
const DOCKER_WITHOUT_CONTAINERS: &str = "#!/bin/sh\n[ \"$1\" != run ] || exit 125\n";

#[tokio::test]
async fn github_job_with_a_runner_that_does_not_start_reports_the_run_as_failed() {
    let releases = releases_for_another_machine();
    for (kind, options) in
        [(Kind::Workflow, &[][..]), (Kind::Action, &[]), (Kind::Workflow, &["--image"])]
    {
        let world = world("plan", &releases).await;
        executable(&world.path("noting/docker"), DOCKER_WITHOUT_CONTAINERS);
        let (mut job, steps) = kind.job(&world, &by_hand(), options);
        put_recording_curl_on_path(&world);
        let done = job.execute(&steps).await;
        assert_eq!(step(&done, "Execute the run").outcome, "failure");
        assert_eq!(step(&done, "Keep the report").outcome, "skipped");
        let report = step(&done, "Report a run that did not start");
        assert_token_not_printed(&world, report.output.as_ref().expect("it is reported"));
        let summary = failure_report(&world);
        assert!(
            summary.contains("while starting butler-runner"),
            "{kind:?} {options:?}: {summary}"
        );
    }
}

#[tokio::test]
async fn gitlab_job_with_a_runner_that_does_not_start_reports_the_run_as_failed() {
    let releases = releases_for_another_machine();
    let script = gitlab_script(&generate("gitlab-ci", &[]).expect_success().stdout);
    for shell in ["/bin/sh", "/bin/bash"] {
        let world = world("plan", &releases).await;
        let mut job = in_gitlab_shell(&world, &[shell, "-e"], &script);
        job.env("PATH", path_with(install_recording_curl(&world)));
        let output = job.output().await.unwrap();
        assert_ne!(output.status.code(), Some(0), "{shell}: {}", shown(&output));
        assert_token_not_printed(&world, &output);
        let summary = failure_report(&world);
        assert!(summary.contains("while starting butler-runner"), "{shell}: {summary}");
    }
}

#[tokio::test]
async fn jenkins_step_with_a_runner_that_does_not_start_reports_the_run_as_failed() {
    let releases = releases_for_another_machine();
    for options in [&[][..], &["--image".to_owned()]] {
        let world = world("plan", &releases).await;
        executable(&world.path("noting/docker"), DOCKER_WITHOUT_CONTAINERS);
        let script = jenkins_script(&generate("jenkins", options).expect_success().stdout);
        let mut step = in_jenkins(&world, &script);
        step.env("PATH", path_with(install_recording_curl(&world)));
        let output = step.output().await.unwrap();
        assert_token_not_printed(&world, &output);
        let summary = failure_report(&world);
        assert!(summary.contains("while starting butler-runner"), "{options:?}: {summary}");
    }
}

/// Jenkins ends the build with a missing credential before the step, and then executes the report.
#[tokio::test]
async fn jenkins_build_without_a_credential_reports_the_run_as_failed_once() {
    let releases = Releases::that_starts_the_runner();
    let text = generate("jenkins", &["--secret=DB_PASSWORD=db".to_owned()]).expect_success().stdout;
    let (environment, steps) = text.split_once("steps {").unwrap();
    assert!(!environment.contains("credentials('db')"), "{environment}");
    let (before_step, rest) = steps.split_once("post {").unwrap();
    let binding = "string(variable: 'DB_PASSWORD', credentialsId: 'db')";
    assert!(before_step.contains(binding), "{before_step}");
    let (_, report) = rest.split_once("failure {").unwrap();
    let (step, report) = (jenkins_script(&text), jenkins_script(report));

    let unstarted = world("plan", &releases).await;
    let mut job = in_jenkins(&unstarted, &report);
    job.env("PATH", path_with(install_recording_curl(&unstarted)));
    let output = job.output().await.unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", shown(&output));
    assert_token_not_printed(&unstarted, &output);
    let summary = failure_report(&unstarted);
    assert!(summary.contains("while reading the credentials of the job"), "{summary}");

    // After a step of the same build, only that step has reported. An earlier build does not count.
    for (tag, reports) in [("jenkins-run-7", 0), ("jenkins-run-8", 1)] {
        let world = world("plan", &releases).await;
        releases.site.inject_fault(&archive(), Fault::Missing);
        let mut job = in_jenkins(&world, &step);
        job.env("DB_PASSWORD", "x").output().await.unwrap();
        releases.site.remove_faults();
        assert_eq!(world.statuses(), ["failed"]);
        world.add_run(world.config("plan"));
        let mut job = in_jenkins(&world, &report);
        let output = job.env("BUILD_TAG", tag).output().await.unwrap();
        assert_eq!(world.statuses().len(), reports, "{}", shown(&output));
    }
}

#[tokio::test]
async fn github_event_without_a_token_logs_that_nothing_is_reported() {
    let releases = Releases::that_starts_the_runner();
    let world = world("plan", &releases).await;
    let event = json!({"inputs": {"run_id": RUN_ID}});
    let (mut job, steps) = Kind::Workflow.job(&world, &event, &[]);
    let done = job.execute(&steps).await;
    let output = step(&done, "Report a run that did not start").output.as_ref().unwrap();
    assert!(shown(output).contains("no valid run id or token"), "{}", shown(output));
    assert_eq!(world.received().requests.len(), 0);
}

#[tokio::test]
async fn gitlab_job_with_a_failed_installation_or_login_reports_the_run_as_failed() {
    let releases = Releases::that_starts_the_runner();
    for (fault, options, expected) in [
        (Some(Fault::Missing), &["--oidc=aws"][..], "installing butler-runner"),
        (None, &["--oidc=aws"], "logging in to the cloud"),
        (Some(Fault::Changed), &[], "installing butler-runner"),
    ] {
        let world = world("plan", &releases).await;
        if let Some(fault) = fault {
            releases.site.inject_fault(&archive(), fault);
        }
        let options: Vec<_> = options.iter().map(|option| (*option).to_owned()).collect();
        let script = gitlab_script(&generate("gitlab-ci", &options).expect_success().stdout);
        let mut job = in_gitlab(&world, &script);
        job.env("CI_JOB_URL", "https://gitlab.example.com/a/b/-/jobs/7\"\\");
        let output =
            job.env("PATH", path_with(install_recording_curl(&world))).output().await.unwrap();
        releases.site.remove_faults();
        assert_ne!(output.status.code(), Some(0), "{}", shown(&output));
        assert_token_not_printed(&world, &output);
        let place = "https://gitlab.example.com/a/b/-/jobs/7\"\\";
        let expected =
            format!("the job ended before butler-runner started, while {expected}: {place}");
        assert_eq!(failure_report(&world), expected);
    }
}

#[tokio::test]
async fn jenkins_step_with_a_failed_installation_or_missing_docker_reports_the_run_as_failed() {
    let releases = Releases::that_starts_the_runner();
    for (options, expected) in
        [(&[][..], "installing butler-runner"), (&["--image".to_owned()], "starting butler-runner")]
    {
        let world = world("plan", &releases).await;
        releases.site.inject_fault(&archive(), Fault::Missing);
        executable(&world.path("noting/docker"), "#!/bin/sh\nexit 1\n");
        let script = jenkins_script(&generate("jenkins", options).expect_success().stdout);
        let mut step = in_jenkins(&world, &script);
        step.env("PATH", path_with(install_recording_curl(&world)));
        step.env("BUILD_URL", "https://jenkins.example.com/job/1/");
        let output = step.output().await.unwrap();
        releases.site.remove_faults();
        assert_token_not_printed(&world, &output);
        let expected = format!("while {expected}: https://jenkins.example.com/job/1/");
        assert!(failure_report(&world).ends_with(&expected), "{}", failure_report(&world));
    }
}

/// Not every shell runs the trap of its end after a signal.
#[tokio::test]
async fn jenkins_step_that_is_aborted_while_it_installs_reports_the_run_as_failed() {
    let releases = Releases::that_starts_the_runner();
    let world = world("plan", &releases).await;
    releases.site.inject_fault(&archive(), Fault::Held);
    let script = jenkins_script(&generate("jenkins", &[]).expect_success().stdout);
    let mut step = in_jenkins(&world, &script);
    step.env("PATH", path_with(install_recording_curl(&world)));
    step.env("BUILD_URL", "https://jenkins.example.com/job/1/");
    let process = step.spawn().unwrap();
    let is_asked = || releases.site.requests().iter().any(|path| path.ends_with(&archive()));
    eventually("the download", is_asked).await;
    // Jenkins signals each process that has its cookie.
    for process in with_variable(&world, "JENKINS_SERVER_COOKIE") {
        // Some end with others.
        let _ = kill(process, Signal::SIGTERM);
    }
    let output = process.wait_with_output().await.unwrap();
    releases.site.remove_faults();
    assert_eq!(output.status.code(), Some(143), "{}", shown(&output));
    assert_token_not_printed(&world, &output);
    let expected = "while installing butler-runner: https://jenkins.example.com/job/1/";
    assert!(failure_report(&world).ends_with(expected), "{}", failure_report(&world));
}

#[tokio::test]
async fn shell_trace_of_the_failure_report_does_not_print_the_token() {
    let releases = Releases::that_starts_the_runner();
    let world = world("plan", &releases).await;
    releases.site.inject_fault(&archive(), Fault::Missing);
    let script = gitlab_script(&generate("gitlab-ci", &[]).expect_success().stdout);
    // The source of the token in the shell.
    let (before, report) = script.split_once("# Ends a run").unwrap();
    let script = format!("{before}set -x\n# Ends a run{report}");
    let output = in_gitlab(&world, &script).output().await.unwrap();
    releases.site.remove_faults();
    assert!(shown(&output).contains("+ report_failure"), "{}", shown(&output));
    assert!(!shown(&output).contains(TOKEN), "{}", shown(&output));
    failure_report(&world);
}

#[tokio::test]
async fn finished_run_is_not_reported_as_failed() {
    let releases = Releases::that_starts_the_runner();
    let world = world("plan", &releases).await;
    let script = gitlab_script(&generate("gitlab-ci", &[]).expect_success().stdout);
    let output = in_gitlab(&world, &script).output().await.unwrap();
    assert_eq!(world.statuses(), ["running", "succeeded"], "{}", shown(&output));
    releases.site.inject_fault(&archive(), Fault::Missing);
    let output = in_gitlab(&world, &script).output().await.unwrap();
    releases.site.remove_faults();
    assert!(shown(&output).contains("the run is succeeded"), "{}", shown(&output));
    assert_eq!(world.statuses(), ["running", "succeeded"]);
}

#[tokio::test]
async fn malformed_token_is_not_written_to_the_curl_configuration() {
    let releases = Releases::that_starts_the_runner();
    let world = world("plan", &releases).await;
    releases.site.inject_fault(&archive(), Fault::Missing);
    let script = gitlab_script(&generate("gitlab-ci", &[]).expect_success().stdout);
    let mut job = in_gitlab(&world, &script);
    job.env("CALLBACK_TOKEN", format!("{TOKEN}\"\nurl = \"file:///etc/passwd"));
    let output = job.env("PATH", path_with(install_recording_curl(&world))).output().await.unwrap();
    releases.site.remove_faults();
    assert!(shown(&output).contains("no valid run id or token"), "{}", shown(&output));
    let arguments = std::fs::read_to_string(world.path("curl-arguments")).unwrap();
    assert!(!arguments.contains("--config"), "{arguments}");
}
