//! Workflows: the variables that plans get, and notes about everything else.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::steps::{Step, steps};
use crate::config::refusal;

/// The stages of a workflow.
const STAGES: [&str; 5] = ["plan", "apply", "policy_check", "import", "state_rm"];

/// The settings and notes that a layer gets from a workflow.
#[derive(Debug, Default)]
pub(super) struct Workflow {
    /// The environment variables of its plans.
    pub(super) env: Map<String, Value>,
    /// Notes about steps without a counterpart: the stage, and why.
    pub(super) notes: BTreeSet<String>,
}

/// Reads the workflow at `path` of a file.
///
/// # Errors
/// If Atlantis refuses a step of it.
pub(super) fn workflow(workflow: &Value, path: &str) -> Result<Workflow, String> {
    let mut found = Workflow::default();
    let mut variables: BTreeMap<&str, BTreeMap<String, String>> = BTreeMap::new();
    for stage in STAGES {
        let Some(steps) = steps(&workflow[stage], &format!("{path}.{stage}"))? else { continue };
        let mut note = |text: String| {
            found.notes.insert(format!("{stage}: {text}"));
        };
        let has = |wanted: &str| {
            steps.iter().any(|step| matches!(step, Step::BuiltIn { name, .. } if name == wanted))
        };
        if matches!(stage, "plan" | "apply") && !has(stage) {
            note(format!("it has no step `{stage}`; here Terraform runs `{stage}` anyway"));
        }
        let mut is_after = false;
        for step in &steps {
            match step {
                Step::BuiltIn { name, arguments } => {
                    is_after |= name == stage;
                    for (argument, why) in about_arguments(name, arguments) {
                        note(format!("`{name} {argument}`: {why}"));
                    }
                    if !is_done_anyway(stage, name) {
                        note(format!("the step `{name}`: {NOT_HERE}"));
                    }
                }
                Step::Command { name, command, keys } => {
                    let with = if keys.is_empty() {
                        String::new()
                    } else {
                        format!(" with `{}`", keys.join("`, `"))
                    };
                    note(format!(
                        "`{name}: {command}`{with}: {}",
                        about_command(name, stage, is_after)
                    ));
                }
                Step::Output { name, command } => note(format!(
                    "`env`: `{name}` is the output of `{command}`; write its value in `env`"
                )),
                Step::Variable { name, .. } if is_after => {
                    note(format!("`env`: `{name}` is set after `{stage}`, which does not get it"));
                }
                Step::Variable { name, value } => {
                    variables.entry(stage).or_default().insert(name.clone(), value.clone());
                }
            }
        }
    }
    found.add_variables(&variables);
    Ok(found)
}

/// The options that a layer can give to Terraform in its environment.
const OPTIONS: [&str; 8] = [
    "compact-warnings",
    "exclude",
    "lock-timeout",
    "no-color",
    "parallelism",
    "refresh",
    "replace",
    "target",
];

/// The reason of notes about steps that are not imported.
const NOT_HERE: &str = "a server runs `init`, `plan` and `apply` only";

impl Workflow {
    /// Adds the variables of plans. A layer has one `env` for plans and applies, but Atlantis sets variables for each
    /// stage, so differences become notes.
    fn add_variables(&mut self, variables: &BTreeMap<&str, BTreeMap<String, String>>) {
        let empty = BTreeMap::new();
        let of = |stage: &str| variables.get(stage).unwrap_or(&empty);
        let (plan, apply) = (of("plan"), of("apply"));
        for (name, value) in plan {
            if let Some(why) = refusal(name) {
                self.notes.insert(format!("plan: `env`: `{name}` cannot be set: {why}"));
                continue;
            }
            self.env.insert(name.clone(), value.clone().into());
            let note = match apply.get(name) {
                Some(other) if other == value => continue,
                Some(_) => format!(
                    "apply: `env`: `{name}` has another value than in `plan`; here applies get that of `plan`, because \
                     `env` is the same for both"
                ),
                None => format!(
                    "plan: `env`: `{name}` is set for plans only; here applies get it too, because `env` is the same \
                     for both"
                ),
            };
            self.notes.insert(note);
        }
        for name in apply.keys().filter(|name| !plan.contains_key(*name)) {
            self.notes.insert(format!(
                "apply: `env`: `{name}` is set for applies only, so it is not imported; write it in `env` if plans may get \
                 it too"
            ));
        }
        for stage in STAGES.iter().filter(|stage| !matches!(**stage, "plan" | "apply")) {
            for name in of(stage).keys() {
                self.notes.insert(format!("{stage}: `env`: `{name}`: {NOT_HERE}"));
            }
        }
    }
}

/// Whether a server runs the step of the stage in each run.
fn is_done_anyway(stage: &str, name: &str) -> bool {
    matches!((stage, name), ("plan", "init" | "plan" | "show") | ("apply", "init" | "apply"))
}

/// Advice about each argument of a command of Terraform.
fn about_arguments(name: &str, arguments: &[String]) -> Vec<(String, &'static str)> {
    let mut found = Vec::new();
    let mut rest = arguments.iter().peekable();
    while let Some(argument) = rest.next() {
        let flag = argument.trim_start_matches('-').split('=').next().unwrap_or_default();
        let why = match (name, flag) {
            ("init", "backend-config") => "write the settings in `backend`",
            ("plan" | "apply", "var-file" | "var") => {
                "write the values in `variables` or `secrets`"
            }
            ("plan", "destroy") => "`layer destroy` plans that",
            ("plan" | "apply", flag) if OPTIONS.contains(&flag) => {
                "write it in `env`, as a word of `TF_CLI_ARGS_plan` or `TF_CLI_ARGS_apply`"
            }
            _ => "it has no counterpart",
        };
        // The value of a flag can be the next argument.
        let value = rest.next_if(|next| {
            argument.starts_with('-') && !argument.contains('=') && !next.starts_with('-')
        });
        let text = value.map_or_else(|| argument.clone(), |value| format!("{argument} {value}"));
        found.push((text, why));
    }
    found
}

/// Advice about a program.
fn about_command(name: &str, stage: &str, is_after: bool) -> &'static str {
    match (name, stage) {
        ("multienv", _) => "the variables that it prints are not imported; write them in `env`",
        ("run", "plan") if is_after => "name a program that checks plans in `after-plan`",
        ("run", "plan") => "no program runs before a plan; a data source `external` can run one",
        ("run", "apply") => {
            "no program runs around an apply; `notifications` can tell another system about it"
        }
        ("run", "policy_check") => "name a program that checks plans in `after-plan`",
        _ => NOT_HERE,
    }
}
