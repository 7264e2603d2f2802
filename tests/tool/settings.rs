//! The table of settings, the command line and the documentation agree.

use std::collections::BTreeSet;

use butler_runner::settings::{SERVER_SETTINGS, SETTINGS, Section, VARIABLES};

use butler_testing::documented::assert_documented;
use butler_testing::runner;

#[test]
fn documentation_has_a_row_for_each_setting_and_no_other() {
    let rows: Vec<_> = SETTINGS.iter().map(|setting| setting.row()).collect();
    assert_documented("docs/settings.md", "settings", &rows);
}

#[test]
fn documentation_has_a_row_for_each_setting_of_the_server_and_no_other() {
    let rows: Vec<_> = SERVER_SETTINGS.iter().map(|setting| setting.row()).collect();
    assert_documented("docs/settings.md", "server-settings", &rows);
}

#[test]
fn documentation_has_a_row_for_each_variable_without_a_flag_and_no_other() {
    let rows: Vec<_> = VARIABLES.iter().map(|variable| variable.row()).collect();
    assert_documented("docs/settings.md", "variables", &rows);
}

#[test]
fn help_describes_each_setting_completely() {
    let help = |words: &[&str]| {
        let output = runner().args(words).arg("--help").output().unwrap();
        let help = String::from_utf8(output.stdout).unwrap();
        help.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let (of_execute, of_tool) = (help(&["execute"]), help(&["tool", "install"]));
    let (of_serve, of_layer) = (help(&["serve"]), help(&["layer", "list"]));
    let of_installation = help(&["generate", "server"]);
    for setting in SETTINGS.iter().chain(SERVER_SETTINGS) {
        let help = match setting.section {
            Section::Lifecycle => &of_tool,
            Section::Server => &of_serve,
            Section::Client => &of_layer,
            Section::Installation => &of_installation,
            _ => &of_execute,
        };
        let variables = setting.variables.join(", ");
        let text = format!("{} [{variables}] [default: {}]", setting.help, setting.default);
        assert!(help.contains(&text), "{text}\n{help}");
        for flag in setting.flags {
            assert!(help.contains(flag), "{flag}\n{help}");
        }
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a list")]
fn every_flag_of_the_command_line_is_a_setting() {
    let command = butler_runner::cli::command();
    let known: BTreeSet<_> =
        SETTINGS.iter().chain(SERVER_SETTINGS).flat_map(|it| it.flags).copied().collect();
    let own = [
        "--help",
        "-h",
        "--version",
        "-V",
        "--dry-run",
        "--attestation",
        "--json",
        "--product",
        "--url",
        "--checksum",
        "--timeout",
        "--wait",
        "--from",
        "--latest",
        "--available",
        "--prereleases",
        "--unused-for",
        "--larger-than",
        "--output",
        "--platform",
        "--runner-version",
        "--releases",
        "--image",
        "--digest",
        "--oidc",
        "--aws-role",
        "--aws-region",
        "--gcp-provider",
        "--gcp-service-account",
        "--azure-client-id",
        "--azure-tenant-id",
        "--azure-subscription-id",
        "--gate",
        "--cache",
        "--label",
        "--secret",
        "--fragment",
        "--proxy",
        "--no-proxy",
        "--force",
        "--apply",
        "--detach",
        "--kubeconfig",
        "--context",
        "--namespace",
        "--pull-secret",
        "--keep",
        "--cpu",
        "--memory",
        "--node-selector",
        "--toleration",
        "--service-account",
        "--mount-account-token",
        "--cache-claim",
        "--ca-config-map",
        "--network-policy",
        "--egress-port",
        "--egress-network",
        "--env-from",
        "--mount-secret",
        "--page",
        "--ci-config",
        "--credentials",
        "--api-credentials",
        "--repository",
        "--project",
        "--workflow-file",
        "--ref",
        "--event",
        "--app-id",
        "--installation-id",
        "--job",
        "--user",
        "--input",
        "--external-run-id",
        "--var",
        "--target",
        "--target-file",
        "--exclude",
        "--exclude-file",
        "--invoke",
        "--replace",
        "--refresh",
        "--workspace",
        "--parallelism",
        "--yes",
        "--destroy",
        "--detailed-exitcode",
        "--database-port",
        "--ingress-namespace",
        "--replicas",
        "--shared-secret",
        "--storage",
        "--storage-class",
        "--out",
        "--read",
        "--write",
        "--phase",
        "--query",
        "--plan",
        "--attempt",
        "--follow",
        "--force",
        "--state-lock",
        "--role",
        "--confirm",
        "--plan-digest",
        "--included-from",
        "--follower",
        "--live",
        "--all",
        "--stage",
        "--raw",
        "--reason",
        "--removed",
        "--server-config",
    ];
    let mut waiting = vec![command];
    while let Some(command) = waiting.pop() {
        waiting.extend(command.get_subcommands().cloned());
        for argument in command.get_arguments() {
            let long = argument.get_long_and_visible_aliases().unwrap_or_default();
            let short = argument.get_short_and_visible_aliases().unwrap_or_default();
            let long = long.into_iter().map(|name| format!("--{name}"));
            for flag in long.chain(short.into_iter().map(|letter| format!("-{letter}"))) {
                let is_known = known.contains(&*flag) || own.contains(&&*flag);
                assert!(is_known, "{flag} of {}", command.get_name());
            }
        }
    }
}

#[test]
fn each_flag_has_the_variable_of_its_name() {
    for setting in SETTINGS.iter().chain(SERVER_SETTINGS) {
        for name in setting.flags.iter().filter_map(|flag| flag.strip_prefix("--")) {
            let name = name.strip_prefix("butler-").unwrap_or(name);
            let variable = format!("BUTLER_{}", name.to_uppercase().replace('-', "_"));
            assert!(setting.variables.contains(&&*variable), "{variable}");
        }
    }
}

#[test]
fn flags_and_variables_are_unique() {
    let mut seen = BTreeSet::new();
    let flags = SETTINGS.iter().flat_map(|setting| setting.flags);
    let variables = SETTINGS.iter().flat_map(|setting| setting.variables);
    let others = VARIABLES.iter().map(|variable| &variable.name);
    for name in flags.chain(variables).chain(others) {
        assert!(seen.insert(name), "{name}");
    }
    // Those of the server can have the name of one of a run, because no command has both.
    let mut seen = BTreeSet::new();
    let flags = SERVER_SETTINGS.iter().flat_map(|setting| setting.flags);
    for name in flags.chain(SERVER_SETTINGS.iter().flat_map(|setting| setting.variables)) {
        assert!(seen.insert(name), "{name}");
    }
}
