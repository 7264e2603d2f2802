//! The Terraform workspace that a command line names (`--workspace`).
//!
//! Terraform creates the workspace that `TF_WORKSPACE` names if it does not exist, so a typo would create all
//! resources again. So the runner checks that the workspace exists before it sets the variable.

use crate::engine::Engine;
use crate::report::RunLog;
use crate::run::failure::Failure;
use butler_base::event::Phase;
use butler_base::trust::open_regular;

/// The variable that selects a workspace.
pub(in crate::run) const VARIABLE: &str = "TF_WORKSPACE";

/// The workspace that always exists.
const DEFAULT: &str = "default";

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
    engine.environment.set(VARIABLE, name);
    Ok(())
}

/// The workspace in which the commands run.
pub(in crate::run) fn current_workspace(engine: &Engine<'_, RunLog>) -> String {
    let given = engine.environment.value(VARIABLE).filter(|name| !name.is_empty());
    if let Some(name) = given {
        return name.to_string_lossy().into_owned();
    }
    let selected = engine.data_directory(engine.directory).join("environment");
    let selected = open_regular(&selected).and_then(std::io::read_to_string).unwrap_or_default();
    let selected = selected.trim();
    if selected.is_empty() { DEFAULT.to_owned() } else { selected.to_owned() }
}

fn quote_all(names: &[String]) -> String {
    let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}
