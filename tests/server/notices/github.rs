//! GitHub Actions: groups, annotations, summary and outputs of the step.

use std::collections::BTreeMap;

use butler_protocol::spec::Operation;
use butler_result::{ChangeCounts, FinalStatus, RunResult, TestCounts, Timings};
use butler_runner::ci::{System, step_outputs};
use serde_json::json;

use super::{HOSTILE, assert_flat, commands, read};
use butler_testing::documented::assert_documented;
use butler_testing::world::{MODULE, RunEnd, World};

const CHECK: &str = "check \"c\" {\n  assert {\n    condition     = var.name == \"x\"\n    error_message = \"Not x.\"\n  }\n}\n";

/// A step of a job on the world's own repository.
pub(super) async fn step(files: &[(&str, &str)]) -> World {
    let mut world = World::new(files).await;
    for (name, file) in [("GITHUB_STEP_SUMMARY", "summary"), ("GITHUB_OUTPUT", "output")] {
        let path = world.path(file);
        std::fs::write(&path, "").unwrap();
        world.set(name, path);
    }
    world.set("GITHUB_ACTIONS", "true");
    let place = world.path("repository");
    let mut names = place.components().rev().map(|it| it.as_os_str().to_str().unwrap().to_owned());
    let (name, owner) = (names.next().unwrap(), names.next().unwrap());
    world.set("GITHUB_REPOSITORY", format!("{owner}/{name}"));
    world
}

/// The outputs of the step, parsed as by GitHub.
pub(super) fn outputs(world: &World) -> BTreeMap<String, String> {
    let text = read(&world.path("output"));
    let mut lines = text.lines();
    let mut outputs = BTreeMap::new();
    while let Some(line) = lines.next() {
        let (name, delimiter) = line.split_once("<<").unwrap();
        let value: Vec<&str> = lines.by_ref().take_while(|line| *line != delimiter).collect();
        outputs.insert(name.to_owned(), value.join("\n"));
    }
    outputs
}

async fn run(world: &World, operation: &str) -> RunEnd {
    let mut config = world.config(operation);
    config["source"]["workingDirectory"] = json!("modules/a");
    world.run(config).await
}

#[tokio::test]
async fn plan_is_grouped_by_phase_and_sets_step_outputs() {
    let world = step(&[("modules/a/main.tf", MODULE), ("modules/a/check.tf", CHECK)]).await;
    let end = run(&world, "plan").await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    let commands = commands(System::GitHubActions, &end.stdout);
    assert_flat(&commands, "group", "endgroup");
    let groups: Vec<_> = end.stdout.lines().filter(|line| line.starts_with("::group::")).collect();
    assert_eq!(groups, ["::group::source", "::group::init", "::group::plan", "::group::timings"]);
    let (before, rest) = end.stdout.split_once("::group::plan\n").unwrap();
    assert!(before.contains("Initializing the backend..."), "{before}");
    let (plan, after) = rest.split_once("::endgroup::\n").unwrap();
    assert!(plan.contains("Plan: 1 to add"), "{plan}");
    let table = after.split_once("::endgroup::").unwrap().0;
    assert!(table.contains("phase ") && table.contains("total "), "{table}");
    let warning = "::warning file=modules/a/check.tf,line=3,title=Check block assertion failed::Not x.%0A%0Ain check \"c\"";
    assert_eq!(end.stdout.lines().last(), Some(warning));

    let outputs = outputs(&world);
    for (name, value) in [
        ("status", "succeeded"),
        ("exit-code", "0"),
        ("operation", "plan"),
        ("plan-changes", "true"),
        ("add", "1"),
        ("change", "0"),
        ("destroy", "0"),
        ("tests-failed", ""),
        ("summary", "Plan: 1 to add, 0 to change, 0 to destroy."),
    ] {
        assert_eq!(outputs[name], value, "{name}");
    }
    let summary = read(&world.path("summary"));
    assert!(
        summary.starts_with("## ✅ Plan succeeded: `repository//modules/a`\n")
            && summary.contains("| **total** |"),
        "{summary}"
    );
    let log = world.received().log_text();
    assert!(!log.contains("::group::") && !log.contains("::warning"), "{log}");
}

