//! The runner's own memory at its most, with the pages of its file that were used.
//!
//! Kernels that keep files in large pieces map an executable that was just written by up to 3 MB more than
//! one that was read from the disk, whatever it uses; so that much is left above what is measured.

use super::released;
use crate::support::accounted::Account;
use crate::support::world::{MODULE, World};

/// Most for a plan of one resource, in bytes: 7.2 million are measured.
const TINY: u64 = 11_000_000;

/// Most for an apply that prints 200,000 lines, in bytes: 9.8 million are measured.
const MANY_LINES: u64 = 14_000_000;

/// What prints them, each after the resource's name.
const LINES: &str = r#"
resource "terraform_data" "lines" {
  provisioner "local-exec" {
    command = "seq --format='line %07.0f of 200000' 200000"
  }
}
"#;

#[tokio::test]
async fn memory_of_a_tiny_plan_stays_within_its_limit() {
    let world = World::new(&[("main.tf", MODULE)]).await;
    // From then on it is known what Terraform is on this machine.
    world.run(world.config("validate")).await;
    let memory = most_memory(&world, "plan").await;
    assert!(memory <= TINY, "{memory} bytes");
}

#[tokio::test]
async fn memory_of_an_apply_does_not_grow_with_its_lines() {
    let world = World::new(&[("main.tf", LINES)]).await;
    // A registry that takes them as fast as they come.
    world.fault("POST", "logs", 200);
    let memory = most_memory(&world, "apply").await;
    assert!(memory <= MANY_LINES, "{memory} bytes");
}

async fn most_memory(world: &World, operation: &str) -> u64 {
    world.add_run(world.config(operation));
    let mut command = released(world, &[]);
    command.arg("-q");
    let account = Account::of(&command).await;
    let end = world.end(&account.output);
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    account.memory
}
