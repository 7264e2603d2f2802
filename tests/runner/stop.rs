//! How a run is stopped: by signals, by the registry, gently and by force.

use std::process::Output;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use butler_testing::stand_in::{AtPlan, StandIn};
use butler_testing::world::{MODULE, RUN_ID, World};

/// Starts the world's run, waits until it plans, calls `act`, and waits for its end.
async fn interrupted(world: &World, tool: &StandIn, act: impl FnOnce(Pid)) -> Output {
    interrupted_run(world, tool, world.config("plan"), act).await
}

/// The same with this configuration.
async fn interrupted_run(
    world: &World,
    tool: &StandIn,
    config: Value,
    act: impl FnOnce(Pid),
) -> Output {
    world.add_run(config);
    let child = world.execute().spawn().unwrap();
    let pid = Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap());
    tool.wait_until_running().await;
    act(pid);
    child.wait_with_output().await.unwrap()
}

fn last_status(world: &World) -> Value {
    world.received().statuses.last().cloned().unwrap()
}

#[tokio::test]
async fn signal_stops_the_tool_once_and_is_reported_as_a_failure() {
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT] {
        let mut world = World::new(&[("main.tf", MODULE)]).await;
        let tool = StandIn::install(&mut world, AtPlan::Wait);
        let output = interrupted(&world, &tool, |pid| kill(pid, signal).unwrap()).await;
        let end = world.end(&output);
        assert_eq!(end.code, Some(128 + signal as i32), "{}", end.stderr);
        assert_eq!(tool.record("signals"), "TERM\n", "exactly one signal");
        let names = world.received().request_names();
        assert_eq!(names, ["GET status", "GET config", "POST status", "POST logs", "POST status"]);
        let status = last_status(&world);
        assert_eq!(status["status"], "failed");
        assert_eq!(status["error"]["class"], "stopped");
        let reason = status["error"]["message"].as_str().unwrap().to_owned();
        assert!(reason.contains(signal.as_str()), "{reason}");
        let log = world.received().log_text();
        assert!(log.contains("stopping"), "what the tool said at the end is not lost: {log}");
        assert!(log.contains(&reason), "{log}");
    }
}

#[tokio::test]
async fn signal_is_reported_as_cancelled_to_a_registry_that_knows_this_status() {
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    let tool = StandIn::install(&mut world, AtPlan::Wait);
    let mut config = world.config("plan");
    config["finalStatuses"] = json!(["succeeded", "failed", "cancelled"]);
    let output = interrupted_run(&world, &tool, config, |pid| kill(pid, Signal::SIGTERM).unwrap());
    let end = world.end(&output.await);
    assert_eq!(end.code, Some(143), "{}", end.stderr);
    assert_eq!(world.statuses(), ["running", "cancelled"]);
    assert_eq!(last_status(&world)["error"]["class"], "stopped");
}

#[tokio::test]
async fn cancellation_by_the_registry_stops_the_tool_and_all_reports() {
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    world.variables.push(("BUTLER_CANCEL_INTERVAL".into(), "50ms".into()));
    let tool = StandIn::install(&mut world, AtPlan::Wait);
    let output =
        interrupted(&world, &tool, |_| world.registry.set_status(RUN_ID, "cancelled")).await;
    let end = world.end(&output);
    assert_eq!(end.code, Some(3), "{}", end.stderr);
    assert_eq!(tool.record("signals"), "TERM\n");
    let names = world.received().request_names();
    let posts: Vec<_> = names.iter().filter(|name| name.starts_with("POST")).collect();
    assert_eq!(posts, ["POST status"], "`running`, and nothing after the cancel");
}

#[tokio::test]
async fn conflict_response_to_a_callback_cancels_the_run() {
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    world.variables.push(("BUTLER_LOG_INTERVAL".into(), "50ms".into()));
    world.variables.push(("BUTLER_CANCEL_INTERVAL".into(), "1h".into()));
    let tool = StandIn::install(&mut world, AtPlan::Wait);
    // From here on, every log batch gets a 409, as after a cancellation.
    let output = interrupted(&world, &tool, |_| world.fault("POST", "logs", 409)).await;
    let end = world.end(&output);
    assert_eq!(end.code, Some(3), "{}", end.stderr);
    assert_eq!(tool.record("signals"), "TERM\n");
    let received = world.received();
    assert_eq!(received.statuses.len(), 1, "only `running`: {:?}", received.statuses);
}

#[tokio::test]
async fn tool_is_killed_with_its_children_after_the_grace_period() {
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    world.set("BUTLER_GRACE_PERIOD", "3s");
    let tool = StandIn::install(&mut world, AtPlan::Ignore);
    let output = interrupted(&world, &tool, |pid| kill(pid, Signal::SIGTERM).unwrap()).await;
    // Also asserts that no process of the run is left.
    let end = world.end(&output);
    assert_eq!(end.code, Some(143), "{}", end.stderr);
    assert_eq!(tool.record("signals"), "TERM\n");
    let status = last_status(&world);
    assert_eq!(status["status"], "failed");
    assert_eq!(status["error"]["class"], "stopped");
    assert!(status["error"]["advice"].as_str().unwrap().contains("lock"), "{status}");
}

