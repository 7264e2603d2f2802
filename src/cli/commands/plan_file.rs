//! Saved plans on the command line: `plan --out FILE` and `apply FILE [DIR]`.

use std::path::{Path, PathBuf};

use super::error::CommandError;
use super::options::{InvokingFlags, ModuleArgument};
use crate::artifact::{Artifact, Head, check_replaceable};
use crate::cli::module_directory::module_directory;
use crate::settings::{Arguments, LocalRequest, setting};
use butler_protocol::spec::{LocalOptions, PlanFile};

/// The arguments of `apply`.
pub(super) enum ApplyArgument {
    Plan { file: PathBuf, module: ModuleArgument },
    Directory(ModuleArgument),
}

/// Distinguishes a saved plan from a directory.
pub(super) fn parse_apply_argument(
    first: Option<PathBuf>,
    second: Option<PathBuf>,
) -> Result<ApplyArgument, CommandError> {
    let Some(first) = first else {
        return Ok(ApplyArgument::Directory(ModuleArgument { directory: None }));
    };
    if first.is_dir() {
        if let Some(second) = second {
            return Err(CommandError::TwoDirectories { first, second });
        }
        return Ok(ApplyArgument::Directory(ModuleArgument { directory: Some(first) }));
    }
    if !first.exists() && second.is_none() {
        // Neither a plan nor a directory of this name exists.
        return Err(CommandError::NeitherPlanNorDirectory { path: first });
    }
    Ok(ApplyArgument::Plan { file: first, module: ModuleArgument { directory: second } })
}

/// The request to apply the plan in `file`.
pub(super) fn saved_plan_request(
    file: PathBuf,
    module: &ModuleArgument,
    InvokingFlags { planning, invocation }: InvokingFlags,
    flags: &Arguments,
) -> Result<LocalRequest, CommandError> {
    let not_allowed = [
        (!planning.targets.is_empty(), "--target"),
        (!planning.target_files.is_empty(), "--target-file"),
        (!planning.exclusions.is_empty(), "--exclude"),
        (!planning.exclusion_files.is_empty(), "--exclude-file"),
        (invocation.is_some(), "--invoke"),
        (!planning.replacements.is_empty(), "--replace"),
        (!planning.refresh, "--refresh"),
        (planning.workspace.is_some(), "--workspace"),
        (flags.value(&setting::TF_VERSION).is_some(), setting::TF_VERSION.flags[0]),
    ];
    if let Some((_, flag)) = not_allowed.into_iter().find(|(is_given, _)| *is_given) {
        return Err(CommandError::FlagWithSavedPlan { flag });
    }
    let artifact = Artifact::open(&file)?;
    let here = module.directory.clone().unwrap_or_else(|| PathBuf::from("."));
    artifact.check_directory(&std::path::absolute(&here).unwrap_or(here))?;
    let Head { operation, tool, directory, workspace, .. } = artifact.head().clone();
    let options = LocalOptions {
        workspace: Some(workspace),
        plan_file: PlanFile::Apply(std::path::absolute(&file).unwrap_or(file)),
        ..planning.into_options()?
    };
    let directory = module_directory(Some(&directory))?;
    Ok(LocalRequest { directory, operation, tool: Some(tool), options })
}

/// Checks that a plan can be saved as `out`. Returns the absolute path.
pub(super) fn plan_to_save(out: &Path) -> Result<PathBuf, CommandError> {
    let path = std::path::absolute(out).unwrap_or_else(|_| out.to_owned());
    let unusable = |why: &'static str| CommandError::PlanFile { path: out.to_owned(), why };
    match (std::fs::metadata(&path), path.parent().map(Path::is_dir)) {
        (Ok(found), _) if found.is_dir() => Err(unusable("it is a directory")),
        (Ok(found), _) if !found.is_file() => Err(unusable("it is not a regular file")),
        (Err(_), Some(false)) => Err(unusable("its directory does not exist")),
        _ => {
            check_replaceable(&path)?;
            Ok(path)
        }
    }
}
