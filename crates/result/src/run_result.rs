//! The result of a run: its status, findings, and timings.

use serde::Serialize;

use butler_base::event::Phase;
use butler_base::secret::Redactor;
use butler_protocol::spec::Operation;

use crate::change::{AttributeChange, Changes, PlannedChange};
use crate::counts::{ChangeCounts, TestResults};
use crate::diagnostic::Diagnostic;
use crate::incomplete::{Incomplete, IncompleteChange};
use crate::output::Output;
use crate::timings::Timings;

/// The version of the JSON format; it grows if a member changes its meaning or is removed.
const FORMAT_VERSION: u32 = 1;

/// How a run ended, and its findings.
#[derive(Clone, Debug, Serialize)]
pub struct RunResult {
    format_version: u32,
    /// The registry's id of the run; absent without a registry.
    pub run_id: Option<String>,
    /// Absent if the configuration could not be read.
    pub operation: Option<Operation>,
    /// `succeeded`, `planned`, `failed` or `cancelled`: the status that was sent to the registry, or the
    /// one that results from a failed delivery.
    pub status: String,
    /// The exit code of the process.
    pub exit_code: u8,
    /// Why the run did not succeed.
    pub error: Option<Problem>,
    /// One or more lines for users.
    pub summary: Option<String>,
    /// The tool that was used, such as `terraform 1.11.4`.
    pub tool: Option<String>,
    /// The repository of the module, without credentials; absent for a directory.
    pub source_repository: Option<String>,
    /// The path of the module: relative to the root of the repository, or absolute for a directory.
    pub source_directory: Option<String>,
    /// The commit that was checked out.
    pub source_commit: Option<String>,
    /// Whether the plan contains changes, or a run that looks for drift found some.
    pub plan_changes: Option<bool>,
    /// Resources by action: planned actions of a plan, completed actions of an apply or destroy.
    pub counts: Option<ChangeCounts>,
    /// The changes that an apply or destroy has not completed; absent if all are complete, if nothing
    /// was applied, and if the state could not be read afterwards.
    pub incomplete: Option<Incomplete>,
    /// The number of resource instances after an apply.
    pub resources_after: Option<u32>,
    /// Tests by result.
    pub tests: Option<TestResults>,
    /// The planned changes; not part of the JSON, because the report contains the plan.
    #[serde(skip)]
    pub changes: Vec<PlannedChange>,
    /// Drift: changes outside of Terraform that the plan found.
    #[serde(skip)]
    pub drift: Vec<PlannedChange>,
    /// The planned changes of outputs; each path begins with the name of the output.
    #[serde(skip)]
    pub output_changes: Vec<AttributeChange>,
    /// The number of changes that are not listed.
    #[serde(skip)]
    pub changes_left_out: usize,
    /// The outputs of the module after an apply; not part of the JSON.
    #[serde(skip)]
    pub outputs: Vec<Output>,
    /// The errors and warnings of the tool, in their order.
    pub diagnostics: Vec<Diagnostic>,
    /// The warnings of the runner.
    pub warnings: Vec<String>,
    /// The number of log lines that were not delivered to the registry.
    pub undelivered_lines: u64,
    /// The begin and duration of each phase.
    pub timings: Timings,
}

impl RunResult {
    /// A result that contains only how the run ended.
    #[must_use]
    pub fn of(status: &str, exit_code: u8, timings: Timings) -> Self {
        Self {
            format_version: FORMAT_VERSION,
            run_id: None,
            operation: None,
            status: status.to_owned(),
            exit_code,
            error: None,
            summary: None,
            tool: None,
            source_repository: None,
            source_directory: None,
            source_commit: None,
            plan_changes: None,
            counts: None,
            incomplete: None,
            resources_after: None,
            tests: None,
            changes: Vec::new(),
            drift: Vec::new(),
            output_changes: Vec::new(),
            changes_left_out: 0,
            outputs: Vec::new(),
            diagnostics: Vec::new(),
            warnings: Vec::new(),
            undelivered_lines: 0,
            timings,
        }
    }
}

impl RunResult {
    /// Sets the planned changes.
    pub fn set_changes(&mut self, changes: Changes) {
        let Changes { planned, drift, outputs, left_out } = changes;
        (self.changes, self.drift) = (planned, drift);
        (self.output_changes, self.changes_left_out) = (outputs, left_out);
        if let Some(incomplete) = &mut self.incomplete {
            incomplete.changes = IncompleteChange::all(&self.changes);
        }
    }

    /// Whether [`Self::counts`] are completed actions, not planned ones.
    #[must_use]
    pub fn is_applied(&self) -> bool {
        self.operation.is_some_and(Operation::applies_its_plan)
    }

    /// Redacts the texts that can quote the configuration of the run.
    pub fn mask(&mut self, redactor: &Redactor) {
        let mask = |text: &mut String| *text = redactor.redact(text.as_bytes()).into_owned();
        self.summary.iter_mut().for_each(mask);
        self.warnings.iter_mut().for_each(mask);
        self.source_repository.iter_mut().for_each(mask);
        self.source_directory.iter_mut().for_each(mask);
        if let Some(problem) = &mut self.error {
            mask(&mut problem.message);
            problem.advice.iter_mut().for_each(mask);
        }
    }
}

/// Why a run did not succeed.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Problem {
    /// The phase that failed.
    pub phase: Phase,
    /// What failed, on what.
    pub message: String,
    /// What to do next.
    pub advice: Option<String>,
}

impl Problem {
    /// The problem as one line, and its hint as a second one.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!("Error: {}: {}", self.phase, self.message)];
        lines.extend(self.advice.iter().map(|advice| format!("Hint: {advice}")));
        lines
    }
}
