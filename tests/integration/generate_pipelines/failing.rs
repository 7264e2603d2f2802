//! A job that fails before the runner could report tells the registry so, once.

use super::*;
use crate::support::environment::find_program;
use crate::support::release_site::executable;

/// Asserts that the registry was told once, by curl without the token among its arguments.
fn assert_told(target: Target, world: &World, output: &Output, expected: &str) {
    let said = String::from_utf8_lossy(&[&*output.stdout, &output.stderr].concat()).into_owned();
    assert_eq!(world.statuses(), ["failed"], "{target:?}\n{said}");
    let summary = world.last_status()["plan_summary"].as_str().unwrap().to_owned();
    let reason = format!("the job ended before butler-runner started, while {expected}: ");
    assert!(summary.starts_with(&reason), "{target:?}: {summary}");
    let lines = world.received().logs;
    assert_eq!(lines.len(), 1, "{target:?}");
    assert_eq!(lines[0].content, summary);
    assert!(said.contains("the registry was told that the run failed"), "{target:?}\n{said}");
    assert!(!said.contains(TOKEN), "{target:?}\n{said}");
    let arguments = std::fs::read_to_string(world.path("curl-arguments")).unwrap();
    assert!(arguments.contains("/status") && !arguments.contains(TOKEN), "{arguments}");
}

/// A directory whose curl notes its arguments.
fn noting_curl(world: &World) -> String {
    let script = format!(
        "#!/bin/sh\nprintf '%s\\n' \"$*\" >>'{}'\nexec '{}' \"$@\"\n",
        world.path("curl-arguments").display(),
        find_program("curl").unwrap().display()
    );
    executable(&world.path("noting/curl"), script);
    world.path("noting").to_str().unwrap().to_owned()
}

/// The steps of a file that installs from `site`.
fn steps(target: Target, site: &Site, options: &[&str]) -> Vec<Step> {
    let releases = format!("--releases={}/releases", site.url());
    let authorities = format!("--ca-bundle={}", site.authority.bundle().display());
    target.steps(&target.write(&[&[&*releases, &*authorities], options].concat()))
}

#[tokio::test]
async fn job_with_a_failed_installation_reports_the_run_as_failed() {
    for target in [Azure, Bitbucket, CircleCi] {
        let world = World::new(&[("main.tf", MODULE)]).await;
        world.add_run(world.config("plan"));
        let site = Site::with("#!/bin/sh\n");
        site.files.misbehave(".tar.gz", Fault::Missing);
        let curl = noting_curl(&world);
        let output =
            carry_out_steps(target, &world, &site, &steps(target, &site, &[]), &[curl]).await;
        assert_ne!(output.status.code(), Some(0), "{target:?}");
        assert_told(target, &world, &output, "installing butler-runner");
    }
}

#[tokio::test]
async fn job_with_a_failed_login_reports_the_run_as_failed() {
    for target in [Azure, Bitbucket, CircleCi] {
        let world = World::new(&[("main.tf", MODULE)]).await;
        world.add_run(world.config("plan"));
        let site = Site::with("#!/bin/sh\ntouch \"$HOME/was-run\"\n");
        let curl = noting_curl(&world);
        // Who to be at AWS, no variable says.
        let steps = steps(target, &site, &["--oidc=aws"]);
        let output = carry_out_steps(target, &world, &site, &steps, &[curl]).await;
        assert_ne!(output.status.code(), Some(0), "{target:?}");
        assert_told(target, &world, &output, "logging in to the cloud");
        assert!(!world.path("home/was-run").exists(), "{target:?}");
    }
}

#[tokio::test]
async fn tekton_task_with_a_failed_login_reports_the_run_as_failed() {
    let world = World::new(&[("main.tf", MODULE)]).await;
    world.add_run(world.config("plan"));
    let step = Tekton.steps(&Tekton.write(&["--oidc=aws"])).remove(0);
    let paths = [noting_curl(&world), relay(&world)];
    let output = command(Tekton, &world, &step, None, &paths).output().await.unwrap();
    assert_ne!(output.status.code(), Some(0));
    assert_told(Tekton, &world, &output, "logging in to the cloud");
    let summary = world.last_status()["plan_summary"].as_str().unwrap().to_owned();
    assert!(summary.ends_with(": TaskRun runs/butler-run-1"), "{summary}");
}

/// The runner reports for itself, and nothing is said after it.
#[tokio::test]
async fn run_that_fails_in_the_runner_is_reported_once() {
    for target in [Azure, Bitbucket, CircleCi] {
        let world = World::new(&[("main.tf", MODULE)]).await;
        world.add_run(world.config("explode"));
        let site = Site::with(&RELAY.replace("RUNNER", env!("CARGO_BIN_EXE_butler-runner")));
        let output = carry_out(target, &world, &site, &[]).await;
        let shown = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{target:?}\n{shown}");
        assert_eq!(world.statuses(), ["failed"], "{target:?}\n{shown}");
        assert!(!shown.contains("the registry was told"), "{target:?}\n{shown}");
        assert!(!shown.contains("the registry is not told"), "{target:?}\n{shown}");
    }
}
