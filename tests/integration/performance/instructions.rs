//! What the runner computes for a log, counted by Valgrind: the same on every machine but for how the
//! log was cut into pieces on its way, because Valgrind's processor is the same, too.

use serde_json::json;

use super::{print_lines, released};
use crate::support::environment::find_program;
use crate::support::stand_in::StandIn;
use crate::support::world::World;

/// Most instructions for a byte of log that is read, masked, shown and sent, in lines of 100 bytes: 106
/// are counted, and a seventh more is let pass.
const FOR_A_BYTE: u64 = 122;

/// Most instructions for all else in an apply by a stand-in for Terraform: 21 million are counted.
const FOR_A_RUN: u64 = 24_000_000;

/// How many lines of 100 bytes are 10 MB.
const MANY: u32 = 100_000;

/// How many are next to nothing.
const FEW: u32 = 100;

const SECRET: &str = "correct-horse-battery";

#[tokio::test]
async fn a_run_and_each_byte_of_its_log_cost_few_instructions() {
    let run = instructions(FEW).await;
    assert!(run <= FOR_A_RUN, "{run} instructions for a run");
    let byte = (instructions(MANY).await - run) / (u64::from(MANY - FEW) * 100);
    assert!(byte <= FOR_A_BYTE, "{byte} instructions for a byte");
}

/// How many instructions an apply takes that prints so many lines.
async fn instructions(lines: u32) -> u64 {
    let mut world = World::new(&[("main.tf", "")]).await;
    StandIn::doing(&mut world, &[("apply", &print_lines(lines, SECRET))]);
    // It is the runner that is to be slow, not its registry.
    world.fault("POST", "logs", 200);
    let mut config = world.config("apply");
    config["envVars"] = json!({"PASSWORD": {"value": SECRET, "sensitive": true}});
    world.add_run(config);
    let valgrind = find_program("valgrind").expect("the tests need Valgrind: `.ci/setup test`");
    let counted = world.path("counted");
    let file = format!("--callgrind-out-file={}", counted.display());
    let before = [valgrind.as_os_str(), "--tool=callgrind".as_ref(), file.as_ref()];
    let mut command = tokio::process::Command::from(released(&world, &before));
    let output = command.kill_on_drop(true).output().await.unwrap();
    let end = world.end(&output);
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    let masked = end.stdout.lines().filter(|line| line.contains(" ***")).count();
    assert_eq!(masked, lines as usize / 100, "{}", end.stderr);
    let counted = std::fs::read_to_string(counted).unwrap();
    let total = counted.lines().find_map(|line| line.strip_prefix("totals: ")).unwrap();
    total.trim().parse().unwrap()
}
