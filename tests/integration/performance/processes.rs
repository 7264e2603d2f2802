//! The programs that a run starts: each costs its start, and Terraform's also reads the module again.

use super::released;
use crate::support::accounted::Account;
use crate::support::world::{MODULE, World};

const TEST: &str = r#"
run "good" {
  command = plan
}
"#;

#[tokio::test]
async fn operations_start_no_more_programs_than_they_need() {
    let cases: [(&str, &[&str]); 8] = [
        // What Terraform this is is asked once on a machine.
        ("validate", &["version", "init", "validate"]),
        ("validate", &["init", "validate"]),
        ("test", &["init", "test"]),
        ("plan", &["init", "plan", "show"]),
        ("apply", &["init", "plan", "show", "apply", "output"]),
        ("drift-check", &["init", "plan", "show"]),
        ("refresh", &["init", "plan", "show", "output"]),
        ("destroy", &["init", "plan", "show", "apply", "output"]),
    ];
    let world = World::new(&[("main.tf", MODULE), ("main.tftest.hcl", TEST)]).await;
    for (operation, commands) in cases {
        world.add_run(world.config(operation));
        let account = Account::of(&released(&world, &[])).await;
        let end = world.end(&account.output);
        assert_eq!(end.code, Some(0), "{operation}: {}", end.stderr);
        // The source is fetched by a child, whose memory is given back whole.
        let fetch = "butler-runner internal-fetch".to_owned();
        let commands = commands.iter().map(|command| format!("terraform {command}"));
        let expected: Vec<_> = std::iter::once(fetch).chain(commands).collect();
        assert_eq!(account.programs, expected, "{operation}");
    }
}
