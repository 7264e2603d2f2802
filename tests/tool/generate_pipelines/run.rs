//! Runs in generated pipelines, from the download of the runner to the exit code.

use std::path::Path;

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use serde_json::Value;

use super::ALL;
use super::Target::{Azure, Bitbucket, CircleCi, Tekton};
use super::job::{JobSite, RELAY, execute_pipeline, install_relay, step_command};
use butler_testing::release_site::Fault;
use butler_testing::stand_in::{AtPlan, StandIn};
use butler_testing::world::{MODULE, World};

#[tokio::test]
async fn pipeline_downloads_the_runner_executes_the_run_and_returns_its_exit_code() {
    for target in [Azure, Bitbucket, CircleCi] {
        for (operation, code, status) in [("plan", 0, "succeeded"), ("explode", 1, "failed")] {
            let world = World::new(&[("main.tf", MODULE)]).await;
            world.add_run(world.config(operation));
            let site = JobSite::with(&RELAY.replace("RUNNER", env!("CARGO_BIN_EXE_butler-runner")));
            let output = execute_pipeline(target, &world, &site, &["--cache"]).await;
            let shown = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(code), "{target:?} {operation}\n{shown}");
            assert_eq!(world.last_status()["status"], status, "{target:?}");
            world.end(&output);
        }
    }
}

#[tokio::test]
async fn modified_release_is_not_executed() {
    for target in [Azure, Bitbucket, CircleCi] {
        let world = World::new(&[("main.tf", MODULE)]).await;
        world.add_run(world.config("plan"));
        let site = JobSite::with("#!/bin/sh\ntouch \"$HOME/was-run\"\n");
        site.files.inject_fault(".tar.gz", Fault::Changed);
        let output = execute_pipeline(target, &world, &site, &[]).await;
        let shown = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{target:?}\n{shown}");
        assert!(shown.contains("the release has"), "{shown}");
        assert!(!world.path("home/was-run").exists());
        assert_eq!(world.statuses(), ["failed"], "the registry is told");
    }
}

#[tokio::test]
async fn job_logs_in_to_the_cloud_with_its_own_oidc_token() {
    let seen = "#!/bin/sh\nset -e\ncat \"$AWS_WEB_IDENTITY_TOKEN_FILE\" >\"$HOME/aws\"\n\
                stat -c %a \"$AWS_WEB_IDENTITY_TOKEN_FILE\" >\"$HOME/mode\"\n\
                cp \"$GOOGLE_APPLICATION_CREDENTIALS\" \"$HOME/gcp.json\"\n\
                env >\"$HOME/environment\"\n";
    for target in [Azure, Bitbucket, CircleCi] {
        let world = World::new(&[("main.tf", MODULE)]).await;
        let site = JobSite::with(seen);
        let clouds: Vec<_> = ALL.iter().filter(|word| is_of_a_cloud(word)).copied().collect();
        let output = execute_pipeline(target, &world, &site, &clouds).await;
        let shown = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{target:?}\n{shown}");
        let read = |name: &str| std::fs::read_to_string(world.path("home").join(name)).unwrap();
        assert_eq!(read("aws"), "the.jobs.token", "{target:?}");
        assert_eq!(read("mode"), "600\n");
        let google: Value = serde_json::from_str(&read("gcp.json")).unwrap();
        let token = google["credential_source"]["file"].as_str().unwrap();
        assert_eq!(std::fs::read_to_string(token).unwrap(), "the.jobs.token");
        let place = Path::new(token).parent().unwrap();
        // The agent of Azure Pipelines empties the job's directory itself.
        assert_eq!(place.starts_with("/dev/shm"), target != Azure, "{token}");
        std::fs::remove_dir_all(place).unwrap();
        assert_eq!(google["type"], "external_account");
        let environment = read("environment");
        assert!(environment.contains("\nAWS_ROLE_ARN=arn:aws:iam::123456789012:role/terraform\n"));
        assert!(environment.contains("\nARM_USE_OIDC=true\n"), "{target:?}");
        if target == Azure {
            // The token is requested with the job's own key, which is not an argument of any process.
            let asked = &site.files.seen("/oidc")[0];
            assert_eq!(asked.authorization.as_deref(), Some("Bearer the-jobs-key"));
        }
    }
}

