//! The result of a run: its status, findings, and timings.

use std::panic::{AssertUnwindSafe, catch_unwind};

use serde::{Serialize, Serializer};

use butler_base::error::FailureClass;
use butler_base::event::Phase;
use butler_base::secret::Redactor;
use butler_protocol::backend::{StateLock, StateVersion};
use butler_protocol::spec::Operation;

use crate::change::{AttributeChange, Changes, PlannedChange};
use crate::counts::{ChangeCounts, TestCounts};
use crate::diagnostic::Diagnostic;
use crate::final_status::FinalStatus;
use crate::incomplete::{Incomplete, IncompleteChange};
use crate::output::Output;
use crate::timings::Timings;
use crate::undelivered_logs::UndeliveredLogs;

/// The version of the JSON format; it grows if a member changes its meaning or is removed.
const FORMAT_VERSION: u32 = 1;

/// Replaces a text that cannot be redacted.
const OMITTED: &str = "(omitted: cannot redact this text, a bug)";

/// How a run ended, and its findings.
#[derive(Clone, Debug, Serialize)]
pub struct RunResult {
    format_version: u32,
    /// The registry's id of the run; absent without a registry.
    pub run_id: Option<String>,
    /// Absent if the configuration could not be read.
    pub operation: Option<Operation>,
    /// The final status of the run, or the one that results from a failed delivery. A registry that does not know
    /// `cancelled` gets `failed` instead.
    pub status: FinalStatus,
    /// The exit code of the process.
    pub exit_code: u8,
    /// Why the run did not succeed.
    pub error: Option<Problem>,
    /// One or more lines for users, without [`Self::error`].
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
    /// The version of the state: the one of a plan, or the one that an apply has left. Absent if it is not asked for or
    /// not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<StateVersion>,
    /// Whether a check for drift compares the code with the state: because another program has written the state, or
    /// because the registry wants it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub compares_code: bool,
    /// Resources by action: planned actions of a plan, completed actions of an apply or destroy.
    pub counts: Option<ChangeCounts>,
    /// The changes that an apply or destroy has not completed; absent if all are complete, if nothing
    /// was applied, and if the state could not be read afterwards.
    pub incomplete: Option<Incomplete>,
    /// The number of resource instances after an apply.
    pub resources_after: Option<u32>,
    /// Tests by result.
    pub tests: Option<TestCounts>,
    /// The `action` blocks that are executed; not part of the JSON, because the report contains the plan.
    #[serde(skip)]
    pub actions: Vec<PlannedChange>,
    /// The planned changes.
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
    /// The log lines that were not delivered to the registry. The JSON contains their number.
    #[serde(rename = "undelivered_lines", serialize_with = "number_of_lines")]
    pub undelivered_logs: Option<UndeliveredLogs>,
    /// The begin and duration of each phase.
    pub timings: Timings,
}

impl RunResult {
    /// A result that contains only how the run ended.
    #[must_use]
    pub const fn of(status: FinalStatus, exit_code: u8, timings: Timings) -> Self {
        Self {
            format_version: FORMAT_VERSION,
            run_id: None,
            operation: None,
            status,
            exit_code,
            error: None,
            summary: None,
            tool: None,
            source_repository: None,
            source_directory: None,
            source_commit: None,
            plan_changes: None,
            state: None,
            compares_code: false,
            counts: None,
            incomplete: None,
            resources_after: None,
            tests: None,
            actions: Vec::new(),
            changes: Vec::new(),
            drift: Vec::new(),
            output_changes: Vec::new(),
            changes_left_out: 0,
            outputs: Vec::new(),
            diagnostics: Vec::new(),
            warnings: Vec::new(),
            undelivered_logs: None,
            timings,
        }
    }

