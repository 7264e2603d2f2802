//! The memory of the runner itself, without its children.
//!
//! `RssAnon` is the private memory of a run. The other resident memory is pages of the executable,
//! which the kernel shares between runners and reclaims. The kernel stores no peak of `RssAnon`, so
//! it is sampled. `VmHWM` is exact; its limit detects leaks.

use std::time::Duration;

use super::released;
use butler_testing::world::{MODULE, World};

/// Limit of private memory for a plan of one resource, in bytes.
const TINY: u64 = 4_000_000;

/// Limit of private memory for a plan of 500 resources or an apply that prints 200,000 lines, in
/// bytes.
const LARGE: u64 = 7_500_000;

/// Limit of resident memory, in bytes.
const RESIDENT: u64 = 24_000_000;

/// Prints 200,000 lines, each after the resource's name.
const LINES: &str = r#"
resource "terraform_data" "lines" {
  provisioner "local-exec" {
    command = "seq --format='line %07.0f of 200000' 200000"
  }
}
"#;

const RESOURCES: &str = r#"
resource "terraform_data" "many" {
  count = 500
  input = { name = "resource-${count.index}", tags = ["a", "b", "c"] }
}
"#;

#[tokio::test]
async fn memory_of_a_tiny_plan_stays_within_its_limit() {
    let world = World::new(&[("main.tf", MODULE)]).await;
    assert_peak(&world, "plan", TINY).await;
}

#[tokio::test]
async fn memory_of_500_resources_stays_within_its_limit() {
    let world = World::new(&[("main.tf", RESOURCES)]).await;
    assert_peak(&world, "plan", LARGE).await;
}

#[tokio::test]
async fn memory_of_200_000_lines_stays_within_its_limit() {
    let world = World::new(&[("main.tf", LINES)]).await;
    // The registry accepts lines as fast as they arrive.
    world.fault("POST", "logs", 200);
    assert_peak(&world, "apply", LARGE).await;
}

async fn assert_peak(world: &World, operation: &str, most_private: u64) {
    world.add_run(world.config(operation));
    let mut command = released(world, &[]);
    command.arg("-q").stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let mut command = tokio::process::Command::from(command);
    let child = command.kill_on_drop(true).spawn().unwrap();
    let process = child.id().unwrap();
    let mut output = Box::pin(child.wait_with_output());
    let (mut private, mut resident) = (0, 0);
    let output = loop {
        tokio::select! {
            output = &mut output => break output.unwrap(),
            () = tokio::time::sleep(Duration::from_millis(1)) => {
                private = private.max(field(process, "RssAnon:"));
                resident = resident.max(field(process, "VmHWM:"));
            }
        }
    };
    let end = world.end(&output);
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    assert!(private > 0 && private <= most_private, "{private} bytes of private memory");
    assert!(resident > private && resident <= RESIDENT, "{resident} bytes of resident memory");
}

/// A field of the process's status in bytes; 0 if it has ended.
fn field(process: u32, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let value = status.lines().find_map(|line| line.strip_prefix(name));
    value.map_or(0, |it| it.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024)
}
