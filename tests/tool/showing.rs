//! `show` runs as soon as the plan is saved, and its early result is never reported if it could be
//! wrong. The early start needs 2 GiB of free memory.

use butler_testing::stand_in::StandIn;
use butler_testing::world::{MODULE, World};

/// Saves a plan with the content `first`.
const SAVE: &str = r#"
  for argument; do case "$argument" in -out=*) plan="${argument#-out=}" ;; esac; done
  echo first > "$plan""#;

/// Shows a plan with one output, named after the content of the plan.
const SHOW: &str = r#"
  echo show >> "$record/commands"
  for plan; do :; done
  printf '{"format_version":"1.2","output_changes":{"%s":{"actions":["create"]}}}' "$(cat "$plan")""#;

/// Waits until `show` has started. A run that starts `show` only after `plan` would wait forever.
const UNTIL_SHOWN: &str = r#"
  while [ ! -s "$record/commands" ]; do sleep 0.01; done"#;

/// Installs a tool that executes `acts` at `plan` and `show`.
fn tool(world: &mut World, plan: &[&str], show: &[&str]) -> StandIn {
    StandIn::doing(world, &[("plan", &plan.concat()), ("show", &show.concat())])
}

/// The names of the outputs in the reported plan.
fn reported(world: &World) -> Vec<String> {
    let plan = world.received().plans.last().cloned().unwrap();
    plan["plan_json"]["output_changes"].as_object().unwrap().keys().cloned().collect()
}

#[tokio::test]
async fn show_starts_when_the_plan_is_saved_before_plan_exits() {
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    let warn = "\n  echo 'Warning: of show' >&2";
    let say = "\n  echo 'the last line of plan'";
    let tool = tool(&mut world, &[SAVE, UNTIL_SHOWN, say], &[warn, SHOW]);
    let end = world.run(world.config("plan")).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    assert_eq!(tool.record("commands"), "show\n", "it is shown once");
    assert_eq!(reported(&world), ["first"]);
    let log = world.received().log_text();
    let place = |line: &str| log.find(line).unwrap_or_else(|| panic!("no {line:?} in {log}"));
    assert!(place("the last line of plan") < place("Warning: of show"), "{log}");
}

#[tokio::test]
async fn failure_of_plan_after_the_save_stops_the_running_show() {
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    let fail = "\n  echo 'Error: cannot give the lock back' >&2; exit 1";
    let hang = "\n  exec sleep 1000";
    let tool = tool(&mut world, &[SAVE, UNTIL_SHOWN, fail], &[SHOW, hang]);
    // Also asserts that no process of the run is left.
    let end = world.run(world.config("plan")).await;
    assert_eq!(end.code, Some(1), "{}", end.stderr);
    assert_eq!(tool.record("commands"), "show\n");
    let status = world.received().statuses.last().cloned().unwrap();
    assert_eq!(status["status"], "failed");
    assert!(status["error"]["message"].as_str().unwrap().contains("cannot give the lock back"));
    assert!(world.received().plans.is_empty());
}

#[tokio::test]
async fn show_is_repeated_if_its_early_result_is_unusable() {
    let again = r#"
  while [ ! -e "$record/shown" ]; do sleep 0.01; done
  before="$(stat -c %y "$plan")"; echo other > "$plan"; touch -d "$before" "$plan""#;
    let shown = r#"
  : > "$record/shown""#;
    let fail_first = r#"
  [ "$(wc -l < "$record/commands")" -gt 1 ] || { echo '{"half'; echo 'Error: no plan' >&2; exit 1; }"#;
    let flood_first = r#"
  [ "$(wc -l < "$record/commands")" -gt 1 ] || yes 'Warning: again and again' | head -n 9000 >&2"#;
    let begin = "\n  echo show >> \"$record/commands\"";
    let rest = SHOW.replace("echo show >> \"$record/commands\"", ":");
    for (plan, show, outputs) in [
        (vec![SAVE, UNTIL_SHOWN, again], vec![SHOW, shown], ["other"]),
        (vec![SAVE, UNTIL_SHOWN], vec![begin, fail_first, &rest], ["first"]),
        (vec![SAVE, UNTIL_SHOWN], vec![begin, flood_first, &rest], ["first"]),
    ] {
        let mut world = World::new(&[("main.tf", MODULE)]).await;
        let tool = tool(&mut world, &plan, &show);
        let end = world.run(world.config("plan")).await;
        assert_eq!(end.code, Some(0), "{}", end.stderr);
        assert_eq!(tool.record("commands"), "show\nshow\n");
        assert_eq!(reported(&world), outputs);
        let log = world.received().log_text();
        assert!(!log.contains("no plan") && !log.contains("again and again"), "{log}");
    }
}

#[tokio::test]
async fn show_starts_after_plan_exits_if_the_tool_writes_its_own_log() {
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    world.variables.push(("TF_LOG_CORE".into(), "trace".into()));
    // Gives a `show` that starts early the time to do so.
    let give_time = r#"
  for _ in $(seq 50); do [ -s "$record/commands" ] || sleep 0.01; done
  : > "$record/planned""#;
    let look = r#"
  [ -e "$record/planned" ] || echo early >> "$record/commands""#;
    let tool = tool(&mut world, &[SAVE, give_time], &[look, SHOW]);
    let end = world.run(world.config("plan")).await;
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    assert_eq!(tool.record("commands"), "show\n");
    assert_eq!(reported(&world), ["first"]);
}