    /// Sets the planned changes.
    pub fn set_changes(&mut self, changes: Changes) {
        let Changes { actions, planned, drift, outputs, left_out } = changes;
        (self.actions, self.changes, self.drift) = (actions, planned, drift);
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

    /// The number of log lines that were not delivered to the registry.
    #[must_use]
    pub fn undelivered_lines(&self) -> u64 {
        self.undelivered_logs.as_ref().map_or(0, |logs| u64::from(logs.lines))
    }

    /// Adds a line to the summary.
    pub fn add_to_summary(&mut self, line: &str) {
        let summary = self.summary.get_or_insert_default();
        if !summary.is_empty() {
            summary.push('\n');
        }
        summary.push_str(line);
    }

    /// Redacts the texts that can quote the configuration of the run: errors quote what failed, and
    /// that can be a URL with a password in it. The other texts are redacted when they are made.
    ///
    /// A bug in the redactor costs the text that it cannot redact, and never the status of the run.
    pub fn mask(&mut self, redactor: &Redactor) {
        self.mask_texts(|text| redact(text, redactor));
    }

    fn mask_texts(&mut self, redact: impl Fn(&str) -> String) {
        let mask = |text: &mut String| mask_text(text, &redact);
        self.summary.iter_mut().for_each(mask);
        self.warnings.iter_mut().for_each(mask);
        self.source_repository.iter_mut().for_each(mask);
        self.source_directory.iter_mut().for_each(mask);
        if let Some(problem) = &mut self.error {
            problem.mask_texts(&redact);
        }
        if let Some(logs) = &mut self.undelivered_logs {
            logs.kept_in.iter_mut().chain(&mut logs.problem).for_each(mask);
        }
    }
}

fn redact(text: &str, redactor: &Redactor) -> String {
    redactor.redact(text.as_bytes()).into_owned()
}

fn mask_text(text: &mut String, redact: &impl Fn(&str) -> String) {
    let redacted = catch_unwind(AssertUnwindSafe(|| redact(text)));
    *text = redacted.unwrap_or_else(|_| OMITTED.to_owned());
}

#[expect(clippy::ref_option, reason = "serde passes it so")]
fn number_of_lines<S: Serializer>(
    logs: &Option<UndeliveredLogs>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(logs.as_ref().map_or(0, |logs| u64::from(logs.lines)))
}

/// Why a run did not succeed.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Problem {
    /// The phase that failed.
    pub phase: Phase,
    /// The failed action and its object.
    pub message: String,
    /// The hint.
    pub advice: Option<String>,
    /// What kind of failure it is, if that is known.
    pub class: Option<FailureClass>,
    /// The state lock that is held: because of which the run failed, or that it has left.
    pub lock: Option<StateLock>,
}

impl Problem {
    /// Redacts the texts, like [`RunResult::mask`].
    pub fn mask(&mut self, redactor: &Redactor) {
        self.mask_texts(&|text: &str| redact(text, redactor));
    }

    fn mask_texts(&mut self, redact: &impl Fn(&str) -> String) {
        mask_text(&mut self.message, redact);
        if let Some(advice) = &mut self.advice {
            mask_text(advice, redact);
        }
        self.lock
            .iter_mut()
            .flat_map(StateLock::texts_mut)
            .for_each(|text| mask_text(text, redact));
    }

    /// The problem as one line, and its hint as a second one.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!("Error: {}: {}", self.phase, self.message)];
        lines.extend(self.advice.iter().map(|advice| format!("Hint: {advice}")));
        lines
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use butler_protocol::backend::Holder;

    use super::*;

    fn failed() -> RunResult {
        let timings =
            Timings { started: SystemTime::UNIX_EPOCH, total: Duration::ZERO, phases: Vec::new() };
        let mut result = RunResult::of(FinalStatus::Failed, 1, timings);
        let text = |name: &str| format!("{name} hunter22");
        result.error = Some(Problem {
            phase: Phase::Source,
            message: text("message"),
            advice: Some(text("advice")),
            class: None,
            lock: Some(StateLock {
                id: Some(text("id")),
                holder: Some(Holder {
                    who: text("who"),
                    operation: text("operation"),
                    created: text("created"),
                }),
            }),
        });
        result.add_to_summary(&text("summary"));
        result.warnings.push(text("warning"));
        result.source_repository = Some(text("repository"));
        result.source_directory = Some(text("directory"));
        result.undelivered_logs = Some(UndeliveredLogs {
            lines: 2,
            first: 3,
            last: 4,
            kept_in: Some(text("path")),
            problem: Some(text("problem")),
        });
        result
    }

    #[test]
    fn masking_covers_all_texts_that_can_quote_the_configuration() {
        let mut result = failed();
        result.mask_texts(|text| text.replace("hunter22", "***"));
        let shown = format!("{result:?}");
        assert!(!shown.contains("hunter22"), "{shown}");
        assert_eq!(shown.matches(" ***").count(), 12, "{shown}");
        assert_eq!(serde_json::to_value(&result).unwrap()["undelivered_lines"], 2);
    }

    #[test]
    fn panic_of_the_redactor_costs_one_text_and_not_the_status() {
        let mut result = failed();
        result.mask_texts(|text| {
            assert!(!text.starts_with("message"), "a bug");
            text.to_owned()
        });
        let error = result.error.unwrap();
        assert_eq!((result.status, error.message.as_str()), (FinalStatus::Failed, OMITTED));
        assert_eq!(error.advice.as_deref(), Some("advice hunter22"));
    }
}
