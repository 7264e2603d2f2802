//! The format of run errors: each is printed once, with a hint at the end and the setting to
//! change.

use expect_test::expect;
use serde_json::json;

use butler_testing::machine::Machine;
use butler_testing::stand_in::{AtPlan, StandIn};
use butler_testing::terminal::Terminal;
use butler_testing::world::{MODULE, World};

#[tokio::test]
async fn failed_run_at_a_terminal_prints_one_error_and_its_hint() {
    let world = World::new(&[("main.tf", MODULE)]).await;
    let mut config = world.config("plan");
    config["terraformVersion"] = "newest".into();
    world.add_run(config);
    let terminal = Terminal::new(60, 160);
    let child = terminal.start(&world.execute());
    let output = terminal.finish(child).await;
    let text = terminal.text();
    assert_eq!(world.end(&output).code, Some(1), "{text}");
    assert_eq!(text.matches("Error").count() + text.matches("ERROR").count(), 1, "{text}");
    assert!(!text.contains("INFO") && !text.contains("Z "), "there is a timestamp: {text}");
    let last: Vec<_> = text.trim_end().lines().rev().take(3).collect();
    expect![[r"
        Error: config: `terraformVersion` cannot be used: `newest` is neither a version nor a constraint
        hint: write `1.9.8`, `1.9`, `opentofu-1.8.3`, `>= 1.6, < 2` or `latest`, in quotes if there are spaces
    "]].assert_eq(&format!("{}\n{}\n", last[1], last[0]));
    assert_eq!(last[2], "", "{text}");
}

#[tokio::test]
async fn failed_run_without_a_terminal_prints_one_error_with_timestamps() {
    let world = World::new(&[("main.tf", MODULE)]).await;
    let mut config = world.config("plan");
    config["terraformVersion"] = "newest".into();
    let end = world.run(config).await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    assert_eq!(end.stderr.matches("ERROR config: ").count(), 1, "{}", end.stderr);
    assert!(!end.stderr.contains("Error: "), "{}", end.stderr);
}

#[test]
fn unresolvable_registry_host_is_reported_once() {
    let mut machine = Machine::new();
    machine.set("BUTLER_ENDPOINT", "http://registry.invalid/api");
    machine.set("BUTLER_RUN_ID", "7");
    machine.set("BUTLER_TOKEN", "brce_hunter2");
    machine.set("BUTLER_REGISTRY_TIMEOUT", "3s");
    let output = machine.run(&["execute"]);
    assert_eq!(output.code, Some(4), "{output:?}");
    assert_eq!(output.stderr.matches("trying again").count(), 1, "{output:?}");
    let output = machine.run(&["execute", "-v"]);
    assert!(
        output.stderr.matches("failed again").count() > 1,
        "it is tried more often: {output:?}"
    );
}

#[test]
fn run_file_with_a_wrong_type_is_rejected_with_field_and_type() {
    let machine = Machine::new();
    let mut shown = String::new();
    for json in [
        r#"{"operation": "plan", "variables": {"password": {"sensitive": "hunter2"}}}"#,
        r#"{"operation": ["hunter2"]}"#,
        r#"{"operation": "plan", "source": "hunter2"}"#,
        "{\"operation\": \"plan\",\n\n \"source\": {},\n}",
        "operation: plan",
    ] {
        std::fs::write(machine.path("run.json"), json).unwrap();
        let output = machine.run(&["execute", "--config", "run.json"]);
        assert_eq!(output.code, Some(2), "{output:?}");
        let message = output.stderr.split_once(" ERROR ").expect(&output.stderr).1;
        shown.push_str(&message.replace(machine.path("").to_str().unwrap(), "<machine>/"));
    }
    assert!(!shown.contains("hunter2"), "{shown}");
    expect![[r"
        `<machine>/run.json`: the run's configuration cannot be read: line 1, column 71: `variables.password.sensitive` must be true or false, and is text; `butler-runner schema run` prints its shape (--config, BUTLER_CONFIG)
        `<machine>/run.json`: the run's configuration cannot be read: line 1, column 14: `operation` must be text, and is a list; `butler-runner schema run` prints its shape (--config, BUTLER_CONFIG)
        `<machine>/run.json`: the run's configuration cannot be read: line 1, column 41: `source` must be an object, and is text; `butler-runner schema run` prints its shape (--config, BUTLER_CONFIG)
        `<machine>/run.json`: the run's configuration cannot be read: line 4, column 1: trailing comma; `butler-runner schema run` prints its shape (--config, BUTLER_CONFIG)
        `<machine>/run.json`: the run's configuration cannot be read: line 1, column 1: expected value; `butler-runner schema run` prints its shape (--config, BUTLER_CONFIG)
    "]].assert_eq(&shown);
}

#[tokio::test]
async fn secret_in_the_reason_of_a_failure_is_masked_in_every_document() {
    let module = "variable \"password\" {}\n";
    let mut world = World::new(&[("main.tf", module)]).await;
    let act = "echo 'Error: cannot log in with hunter22-hidden' >&2";
    StandIn::install(&mut world, AtPlan::Do(act));
    let documents = [
        "reports/status.json",
        "reports/result.json",
        "reports/log.txt",
        "summary.md",
        "page.html",
    ]
    .map(|name| world.path(name));
    world.set("BUTLER_REPORT_DIR", world.path("reports"));
    world.set("BUTLER_SUMMARY", world.path("summary.md"));
    world.set("BUTLER_REPORT", world.path("page.html"));
    let mut config = world.config("plan");
    config["variables"]["password"] = json!({"value": "hunter22-hidden", "sensitive": true});
    let end = world.run(config).await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    let (message, _) = world.last_error();
    assert!(message.contains("cannot log in with ***"), "{message}");
    assert!(
        !world.reports_and_output(&end).contains("hunter22"),
        "{}",
        world.reports_and_output(&end)
    );
    for document in documents {
        let text = std::fs::read_to_string(&document).unwrap();
        assert!(text.contains("cannot log in with ***"), "{}: {text}", document.display());
        assert!(!text.contains("hunter22"), "{}: {text}", document.display());
    }
}