/// The agent signals only the process of the step.
#[tokio::test]
async fn cancelled_step_stops_terraform_gracefully() {
    for (target, signal) in [(Azure, Signal::SIGINT), (CircleCi, Signal::SIGTERM)] {
        let mut world = World::new(&[("main.tf", MODULE)]).await;
        let terraform = StandIn::install(&mut world, AtPlan::Wait);
        world.add_run(world.config("plan"));
        let text = target.write(&[]);
        let mut steps = target.steps(&text);
        let position = steps.iter().position(|step| step.script.contains("butler-runner execute"));
        let step = steps.swap_remove(position.unwrap());
        let bin = install_relay(&world);
        let child = step_command(target, &world, &step, None, &[bin]).spawn().unwrap();
        let process = Pid::from_raw(child.id().unwrap().try_into().unwrap());
        terraform.wait_until_running().await;
        kill(process, signal).unwrap();
        let output = child.wait_with_output().await.unwrap();
        assert_eq!(terraform.record("signals"), "TERM\n", "{target:?}");
        assert_eq!(world.statuses(), ["running", "failed"], "{target:?}");
        assert_eq!(output.status.code(), Some(128 + signal as i32), "{target:?}");
        world.end(&output);
    }
}

/// Tekton signals the shell and all processes that it started.
#[tokio::test]
async fn tekton_result_contains_the_outcome_also_of_a_cancelled_run() {
    for is_cancelled in [false, true] {
        let mut world = World::new(&[("main.tf", MODULE)]).await;
        let terraform = is_cancelled.then(|| StandIn::install(&mut world, AtPlan::Wait));
        world.add_run(world.config("plan"));
        let step = Tekton.steps(&Tekton.write(&[])).remove(0);
        let bin = install_relay(&world);
        let mut command = step_command(Tekton, &world, &step, None, &[bin]);
        let report = world.path("home/report");
        command.env("BUTLER_REPORT_DIR", report).process_group(0);
        let child = command.spawn().unwrap();
        let group = Pid::from_raw(child.id().unwrap().try_into().unwrap());
        if let Some(terraform) = &terraform {
            terraform.wait_until_running().await;
            killpg(group, Signal::SIGTERM).unwrap();
        }
        let output = child.wait_with_output().await.unwrap();
        let result = |name: &str| std::fs::read_to_string(world.path("job").join(name)).unwrap();
        let shown = String::from_utf8_lossy(&output.stderr).into_owned();
        let (code, status) = if is_cancelled { (143, "cancelled") } else { (0, "succeeded") };
        assert_eq!(output.status.code(), Some(code), "{shown}");
        assert_eq!(result("exit-code"), code.to_string());
        assert_eq!(result("status"), status, "{shown}");
        world.end(&output);
    }
}

fn is_of_a_cloud(word: &str) -> bool {
    ["--aws", "--gcp", "--azure"].iter().any(|start| word.starts_with(start))
}

#[tokio::test]
async fn step_executes_the_run_without_the_timeout_program() {
    let world = World::new(&[("main.tf", MODULE)]).await;
    let step = CircleCi.steps(&CircleCi.write(&[])).into_iter().nth(1).unwrap();
    let bin = world.path("only");
    butler_testing::release_site::executable(
        &bin.join("butler-runner"),
        "#!/bin/sh\necho it began\n",
    );
    std::os::unix::fs::symlink("/bin/sh", bin.join("sh")).unwrap();
    let mut command = step_command(CircleCi, &world, &step, None, &[]);
    let output = command.env("PATH", &bin).output().await.unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "it began\n", "{output:?}");
}
