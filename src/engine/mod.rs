//! Runs Terraform or `OpenTofu`: starts commands, builds their arguments, and interprets their output.
//!
//! Arguments are built as pure data. The changes of a run are read from the saved plan's JSON and from the
//! state, never from text, because a module or a provisioner can print any text.

mod arguments;
mod cli_arguments;
mod commands;
mod diagnostics;
mod environment;
mod error;
mod failures;
#[cfg(test)]
mod fuzz_tests;
mod given_assignments;
mod initialising;
mod invocation;
mod isolation;
mod json_output;
mod locks;
mod plan;
mod remote_run;
mod state_reading;
mod test_results;
mod watching;
mod wrapper;

pub use arguments::{PlanMode, PlanRequest, missing_option, required_version};
#[cfg(test)]
pub(crate) use cli_arguments::options_of;
pub use commands::{PlanFiles, Planned, TestResult, ValidationResult};
pub use environment::prepare as prepare_environment;
pub use error::{EngineError, FailedCommand};
pub use failures::cause::FailureCause;
pub use given_assignments::{GivenAssignments, given_assignments};
pub use initialising::{
    DEFAULT_WORKSPACE, DEFAULT_WORKSPACE_DIRECTORY, FoundWorkspace, InitRequest, WORKSPACE_VARIABLE,
};
pub use invocation::Engine;
pub use isolation::{END_USER_COMMAND, ISOLATED_COMMAND, Isolation, Restriction, become_isolated};
pub use locks::killed_lock::KilledLock;
pub use locks::lock::LeftLock;
pub use locks::locking::UnfinishedCommand;
pub use locks::removal::{LockNotRemoved, NamedLock};
pub use plan::applied::{AppliedChanges, StatesAfter, Unstored};
pub use plan::reported::ReportedResources;
pub use remote_run::{RemoteRun, RemoteRuns};
pub use state_reading::{planned_state, planned_version, read_most};
pub use test_results::junit::{read_junit, readable_junit};
pub use wrapper::{OLDEST_WRAPPER, Wrapper, can_wrap};
