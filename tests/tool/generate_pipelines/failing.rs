//! A job that fails before the runner starts reports this to the registry, once.

use std::process::Output;

use super::Target::{self, Azure, Bitbucket, CircleCi, Tekton};
use super::job::{
    JobSite, RELAY, Step, execute_pipeline, execute_steps, install_relay, step_command,
};
use butler_testing::environment::find_program;
use butler_testing::release_site::{Fault, executable};
use butler_testing::world::{MODULE, TOKEN, World};

/// Asserts that curl reported the failure once, without the token in its arguments.
fn assert_failure_reported(target: Target, world: &World, output: &Output, expected: &str) {
    let said = String::from_utf8_lossy(&[&*output.stdout, &output.stderr].concat()).into_owned();
    assert_eq!(world.statuses(), ["failed"], "{target:?}\n{said}");
    let summary = world.last_status()["plan_summary"].as_str().unwrap().to_owned();
    let reason = format!("the job ended before butler-runner started, while {expected}: ");
    assert!(summary.starts_with(&reason), "{target:?}: {summary}");
    let lines = world.received().logs;
    assert_eq!(lines.len(), 1, "{target:?}");
    assert_eq!(lines[0].content, summary);
    assert!(
        said.contains("the failure of the run was reported to the registry"),
        "{target:?}\n{said}"
    );
    assert!(!said.contains(TOKEN), "{target:?}\n{said}");
    let arguments = std::fs::read_to_string(world.path("curl-arguments")).unwrap();
    assert!(arguments.contains("/status") && !arguments.contains(TOKEN), "{arguments}");
}

/// Installs a curl that records its arguments. Returns its directory.
fn install_recording_curl(world: &World) -> String {
    let script = format!(
        "#!/bin/sh\nprintf '%s\\n' \"$*\" >>'{}'\nexec '{}' \"$@\"\n",
        world.path("curl-arguments").display(),
        find_program("curl").unwrap().display()
    );
    executable(&world.path("noting/curl"), script);
    world.path("noting").to_str().unwrap().to_owned()
}

/// The steps of a file that installs from `site`.
fn steps(target: Target, site: &JobSite, options: &[&str]) -> Vec<Step> {
    let releases = format!("--releases={}/releases", site.url());
    let authorities = format!("--ca-bundle={}", site.authority.bundle().display());
    target.steps(&target.write(&[&[&*releases, &*authorities], options].concat()))
}

#[tokio::test]
async fn job_with_a_failed_installation_reports_the_run_as_failed() {
    for target in [Azure, Bitbucket, CircleCi] {
        let world = World::new(&[("main.tf", MODULE)]).await;
        world.add_run(world.config("plan"));
        let site = JobSite::with("#!/bin/sh\n");
        site.files.inject_fault(".tar.gz", Fault::Missing);
        let curl = install_recording_curl(&world);
        let output =
            execute_steps(target, &world, &site, &steps(target, &site, &[]), &[curl]).await;
        assert_ne!(output.status.code(), Some(0), "{target:?}");
        assert_failure_reported(target, &world, &output, "installing butler-runner");
    }
}

#[tokio::test]
async fn job_with_a_runner_that_does_not_start_reports_the_run_as_failed() {
    for target in [Azure, Bitbucket, CircleCi] {
        let world = World::new(&[("main.tf", MODULE)]).await;
        world.add_run(world.config("plan"));
        let site = JobSite::with("\u{7f}ELF\u{2}\u{1}\u{1}\u{0}\u{0}\n");
        let curl = install_recording_curl(&world);
        let output =
            execute_steps(target, &world, &site, &steps(target, &site, &[]), &[curl]).await;
        assert_ne!(output.status.code(), Some(0), "{target:?}");
        assert_failure_reported(target, &world, &output, "starting butler-runner");
    }
}

#[tokio::test]
async fn job_with_a_failed_login_reports_the_run_as_failed() {
    for target in [Azure, Bitbucket, CircleCi] {
        let world = World::new(&[("main.tf", MODULE)]).await;
        world.add_run(world.config("plan"));
        let site = JobSite::with("#!/bin/sh\ntouch \"$HOME/was-run\"\n");
        let curl = install_recording_curl(&world);
        // No variable names the role to assume in AWS.
        let steps = steps(target, &site, &["--oidc=aws"]);
        let output = execute_steps(target, &world, &site, &steps, &[curl]).await;
        assert_ne!(output.status.code(), Some(0), "{target:?}");
        assert_failure_reported(target, &world, &output, "logging in to the cloud");
        assert!(!world.path("home/was-run").exists(), "{target:?}");
    }
}

#[tokio::test]
async fn tekton_task_with_a_failed_login_reports_the_run_as_failed() {
    let world = World::new(&[("main.tf", MODULE)]).await;
    world.add_run(world.config("plan"));
    let step = Tekton.steps(&Tekton.write(&["--oidc=aws"])).remove(0);
    let paths = [install_recording_curl(&world), install_relay(&world)];
    let output = step_command(Tekton, &world, &step, None, &paths).output().await.unwrap();
    assert_ne!(output.status.code(), Some(0));
    assert_failure_reported(Tekton, &world, &output, "logging in to the cloud");
    let summary = world.last_status()["plan_summary"].as_str().unwrap().to_owned();
    assert!(summary.ends_with(": TaskRun runs/butler-run-1"), "{summary}");
}

/// The runner reports its own failure, and no step reports it again.
#[tokio::test]
async fn run_that_fails_in_the_runner_is_reported_once() {
    for target in [Azure, Bitbucket, CircleCi] {
        let world = World::new(&[("main.tf", MODULE)]).await;
        world.add_run(world.config("explode"));
        let site = JobSite::with(&RELAY.replace("RUNNER", env!("CARGO_BIN_EXE_butler-runner")));
        let output = execute_pipeline(target, &world, &site, &[]).await;
        let shown = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{target:?}\n{shown}");
        assert_eq!(world.statuses(), ["failed"], "{target:?}\n{shown}");
        assert!(!shown.contains("the registry was told"), "{target:?}\n{shown}");
        assert!(!shown.contains("the failure is not reported"), "{target:?}\n{shown}");
    }
}