#[tokio::test]
async fn failed_plan_is_annotated_at_its_file_and_line() {
    let module = "output \"z\" {\n  value = file(\"100%, missing\")\n}\n";
    let world = step(&[("modules/a/main.tf", module)]).await;
    let end = run(&world, "plan").await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    let commands = commands(System::GitHubActions, &end.stdout);
    assert_flat(&commands, "group", "endgroup");
    let errors: Vec<_> = commands.iter().filter(|(name, _)| name == "error").collect();
    assert_eq!(errors.len(), 1, "{commands:#?}");
    let expected = "::error file=modules/a/main.tf,line=2,title=Invalid function argument::Invalid value for \"path\" parameter: no file exists at \"100%25, missing\"; this%0A";
    assert!(errors[0].1.starts_with(expected), "{errors:#?}");
    let outputs = outputs(&world);
    assert_eq!((&*outputs["status"], &*outputs["plan-changes"]), ("failed", ""));
    assert_eq!(outputs["exit-code"], "1");
    assert!(read(&world.path("summary")).contains("Invalid function argument"));
}

#[tokio::test]
async fn output_of_a_module_is_never_a_workflow_command() {
    for exit in ["0", "1"] {
        let world = step(&[("main.tf", HOSTILE)]).await;
        let mut config = world.config("apply");
        config["variables"] = json!({"exit": {"value": exit}});
        let end = world.run(config).await;
        assert_eq!(end.code.map(|code| code.to_string()).as_deref(), Some(exit), "{}", end.stderr);
        assert!(end.stdout.contains(": :error::hacked"), "{}", end.stdout);
        assert!(end.stdout.contains("# #[error]hacked"), "{}", end.stdout);
        let mut allowed = vec!["group", "endgroup"];
        if exit == "1" {
            allowed.push("error");
        }
        let on_stdout = commands(System::GitHubActions, &end.stdout);
        assert!(on_stdout.iter().all(|(name, _)| allowed.contains(&&**name)), "{on_stdout:#?}");
        assert_flat(&on_stdout, "group", "endgroup");
        let errors: Vec<_> = on_stdout.iter().filter(|(name, _)| name == "error").collect();
        assert_eq!(errors.len().to_string(), exit, "{errors:#?}");
        let on_stderr = commands(System::GitHubActions, &end.stderr);
        assert!(on_stderr.iter().all(|(name, _)| name == "add-mask"), "{on_stderr:#?}");
        assert!(on_stderr.iter().all(|(_, line)| !line.contains("hacked")), "{on_stderr:#?}");
        // The registry gets the unchanged output.
        let log = world.received().log_text();
        assert!(log.contains("::stop-commands::hacked"), "{log}");
    }
}

#[tokio::test]
async fn apply_works_without_a_home_and_without_command_files() {
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    world.set("GITHUB_ACTIONS", "true");
    world.set("HOME", "/proc");
    world.set("BUTLER_CACHE_DIR", "");
    let end = world.run(world.config("apply")).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    for name in ["GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT"] {
        world.set(name, "/proc/nowhere/file");
    }
    let end = world.run(world.config("plan")).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    for what in ["summary", "outputs"] {
        let said = format!("cannot write the step's {what} to `/proc/nowhere/file`");
        assert!(end.stderr.contains(&said), "{}", end.stderr);
    }
}

#[test]
fn documentation_lists_the_step_outputs() {
    let timings = Timings {
        started: std::time::SystemTime::UNIX_EPOCH,
        total: std::time::Duration::ZERO,
        phases: Vec::new(),
    };
    let mut result = RunResult::of(FinalStatus::Succeeded, 0, timings);
    result.run_id = Some("550e8400-e29b-41d4-a716-446655440000".to_owned());
    result.operation = Some(Operation::Plan);
    result.summary = Some("Plan: 2 to add, 0 to change, 1 to destroy.".to_owned());
    result.plan_changes = Some(true);
    result.counts = Some(ChangeCounts {
        add: 2,
        change: 0,
        destroy: 1,
        replace: 1,
        import: 0,
        ..ChangeCounts::default()
    });
    result.tests = Some(TestCounts { passed: 3, failed: 0, skipped: 1 });
    let rows = step_outputs(&result).into_iter();
    let rows: Vec<_> = rows.map(|(name, value)| format!("| `{name}` | `{value}` |")).collect();
    assert_documented("docs/ci-output.md", "outputs", &rows);
}
