//! The Terraform workspace that a command line names (`--workspace`).
//!
//! Terraform creates the workspace that `TF_WORKSPACE` names if it does not exist, so a typo would create all
//! resources again. So the runner checks that the workspace exists before it sets the variable.

use crate::engine::{Engine, WORKSPACE_VARIABLE};
use crate::report::RunLog;
use crate::run::failure::Failure;
use butler_base::event::Phase;

/// Makes later commands run in the workspace `name`.
///
/// # Errors
/// If it does not exist, or the workspaces cannot be listed.
pub(in crate::run) async fn select_workspace(
    engine: &mut Engine<'_, RunLog>,
    name: &str,
) -> Result<(), Failure> {
    let known =
        engine.list_workspaces().await.map_err(|error| Failure::of_engine(Phase::Init, &error))?;
    if !known.iter().any(|known| known == name) {
        let reason = format!("there is no workspace `{name}`, only {}", quote_all(&known));
        let create = format!(
            "check the name, or create it with `{} workspace new {name}` in the module",
            engine.program_name()
        );
        return Err(Failure::because(Phase::Init, reason).advise(create));
    }
    engine.environment.set(WORKSPACE_VARIABLE, name);
    Ok(())
}

fn quote_all(names: &[String]) -> String {
    let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}
