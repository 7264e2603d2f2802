//! The result of a run. The JSON result, the summary, the page, the CI system and the terminal all use
//! the same [`RunResult`].
//!
//! The code that builds a [`RunResult`] redacts its texts; the code that shows one does not need a
//! redactor. An unknown value is absent, never guessed.

mod address;
mod alignment;
mod change;
mod counts;
mod diagnostic;
mod diagnostic_reader;
mod final_status;
mod incomplete;
mod line_diff;
mod log_copy;
mod markdown;
mod output;
mod page;
mod plan_check;
mod run_result;
mod summary;
pub mod timeline;
mod timings;
mod undelivered_logs;
mod visible;
mod wording;

pub use alignment::align;
pub use change::{Action, AttributeChange, ChangeOutcome, Changes, PlannedChange, Shown};
pub use counts::{ChangeCounts, TestCounts};
pub use diagnostic::{Diagnostic, Severity, SourceLocation};
pub use diagnostic_reader::DiagnosticReader;
pub use final_status::FinalStatus;
pub use incomplete::{Incomplete, IncompleteChange};
pub use log_copy::LogCopy;
pub use output::Output;
pub use page::{DiagnosticsSection, PlanSection, STYLE, TimingsTable, log_line, page, shown_line};
pub use plan_check::PlanCheck;
pub use run_result::{Problem, RunResult};
pub use summary::{SUMMARY_LIMIT, summary};
pub use timings::{PhaseTiming, Timings, table};
pub use undelivered_logs::UndeliveredLogs;
pub use visible::visible;
pub use wording::unstored;
