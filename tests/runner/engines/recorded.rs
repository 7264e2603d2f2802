//! Recordings of engines that are not installed everywhere: the output and the exit code of each command.
//!
//! `BUTLER_TEST_WRITE_RECORDINGS=1` and `BUTLER_TEST_ENGINES` write them into `tests/data/engines`. The same expectations
//! hold for an engine and for its recording.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::engine::{Engine, engines};
use butler_testing::release_site::executable;
use butler_testing::world::World;

/// The variable that writes recordings.
const WRITE: &str = "BUTLER_TEST_WRITE_RECORDINGS";

/// The placeholder for the directory of the world in a recording.
const WORLD: &str = "/world";

/// Executes the real engine, and records each call.
const RECORDER: &str = r#"#!/bin/sh
number=$(ls CALLS | wc -l)
call=CALLS/$number
mkdir "$call"
printf '%s\n' "$@" > "$call/arguments"
ENGINE "$@" > "$call/stdout" 2> "$call/stderr"
code=$?
echo "$code" > "$call/code"
cat "$call/stdout"
cat "$call/stderr" >&2
exit "$code"
"#;

/// Prints the output of the real engine at the same call.
const PLAYER: &str = r#"#!/bin/sh
number=$(ls CALLS/done | wc -l)
call=CALLS/$number
: > "CALLS/done/$number"
if [ "$(head -n 1 "$call/arguments")" != "$1" ]; then
  echo "call $number of the recording is $(head -n 1 "$call/arguments"), not $1" >&2
  exit 99
fi
for argument; do
  case $argument in -out=*) : > "${argument#-out=}" ;; esac
done
cat "$call/stdout"
cat "$call/stderr" >&2
exit "$(cat "$call/code")"
"#;

/// A call of the engine.
#[derive(Debug, Deserialize, Serialize)]
struct Call {
    arguments: String,
    stdout: String,
    stderr: String,
    code: String,
}

/// The recordings of one engine, by scenario.
#[derive(Debug, Deserialize, Serialize)]
struct Recording {
    /// `terraform` or `tofu`.
    program: String,
    version: String,
    scenarios: BTreeMap<String, Vec<Call>>,
}

/// An operation on a module, and the report that the runner must make of it.
struct Scenario {
    name: &'static str,
    module: &'static str,
    operation: &'static str,
    /// Members of the last status.
    status: Value,
    /// A part of the log.
    log: &'static str,
}

fn scenarios() -> Vec<Scenario> {
    let scenario =
        |name, module, operation, status, log| Scenario { name, module, operation, status, log };
    vec![
        scenario(
            "apply",
            "resource \"terraform_data\" \"one\" {\n  input = \"1\"\n}\nresource \"terraform_data\" \"two\" {}\noutput \"it\" {\n  value = terraform_data.one.output\n}\n",
            "apply",
            json!({"status": "succeeded", "resources_to_add": 2, "resources_to_change": 0, "resources_to_destroy": 0}),
            "2 added, 0 changed, 0 destroyed",
        ),
        scenario(
            "plan",
            "resource \"terraform_data\" \"one\" {}\n",
            "plan",
            json!({"status": "succeeded", "resources_to_add": 1}),
            "Plan: 1 to add, 0 to change, 0 to destroy.",
        ),
        scenario(
            "refused",
            "resource \"terraform_data\" \"one\" {}\nresource \"terraform_data\" \"two\" {\n  depends_on = [terraform_data.one]\n  provisioner \"local-exec\" {\n    command = \"echo no >&2; exit 3\"\n  }\n}\n",
            "apply",
            json!({"status": "failed", "error": {"phase": "apply", "class": "module"}}),
            "local-exec provisioner error",
        ),
        scenario(
            "syntax",
            "resource \"terraform_data\" \"one\" {\n  nothing = 1\n}\n",
            "plan",
            json!({"status": "failed", "error": {"class": "syntax"}}),
            "Unsupported argument",
        ),
        scenario(
            "validation",
            "output \"x\" {\n  value = local.missing\n}\n",
            "validate",
            json!({"status": "failed", "error": {"class": "syntax"}}),
            "Reference to undeclared local value",
        ),
    ]
}

