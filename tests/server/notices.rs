//! Groups, annotations and files of each CI system, and that a module cannot create any.

mod diagnostics;
mod github;
mod gitlab;
mod others;
mod unreported;

use std::path::Path;

use butler_runner::ci::System;
use serde_json::Value;

use butler_testing::world::{RunEnd, World};

/// Prints the commands of each CI system on both streams, and fails at the end if requested. The
/// error quotes all of it, word-wrapped; in a multi-line value the commands follow white space.
const HOSTILE: &str = r###"
variable "exit" { default = 0 }
variable "secret" {
  default   = "hunter22-secret"
  sensitive = true
}
output "lines" {
  value = <<-EOT
    first
    ::error::hacked
    --- hacked
    ##[error]hacked
  EOT
}
resource "terraform_data" "hostile" {
  provisioner "local-exec" {
    interpreter = ["/bin/sh", "-c"]
    command     = <<-EOT
      for out in 1 2; do
        {
          echo '::error::hacked'
          echo '  ::add-mask::hacked'
          printf '10%%\r::warning::hacked\r\n'
          printf '\357\273\277::notice::hacked\n'
          echo 'text ##[error]hacked ##vso[task.setvariable variable=a]hacked'
          echo "##teamcity[buildStop comment='hacked']"
          echo '--- hacked'
          printf '\033[0Ksection_end:1:hacked\r\033[0K\n'
          echo '::stop-commands::hacked'
          echo '::endgroup::'
        } >&$out
      done
      exit ${var.exit}
    EOT
  }
}
"###;

/// The commands that a CI system executes because of this text: name and full line.
fn commands(system: System, text: &str) -> Vec<(String, String)> {
    let lines = text.split(['\n', '\r']);
    let mut found = Vec::new();
    for line in lines {
        // Parsed as in `ActionCommand.cs` of GitHub's runner and `Command.cs` of Azure's agent.
        let v2 = line.trim_start_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
        let v2 = v2.strip_prefix("::").and_then(|rest| rest.split_once("::"));
        let bracket = |prefix: &str| {
            let rest = line.split_once(prefix)?.1;
            rest.split_once(']')
        };
        let command = match system {
            System::GitHubActions => v2.or_else(|| bracket("##[")),
            System::AzurePipelines => bracket("##vso[").or_else(|| bracket("##[")),
            System::TeamCity => bracket("##teamcity["),
            System::Buildkite => line.strip_prefix("--- ").map(|title| ("---", title)),
            _ => None,
        };
        if let Some((head, _)) = command {
            let name = head.split(' ').next().unwrap();
            found.push((name.to_owned(), line.to_owned()));
        }
    }
    found
}

/// Asserts that groups are not nested and that each is closed.
fn assert_flat(commands: &[(String, String)], begin: &str, end: &str) {
    let marks = commands.iter().map(|(name, _)| name.as_str());
    let marks: Vec<&str> = marks.filter(|name| [begin, end].contains(name)).collect();
    assert!(!marks.is_empty() && marks.len().is_multiple_of(2), "{commands:#?}");
    assert!(marks.chunks(2).all(|pair| pair == [begin, end]), "{commands:#?}");
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Executes `operation` with the reports in `reports`, and returns the result document.
async fn run(world: &World, operation: &str) -> (RunEnd, Value) {
    run_with(world, world.config(operation)).await
}

async fn run_with(world: &World, config: Value) -> (RunEnd, Value) {
    world.add_run(config);
    let mut command = world.execute();
    command.env("BUTLER_REPORT_DIR", world.path("reports"));
    let end = world.end(&command.output().await.unwrap());
    let result = serde_json::from_str(&read(&world.path("reports/result.json"))).unwrap();
    (end, result)
}
