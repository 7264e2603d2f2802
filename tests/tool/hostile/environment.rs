//! Environment variables that a run requests, and how the runner treats them.

use butler_runner::workspace::{HARMLESS_OPTIONS, NAME_RULES, VariableTreatment};
use serde_json::json;

use super::THREAT_MODEL;
use butler_testing::documented::assert_documented;
use butler_testing::stand_in::{AtPlan, StandIn};
use butler_testing::world::{MODULE, World};

/// A name to which the rule applies.
fn example(rule: &str) -> String {
    match rule.strip_prefix('*') {
        Some(end) => format!("OWN{end}"),
        None => rule.replace('*', "X"),
    }
}

fn names(expected: VariableTreatment) -> Vec<String> {
    NAME_RULES
        .iter()
        .filter(|rule| rule.treatment == expected)
        .map(|rule| example(rule.name))
        .collect()
}

#[tokio::test]
async fn forbidden_environment_variable_fails_the_run_before_the_fetch() {
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    let tool = StandIn::install(&mut world, AtPlan::Fail);
    let mut refused: Vec<_> =
        names(VariableTreatment::Refused).into_iter().map(|name| (name, "x")).collect();
    assert!(refused.len() > 15);
    refused.push(("TF_CLI_ARGS_plan".to_owned(), "-parallelism=3 -destroy"));
    refused.push(("TF_CLI_ARGS".to_owned(), "-state=/tmp/state"));
    for (name, value) in refused {
        let mut config = world.config("plan");
        config["envVars"] = json!({name.as_str(): {"value": value}});
        let end = world.run(config).await;
        assert_eq!((end.code, world.statuses().last().unwrap().as_str()), (Some(1), "failed"));
        let error = world.last_status()["error"].clone();
        assert_eq!(error["phase"], "variables", "{name}: {error}");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(&format!("`{name}`")), "{name}: {message}");
        assert!(!world.received().log_text().contains("Fetching"), "{name}");
    }
    assert_eq!(tool.record("environment"), "", "the tool was not started");
}

#[tokio::test]
async fn other_variables_reach_terraform_or_cause_a_warning() {
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    let tool = StandIn::install(&mut world, AtPlan::Fail);
    let mut config = world.config("plan");
    let options: Vec<_> = HARMLESS_OPTIONS
        .iter()
        .map(|option| format!("{option}{}", if option.ends_with('=') { "1" } else { "" }))
        .collect();
    let options = options.join(" ");
    config["envVars"] = json!({"TF_CLI_ARGS_plan": {"value": options}});
    for name in
        names(VariableTreatment::Allowed).into_iter().chain(names(VariableTreatment::Ignored))
    {
        config["envVars"][name] = json!({"value": "of-the-run"});
    }
    world.run(config).await;
    let environment = tool.record("environment");
    let log = world.received().log_text();
    let has = |line: &str| environment.lines().any(|it| it == line);
    assert!(has(&format!("TF_CLI_ARGS_plan={options}")), "{environment}");
    for name in names(VariableTreatment::Allowed) {
        assert!(has(&format!("{name}=of-the-run")), "{name}: {environment}");
        assert!(!log.contains(&format!("`{name}` of the run is ignored")), "{name}: {log}");
    }
    for name in names(VariableTreatment::Ignored) {
        assert!(!has(&format!("{name}=of-the-run")), "{name}: {environment}");
        assert!(log.contains(&format!("`{name}` of the run is ignored")), "{name}: {log}");
    }
}

#[test]
fn threat_model_lists_the_treatment_of_each_variable() {
    let treatment = |treatment| match treatment {
        VariableTreatment::Allowed => "allowed".to_owned(),
        VariableTreatment::OptionsOnly => format!("only `{}`", HARMLESS_OPTIONS.join("` `")),
        VariableTreatment::Ignored => "left out, with a line in the log".to_owned(),
        VariableTreatment::Refused => "refused".to_owned(),
    };
    let rows: Vec<String> = NAME_RULES
        .iter()
        .map(|rule| {
            format!("| `{}` | {} | {} |", rule.name, treatment(rule.treatment), rule.reason)
        })
        .collect();
    assert_documented(THREAT_MODEL, "environment", &rows);
}