/// Whether `expected` is in `found`, member by member.
fn is_in(expected: &Value, found: &Value) -> bool {
    match expected {
        Value::Object(members) => members.iter().all(|(name, value)| is_in(value, &found[name])),
        _ => expected == found,
    }
}

/// Writes an executable that refers to the calls in `directory`.
fn write_program(path: &Path, script: &str, directory: &Path, engine: &Path) {
    let script = script
        .replace("CALLS", directory.to_str().unwrap())
        .replace("ENGINE", engine.to_str().unwrap());
    executable(path, script);
}

/// Runs a scenario with this engine, which is real or replays, and checks the report.
async fn check(engine: &Engine, world: &World, scenario: &Scenario) {
    let end = engine.run(world, scenario.operation).await;
    let (status, log) = (world.last_status(), world.received().log_text());
    let what = format!("{}, {}: {status}\n{log}\n{}", engine.name(), scenario.name, end.stderr);
    assert!(is_in(&scenario.status, &status), "{what}");
    assert!(log.contains(scenario.log), "{what}");
}

/// The calls in a directory that a recorder has filled.
fn read_calls(directory: &Path, world: &Path) -> Vec<Call> {
    let read = |number: usize, name: &str| {
        let text = std::fs::read(directory.join(number.to_string()).join(name)).unwrap();
        String::from_utf8_lossy(&text).replace(world.to_str().unwrap(), WORLD)
    };
    let count = std::fs::read_dir(directory).unwrap().count();
    (0..count)
        .map(|number| Call {
            arguments: read(number, "arguments"),
            stdout: read(number, "stdout"),
            stderr: read(number, "stderr"),
            code: read(number, "code"),
        })
        .collect()
}

fn recordings() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/engines")
}

#[tokio::test]
async fn engines_behave_as_recorded_scenarios_say() {
    for engine in engines() {
        let mut recorded = BTreeMap::new();
        let real = engine.executable().canonicalize().unwrap();
        for scenario in scenarios() {
            let world = engine.world(&[("main.tf", scenario.module)]).await;
            let calls = world.path("calls");
            std::fs::create_dir(&calls).unwrap();
            std::fs::remove_file(engine.executable()).unwrap();
            write_program(&engine.executable(), RECORDER, &calls, &real);
            check(&engine, &world, &scenario).await;
            recorded.insert(scenario.name.to_owned(), read_calls(&calls, world.directory.path()));
        }
        if std::env::var_os(WRITE).is_some() {
            let (program, version) = (engine.program.to_owned(), engine.version.to_string());
            let file = recordings().join(format!("{program}-{version}.json"));
            let recording = Recording { program, version, scenarios: recorded };
            let text = serde_json::to_string_pretty(&recording).unwrap();
            std::fs::write(file, text + "\n").unwrap();
        }
    }
}

#[tokio::test]
async fn recordings_of_other_engines_are_understood() {
    let mut count = 0;
    for entry in std::fs::read_dir(recordings()).unwrap() {
        let recording: Recording =
            serde_json::from_slice(&std::fs::read(entry.unwrap().path()).unwrap()).unwrap();
        let program = if recording.program == "tofu" { "tofu" } else { "terraform" };
        let engine = Engine::named(program, recording.version.parse().unwrap());
        for scenario in scenarios() {
            let world = engine.world(&[("main.tf", scenario.module)]).await;
            let calls = world.path("calls");
            std::fs::create_dir_all(calls.join("done")).unwrap();
            for (number, call) in recording.scenarios[scenario.name].iter().enumerate() {
                let directory = calls.join(number.to_string());
                std::fs::create_dir(&directory).unwrap();
                let path = world.directory.path().to_str().unwrap();
                for (name, text) in [
                    ("arguments", &call.arguments),
                    ("stdout", &call.stdout),
                    ("stderr", &call.stderr),
                    ("code", &call.code),
                ] {
                    std::fs::write(directory.join(name), text.replace(WORLD, path)).unwrap();
                }
            }
            write_program(&engine.executable(), PLAYER, &calls, Path::new(""));
            check(&engine, &world, &scenario).await;
            count += 1;
        }
    }
    assert!(count >= 4 * scenarios().len(), "only {count} scenarios are recorded");
}
