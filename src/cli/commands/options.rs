//! The flags that several commands share.

use std::io::IsTerminal;
use std::num::NonZeroU16;
use std::path::PathBuf;

use clap::{ArgAction, Args};

use super::error::CommandError;
use crate::cli::assignments::Assignments;
use crate::cli::flags::Selection;
use crate::settings::{Section, Setting, setting};
use butler_protocol::spec::{Approval, LocalOptions, PlanningOptions, Refresh};

#[derive(Args)]
pub(super) struct ModuleArgument {
    /// The directory of the module; by default the current one
    #[arg(value_name = "DIR")]
    pub(super) directory: Option<PathBuf>,
}

// The options of a plan. clap would use a documentation comment as the command's help.
#[derive(Args)]
pub(super) struct PlanningFlags {
    #[command(flatten)]
    pub(super) assignments: Assignments,
    /// Limit the plan to this resource or module and its dependencies; can be repeated
    #[arg(long = "target", value_name = "ADDRESS", help_heading = "Plan")]
    pub(super) targets: Vec<String>,
    /// Limit the plan to the addresses in this file; can be repeated (OpenTofu from 1.10 on)
    #[arg(long = "target-file", value_name = "FILE", help_heading = "Plan")]
    pub(super) target_files: Vec<PathBuf>,
    /// Leave this resource or module out, and what depends on it; can be repeated (OpenTofu from 1.9 on)
    #[arg(long = "exclude", value_name = "ADDRESS", help_heading = "Plan")]
    pub(super) exclusions: Vec<String>,
    /// Leave the addresses in this file out; can be repeated (OpenTofu from 1.10 on)
    #[arg(long = "exclude-file", value_name = "FILE", help_heading = "Plan")]
    pub(super) exclusion_files: Vec<PathBuf>,
    /// Replace this resource, even if it has no changes; can be repeated
    #[arg(long = "replace", value_name = "ADDRESS", help_heading = "Plan")]
    pub(super) replacements: Vec<String>,
    /// Whether to refresh the state first: true or false
    #[arg(
        long,
        value_name = "BOOL",
        default_value_t = true,
        num_args = 0..=1,
        default_missing_value = "true",
        require_equals = true,
        action = ArgAction::Set,
        help_heading = "Plan"
    )]
    pub(super) refresh: bool,
    /// The workspace, which must exist; by default the selected workspace of the directory
    #[arg(long, value_name = "NAME", help_heading = "Plan")]
    pub(super) workspace: Option<String>,
    /// The number of concurrent operations; by default the tool's own limit
    #[arg(long, value_name = "N", help_heading = "Plan")]
    pub(super) parallelism: Option<NonZeroU16>,
}

// The options of a plan that can invoke an action.
#[derive(Args)]
pub(super) struct InvokingFlags {
    #[command(flatten)]
    pub(super) planning: PlanningFlags,
    /// Invoke this action instead of changing resources (Terraform from 1.14 on)
    #[arg(
        long = "invoke",
        value_name = "ADDRESS",
        conflicts_with_all = ["targets", "target_files", "exclusions", "exclusion_files", "replacements"],
        help_heading = "Plan"
    )]
    pub(super) invocation: Option<String>,
}

#[derive(Args)]
pub(super) struct ConsentFlags {
    /// Apply without asking for confirmation
    #[arg(long, alias = "auto-approve", help_heading = "Plan")]
    pub(super) yes: bool,
}

/// The settings of runs in a local directory. Settings about a registry or a clone have no effect there.
pub(super) struct RunFlags;

impl Selection for RunFlags {
    fn has(setting: &Setting) -> bool {
        const REGISTRY_ONLY: [&Setting; 9] = [
            &setting::LOG_INTERVAL,
            &setting::CANCEL_INTERVAL,
            &setting::RECOVERY_DIR,
            &setting::SECRETS_DIR,
            &setting::ALLOW_EPHEMERAL_STATE,
            &setting::PLAN_STATUS,
            &setting::SUBMODULES,
            &setting::SENSITIVE_VALUES,
            &setting::DRAIN_PERIOD,
        ];
        match setting.section {
            Section::Alone => [&setting::TF_VERSION, &setting::REPORT_DIR].contains(&setting),
            Section::Run | Section::Output | Section::Tool => !REGISTRY_ONLY.contains(&setting),
            Section::Registry
            | Section::Lifecycle
            | Section::Log
            | Section::Server
            | Section::Client
            | Section::Installation => false,
        }
    }
}

impl PlanningFlags {
    pub(super) fn into_options(self) -> Result<LocalOptions, CommandError> {
        let planning = PlanningOptions {
            assignments: self.assignments.0?,
            targets: self.targets,
            target_files: absolute(self.target_files),
            exclusions: self.exclusions,
            exclusion_files: absolute(self.exclusion_files),
            invocation: None,
            replacements: self.replacements,
            refresh: if self.refresh { Refresh::First } else { Refresh::Skip },
            parallelism: self.parallelism,
        };
        Ok(LocalOptions { planning, workspace: self.workspace, ..LocalOptions::default() })
    }
}

/// The paths, which are relative to the working directory of the command. The tool runs in that of the module.
fn absolute(paths: Vec<PathBuf>) -> Vec<PathBuf> {
    paths.into_iter().map(|path| std::path::absolute(&path).unwrap_or(path)).collect()
}

impl InvokingFlags {
    pub(super) fn into_options(self) -> Result<LocalOptions, CommandError> {
        let mut options = self.planning.into_options()?;
        options.planning.invocation = self.invocation;
        Ok(options)
    }
}

impl ConsentFlags {
    /// Whether to ask the user for confirmation. An error without a terminal.
    pub(super) fn approval(&self, command: &'static str) -> Result<Approval, CommandError> {
        if self.yes {
            return Ok(Approval::Given);
        }
        // The question is on standard error, and the answer comes from standard input.
        if std::io::stdin().is_terminal() && std::io::stderr().is_terminal() {
            return Ok(Approval::Ask);
        }
        Err(CommandError::NoTerminal { command })
    }
}
