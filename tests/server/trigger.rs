//! `trigger` and `ci-status` with CI systems that respond like the real ones: late, wrongly, or not
//! at all.

mod app;
mod generated;
mod github;
mod github_faults;
mod gitlab;
mod jenkins;
mod secrets;

use butler_start::trigger::{ProviderName, reported_states};

use butler_testing::ci_server::CiServer;
use butler_testing::documented::assert_documented;
use butler_testing::machine::{CommandOutput, Machine};

/// The run that is triggered.
const RUN_ID: &str = "550e8400-e29b-41d4-a716-446655440000";

/// Its callback token.
const TOKEN: &str = "brce_callback0123456789";

/// The credentials of the runner.
const CI_TOKEN: &str = "ghp_hunter2hunter2hunter2";

/// A machine with a run to trigger, and credentials.
fn machine(server: &CiServer) -> Machine {
    let mut machine = Machine::new();
    machine.set("BUTLER_ENDPOINT", "https://portal.example.com/api/registry");
    machine.set("BUTLER_RUN_ID", RUN_ID);
    machine.set("BUTLER_TOKEN", TOKEN);
    machine.set("BUTLER_CI_TOKEN", CI_TOKEN);
    machine.set("BUTLER_CA_BUNDLE", server.bundle());
    machine.set("BUTLER_LOG", "error");
    machine.replace_in_output(server.url(), "<server>");
    machine
}

/// Runs `butler-runner WORDS --url SERVER`.
fn run_with_server(machine: &Machine, server: &CiServer, words: &[&str]) -> CommandOutput {
    let url = server.url();
    machine.run(&[words, &["--url", &url]].concat())
}

/// The standard error of a command.
fn error_text(said: &CommandOutput, code: i32) -> String {
    assert_eq!(said.code, Some(code), "{said:#?}");
    assert_eq!(said.stdout, "");
    said.normalized().split_once('\n').unwrap().1.to_owned()
}

#[test]
fn documentation_lists_the_states_of_each_ci_system() {
    let rows = ProviderName::ALL.into_iter().flat_map(|provider| {
        let states = reported_states(provider).iter();
        states.map(move |(word, state)| {
            format!("| {} | `{word}` | `{}` |", provider.title(), state.name())
        })
    });
    assert_documented("docs/triggers.md", "states", &rows.collect::<Vec<_>>());
}
