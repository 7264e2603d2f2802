//! The Terraform workspace that a run by hand names (`--workspace`).
//!
//! Terraform makes a workspace of whatever `TF_WORKSPACE` says, so that a typo would create everything
//! once more. It is looked for before Terraform is told of it.

use crate::engine::Engine;
use crate::report::RunLog;
use crate::run::failure::Failure;
use butler_base::event::Phase;

/// What says which workspace counts.
pub(in crate::run) const VARIABLE: &str = "TF_WORKSPACE";

/// The one that is always there.
const DEFAULT: &str = "default";

/// Has the commands that follow run in the workspace `name`.
///
/// # Errors
/// When there is none of this name, or they cannot be listed.
pub(in crate::run) async fn select(
    engine: &mut Engine<'_, RunLog>,
    name: &str,
) -> Result<(), Failure> {
    let known =
        engine.workspaces().await.map_err(|error| Failure::of_engine(Phase::Init, &error))?;
    if !known.iter().any(|known| known == name) {
        let reason = format!("there is no workspace `{name}`, only {}", quoted(&known));
        let create = format!(
            "check the name, or create it with `{} workspace new {name}` in the module",
            engine.said_program()
        );
        return Err(Failure::because(Phase::Init, reason).advise(create));
    }
    engine.environment.set(VARIABLE, name);
    Ok(())
}

/// The workspace in which the commands run.
pub(in crate::run) fn current(engine: &Engine<'_, RunLog>) -> String {
    let given = engine.environment.value(VARIABLE).filter(|name| !name.is_empty());
    if let Some(name) = given {
        return name.to_string_lossy().into_owned();
    }
    let selected = engine.data_directory(engine.directory).join("environment");
    let selected = std::fs::read_to_string(selected).unwrap_or_default();
    let selected = selected.trim();
    if selected.is_empty() { DEFAULT.to_owned() } else { selected.to_owned() }
}

fn quoted(names: &[String]) -> String {
    let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}
