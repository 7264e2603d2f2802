//! Other CI systems: groups and annotations if they support them, and plain lines otherwise.

use butler_base::event::Phase;
use butler_runner::ci::{System, notation};
use serde_json::json;

use super::{HOSTILE, assert_flat, commands, run_with};
use butler_testing::documented::assert_documented;
use butler_testing::world::World;

#[tokio::test]
async fn each_ci_system_gets_commands_of_the_runner_only() {
    for (system, begin, end, allowed) in [
        (System::AzurePipelines, "group", "endgroup", &["group", "endgroup", "task.logissue"][..]),
        (
            System::TeamCity,
            "blockOpened",
            "blockClosed",
            &["blockOpened", "blockClosed", "message"],
        ),
        (System::Buildkite, "", "", &["---"]),
    ] {
        let mut world = World::new(&[("main.tf", HOSTILE)]).await;
        world.set("BUTLER_CI", system.id());
        let mut config = world.config("apply");
        config["variables"] = json!({"exit": {"value": "1"}});
        let ended = world.run(config).await;
        assert_eq!(ended.code, Some(1), "{}", ended.stderr);
        let found = commands(system, &ended.stdout);
        assert!(found.iter().all(|(name, _)| allowed.contains(&&**name)), "{found:#?}");
        if system == System::Buildkite {
            let titles: Vec<_> = found.iter().map(|(_, line)| line.as_str()).collect();
            assert_eq!(titles, ["--- source", "--- init", "--- plan", "--- apply", "--- timings"]);
        } else {
            assert_flat(&found, begin, end);
            let notes = found.iter().filter(|(name, _)| *name == allowed[2]).count();
            assert_eq!(notes, 1, "{found:#?}");
        }
        let on_stderr = commands(system, &ended.stderr);
        assert!(on_stderr.is_empty(), "{on_stderr:#?}");
    }
}

#[tokio::test]
async fn other_systems_get_lines_with_time_and_phase_and_a_result_file() {
    for (name, value) in
        [("JENKINS_URL", "https://ci.example"), ("CIRCLECI", "true"), ("CI", "true")]
    {
        let mut world = World::new(&[("main.tf", HOSTILE)]).await;
        world.set(name, value);
        let (end, result) = run_with(&world, world.config("apply")).await;
        assert_eq!(end.code, Some(0), "{}", end.stderr);
        let (log, table) = end.stdout.split_once("phase ").unwrap();
        for line in log.lines() {
            let (time, rest) = line.split_once(' ').unwrap();
            assert!(time.len() == 20 && time.ends_with('Z'), "{line:?}");
            let phase = rest.split_once(" | ").or_else(|| rest.split_once(" |")).unwrap().0;
            assert!(["source", "init", "plan", "apply"].contains(&phase), "{line:?}");
            assert!(!line.contains('\r'), "{line:?}");
        }
        assert!(log.contains("apply | Apply complete!"), "{log}");
        assert!(table.contains("total "), "{table}");
        assert_eq!(result["status"], "succeeded");
        assert_eq!(result["counts"]["add"], 1);
    }
}

#[test]
fn documentation_lists_the_output_of_each_ci_system() {
    let rows: Vec<String> = System::ALL
        .into_iter()
        .map(|system| {
            let mut notation = notation(system);
            assert_eq!(notation.begun(Phase::Plan), None);
            let line = notation.line("Plan: 1 to add").into_owned();
            let shown = without_times(&line.replace('\u{1b}', "␛").replace('\r', "␍"));
            let shown = shown.replace('|', "\\|");
            let variable = match system {
                System::Tekton => "`/tekton/steps` is there".to_owned(),
                System::Plain => "`CI`".to_owned(),
                _ => system.variable().map_or("-".to_owned(), |name| format!("`{name}`")),
            };
            let shown: Vec<_> = shown.lines().map(|line| format!("`{line}`")).collect();
            format!(
                "| {} | `{}` | {variable} | {} |",
                system.title(),
                system.id(),
                shown.join("<br>")
            )
        })
        .collect();
    assert_documented("docs/ci-output.md", "systems", &rows);
}

/// Replaces times, which differ between runs, by their kind.
fn without_times(line: &str) -> String {
    let stamp = line.split_once("Z ").filter(|(time, _)| time.len() == 19);
    let line = stamp.map_or(line.to_owned(), |(_, rest)| format!("TIME {rest}"));
    let numbers = line.split(|c: char| !c.is_ascii_digit()).filter(|it| it.len() >= 10);
    let numbers: Vec<String> = numbers.map(str::to_owned).collect();
    let mut line = line;
    for number in numbers {
        let name = if number.len() > 10 { "MILLISECONDS" } else { "SECONDS" };
        line = line.replacen(&number, name, 1);
    }
    line
}
