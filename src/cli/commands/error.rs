//! Errors of command lines that clap accepted, with hints.

use std::path::PathBuf;

use crate::artifact::ArtifactError;
use crate::cli::assignments::InvalidAssignment;
use crate::cli::module_directory::{ModuleDirectoryError, similar_path};
use crate::settings::SettingsError;
use butler_base::error::Advice;

/// Errors of a command before its run begins.
#[derive(Debug, thiserror::Error)]
pub(super) enum CommandError {
    #[error(transparent)]
    ModuleDirectory(#[from] ModuleDirectoryError),
    #[error(transparent)]
    Assignment(#[from] InvalidAssignment),
    #[error("`{command}` requires confirmation, but cannot ask without a terminal")]
    NoTerminal { command: &'static str },
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error(transparent)]
    Artifact(#[from] ArtifactError),
    #[error("`{flag}` cannot be used with a saved plan")]
    FlagWithSavedPlan { flag: &'static str },
    #[error("`{}` is neither a saved plan nor a directory: no such file", path.display())]
    NeitherPlanNorDirectory { path: PathBuf },
    #[error("`{}` is a directory, so the second argument `{}` is not allowed", first.display(), second.display())]
    TwoDirectories { first: PathBuf, second: PathBuf },
    #[error("cannot save the plan as `{}`: {why}", path.display())]
    PlanFile { path: PathBuf, why: &'static str },
}

impl Advice for CommandError {
    fn advice(&self) -> Option<String> {
        match self {
            Self::ModuleDirectory(error) => error.advice(),
            Self::Assignment(_) => Some("for example --var region=eu-west-1".to_owned()),
            Self::NoTerminal { command: "apply" } => Some(
                "add --yes, or save a plan with `butler-runner plan --out FILE` and apply that with `butler-runner apply FILE`"
                    .to_owned(),
            ),
            Self::NoTerminal { .. } => Some("add --yes".to_owned()),
            Self::Settings(error) => error.advice(),
            Self::Artifact(error) => error.advice(),
            Self::FlagWithSavedPlan { .. } => Some("pass it to `butler-runner plan --out FILE`".to_owned()),
            Self::NeitherPlanNorDirectory { path } => {
                similar_path(path).map(|name| format!("did you mean `{}`?", name.display()))
            }
            Self::TwoDirectories { .. } => Some(
                "`butler-runner apply DIR` plans and applies, `butler-runner apply PLAN [DIR]` applies a saved plan"
                    .to_owned(),
            ),
            Self::PlanFile { .. } => Some("for example --out network.plan".to_owned()),
        }
    }
}
