//! What a run ended with, in the one shape that everything gets that tells of it: the JSON result,
//! the summary, the page, the CI system, the terminal.
//!
//! All texts in here are masked already: whoever makes a [`RunResult`] has the redactor, and whoever
//! shows one needs none. What is not known is absent, never guessed.

mod change;
mod diagnostic;
mod incomplete;
mod line_diff;
mod log_copy;
mod output;
mod page;
mod summary;
pub mod timeline;
mod timings;
mod visible;
mod wording;

use serde::Serialize;

pub use change::{Action, AttributeChange, ChangeOutcome, Changes, PlannedChange, Shown};
pub use diagnostic::{Diagnostic, Place, Severity};
pub use incomplete::{Incomplete, IncompleteChange};
pub use log_copy::LogCopy;
pub use output::Output;
pub use page::page;
pub use summary::{SUMMARY_LIMIT, summary};
pub use timings::{PhaseTiming, Timings, table};

use butler_base::event::Phase;
use butler_base::secret::Redactor;

/// The version of the JSON shape; it grows when a member changes its meaning or goes away.
const FORMAT_VERSION: u32 = 1;

/// How a run ended, and what it found.
#[derive(Clone, Debug, Serialize)]
pub struct RunResult {
    format_version: u32,
    /// The registry's id of the run; none without a registry.
    pub run_id: Option<String>,
    /// `plan`, `apply` and so on; none where no configuration was had.
    pub operation: Option<String>,
    /// `succeeded`, `planned`, `failed` or `cancelled`: as the registry is told, or as it ended because
    /// the registry did not get that.
    pub status: String,
    /// What the process ends with.
    pub exit_code: u8,
    /// Why it did not succeed.
    pub error: Option<Problem>,
    /// One or more lines for people.
    pub summary: Option<String>,
    /// The tool that was used, `terraform 1.11.4` for example.
    pub tool: Option<String>,
    /// The repository of the module, without any login; none for a directory.
    pub source_repository: Option<String>,
    /// Where the module is: below the root of the repository, or the whole path of a directory.
    pub source_directory: Option<String>,
    /// The commit that was checked out.
    pub source_commit: Option<String>,
    /// Whether the plan changes anything, or has found that something was changed elsewhere.
    pub plan_changes: Option<bool>,
    /// Resources by what a plan would do, or by what an apply or destroy has done.
    pub counts: Option<ChangeCounts>,
    /// What of its plan an apply or destroy has not done; none when it has done all of it, when nothing
    /// was applied, and when the state could not be read afterwards.
    pub incomplete: Option<Incomplete>,
    /// How many resource instances there are after an apply.
    pub resources_after: Option<u32>,
    /// Tests by result.
    pub tests: Option<TestResults>,
    /// What the plan changes; not part of the JSON, which has the plan beside it.
    #[serde(skip)]
    pub changes: Vec<PlannedChange>,
    /// What others have done with resources, as the plan has found it.
    #[serde(skip)]
    pub drift: Vec<PlannedChange>,
    /// What the plan does with outputs; the path of each begins with its name.
    #[serde(skip)]
    pub output_changes: Vec<AttributeChange>,
    /// How many more changes there are than are listed.
    #[serde(skip)]
    pub changes_left_out: usize,
    /// What the module returns after an apply; not part of the JSON.
    #[serde(skip)]
    pub outputs: Vec<Output>,
    /// What the tool complained about, in the order in which it did.
    pub diagnostics: Vec<Diagnostic>,
    /// What the runner warned of.
    pub warnings: Vec<String>,
    /// How many lines of the log the registry did not get.
    pub undelivered_lines: u64,
    /// When which phase began, and how long it took.
    pub timings: Timings,
}

impl RunResult {
    /// A run of which nothing is known but how it ended.
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
    /// Adds what the plan changes.
    pub fn set_changes(&mut self, changes: Changes) {
        let Changes { planned, drift, outputs, left_out } = changes;
        (self.changes, self.drift) = (planned, drift);
        (self.output_changes, self.changes_left_out) = (outputs, left_out);
        if let Some(incomplete) = &mut self.incomplete {
            incomplete.changes = IncompleteChange::all(&self.changes);
        }
    }

    /// Whether [`Self::counts`] are of what was done, and not of what would be.
    #[must_use]
    pub fn is_applied(&self) -> bool {
        matches!(self.operation.as_deref(), Some("apply" | "destroy" | "refresh"))
    }

    /// Masks the texts that quote what the run was given.
    pub fn mask(&mut self, redactor: &Redactor) {
        let mask = |text: &mut String| *text = redactor.redact_lines(text.as_bytes()).into_owned();
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
    /// Where it happened.
    pub phase: Phase,
    /// What failed, on what.
    pub message: String,
    /// What to do next.
    pub advice: Option<String>,
}

/// How many resources, by what is done with them. A replacement is counted as added and destroyed.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct ChangeCounts {
    /// Created, replacements included.
    pub add: u32,
    /// Changed in place.
    pub change: u32,
    /// Destroyed, replacements included.
    pub destroy: u32,
    /// Destroyed and created.
    pub replace: u32,
    /// Taken over from elsewhere.
    pub import: u32,
    /// Renamed.
    #[serde(rename = "move")]
    pub moved: u32,
    /// Given up without being destroyed.
    pub forget: u32,
}

/// How many tests, by how they ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub struct TestResults {
    /// Those that passed.
    pub passed: u32,
    /// Those that failed or could not be run.
    pub failed: u32,
    /// Those that were passed over.
    pub skipped: u32,
}