/// A local run does not adopt orphaned processes, so only the kill of the process group ends them.
#[tokio::test]
async fn local_run_kills_the_process_group_of_a_tool_that_ignores_the_signal() {
    let mut world = World::new(&[]).await;
    let module = world.path("module");
    std::fs::create_dir(&module).unwrap();
    std::fs::write(module.join("main.tf"), MODULE).unwrap();
    world.set("BUTLER_GRACE_PERIOD", "200ms");
    let tool = StandIn::install(&mut world, AtPlan::Ignore);
    let mut command = world.command(&["execute", "--local", "--operation", "plan"]);
    let child = command.arg("--module-dir").arg(&module).spawn().unwrap();
    let pid = Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap());
    tool.wait_until_running().await;
    kill(pid, Signal::SIGTERM).unwrap();
    // Also asserts that no process of the run is left.
    let end = world.end(&child.wait_with_output().await.unwrap());
    assert_eq!(end.code, Some(143), "{}", end.stderr);
}

#[tokio::test]
async fn second_signal_shortens_the_grace_period() {
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    world.variables.push(("BUTLER_GRACE_PERIOD".into(), "1h".into()));
    let tool = StandIn::install(&mut world, AtPlan::Ignore);
    let output = interrupted(&world, &tool, |pid| {
        kill(pid, Signal::SIGTERM).unwrap();
        // Pending signals of different kinds do not merge.
        kill(pid, Signal::SIGINT).unwrap();
    })
    .await;
    let end = world.end(&output);
    assert!(matches!(end.code, Some(143 | 130)), "{}", end.stderr);
    assert!(end.stderr.contains("second signal"), "{}", end.stderr);
    assert_eq!(tool.record("signals"), "TERM\n", "the second is not passed on");
}

#[tokio::test]
async fn tool_environment_has_no_token_and_no_settings_of_the_runner() {
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    world.variables.push(("AWS_REGION".into(), "eu-central-1".into()));
    // GitHub stores the event of a job in such a file.
    let event = world.path("event.json");
    let payload = serde_json::json!({"client_payload": {"token": butler_testing::world::TOKEN}});
    std::fs::write(&event, payload.to_string()).unwrap();
    world.set("GITHUB_EVENT_PATH", &event);
    let tool = StandIn::install(&mut world, AtPlan::Wait);
    let output = interrupted(&world, &tool, |pid| kill(pid, Signal::SIGTERM).unwrap()).await;
    let end = world.end(&output);
    let environment = tool.record("environment");
    assert!(!environment.contains("BUTLER_"), "{environment}");
    assert!(!environment.contains(butler_testing::world::TOKEN), "{environment}");
    assert!(!environment.contains("GITHUB_EVENT_PATH"), "it leads to the token: {environment}");
    assert!(
        environment.contains("AWS_REGION=eu-central-1"),
        "the rest is inherited: {environment}"
    );
    for setting in ["TF_INPUT=0", "TF_IN_AUTOMATION=1"] {
        assert!(environment.lines().any(|line| line == setting), "{setting}: {environment}");
    }
    assert!(!end.stderr.contains(butler_testing::world::TOKEN));
    assert!(
        tool.record("arguments").contains("plan -input=false -no-color"),
        "{}",
        tool.record("arguments")
    );
}

#[tokio::test]
async fn gogc_is_raised_only_for_commands_without_providers() {
    let note = r#"echo "$1=${GOGC-none}" >> "$record/garbage""#;
    let answer = format!("{note}; echo '{{}}'");
    for (said, expected) in [
        (None, "init=400\nplan=none\napply=none\noutput=400\n"),
        (Some("50"), "init=50\nplan=50\napply=50\noutput=50\n"),
    ] {
        let mut world = World::new(&[("main.tf", MODULE)]).await;
        if let Some(said) = said {
            world.set("GOGC", said);
        }
        let commands = [("init", note), ("plan", note), ("apply", note), ("output", &*answer)];
        let tool = StandIn::doing(&mut world, &commands);
        let end = world.run(world.config("apply")).await;
        assert_eq!(end.code, Some(0), "{}", end.stderr);
        assert_eq!(tool.record("garbage"), expected);
    }
}

#[tokio::test]
async fn sighup_ignored_at_the_start_stays_ignored() {
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    let tool = StandIn::install(&mut world, AtPlan::Wait);
    world.add_run(world.config("plan"));
    // `nohup` does the same.
    let mut command = world.execute_in_shell("trap '' HUP; exec \"$0\" \"$@\"");
    let child = command.spawn().unwrap();
    let pid = Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap());
    tool.wait_until_running().await;
    kill(pid, Signal::SIGHUP).unwrap();
    kill(pid, Signal::SIGTERM).unwrap();
    let end = world.end(&child.wait_with_output().await.unwrap());
    assert_eq!(end.code, Some(143), "{}", end.stderr);
    assert!(!end.stderr.contains("SIGHUP"), "{}", end.stderr);
}

#[tokio::test]
async fn apply_that_completes_after_a_signal_has_succeeded() {
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    let tool = StandIn::install(&mut world, AtPlan::Pass);
    world.add_run(world.config("apply"));
    let child = world.execute().spawn().unwrap();
    let pid = Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap());
    tool.wait_until_running().await;
    kill(pid, Signal::SIGTERM).unwrap();
    let end = world.end(&child.wait_with_output().await.unwrap());
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    assert_eq!(tool.record("signals"), "TERM\n");
    assert_eq!(world.statuses(), ["running", "succeeded"]);
    assert_eq!(world.received().outputs, [serde_json::json!({"outputs": {}})]);
}
