//! Reads a saved plan of Terraform (`show -json`): redacts it, counts its changes, and lists them. Finds the secrets in a
//! state.
//!
//! The JSON travels in one direction: `splitter` cuts it into pieces, `walk` follows them and hands
//! each to a visitor (`clean`, `changes`, `plan`, `survey`). The plan is never held as a whole.

mod changes;
mod clean;
mod difference;
#[cfg(test)]
mod fuzz_tests;
mod labels;
mod marked_value;
mod marks;
mod members;
mod path;
mod plan;
mod reading;
mod reasons;
mod splitter;
mod state;
mod survey;
mod walk;
mod wire;

pub use changes::{action, is_listed};
pub use clean::Content;
pub use plan::{PlanSummary, counted};
pub use reading::{CopiedPlan, read};
pub use state::{RemoteState, StateSurvey, survey_shown_state, survey_state};
pub use survey::Survey;
pub use walk::Member;
