//! The number of programs that a run starts: each start costs time, and each Terraform command
//! reads the module again.

use super::released;
use butler_testing::accounted::Account;
use butler_testing::world::{MODULE, World};

const TEST: &str = r#"
run "good" {
  command = plan
}
"#;

/// A child fetches the source, so that its memory is returned completely.
const FETCH: &str = "internal-fetch";

#[tokio::test]
async fn operations_start_no_more_programs_than_they_need() {
    let cases: [(&str, &[&str]); 8] = [
        // The version of Terraform is queried once per machine.
        ("validate", &["version", FETCH, "init", "validate"]),
        ("validate", &[FETCH, "init", "validate"]),
        ("test", &[FETCH, "init", "test"]),
        ("plan", &[FETCH, "init", "plan", "show"]),
        ("apply", &[FETCH, "init", "plan", "show", "apply", "output"]),
        ("drift-check", &[FETCH, "init", "plan", "show"]),
        ("refresh", &[FETCH, "init", "plan", "show", "output"]),
        ("destroy", &[FETCH, "init", "plan", "show", "apply", "output"]),
    ];
    let world = World::new(&[("main.tf", MODULE), ("main.tftest.hcl", TEST)]).await;
    for (operation, commands) in cases {
        world.add_run(world.config(operation));
        let account = Account::of(&released(&world, &[])).await;
        let end = world.end(&account.output);
        assert_eq!(end.code, Some(0), "{operation}: {}", end.stderr);
        let expected: Vec<_> = commands
            .iter()
            .map(|command| match *command {
                FETCH => format!("butler-runner {FETCH}"),
                command => format!("terraform {command}"),
            })
            .collect();
        assert_eq!(account.programs, expected, "{operation}");
    }
}
