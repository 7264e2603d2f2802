//! Executes a run from its first request to its exit code.
//!
//! The order is fixed: status → configuration → `running` → source and tool → variables and
//! backend → `init` → operation → last log lines → plan → outputs → files wiped → final status →
//! last lines on the terminal.
//! Each run sends exactly one final status, also after a panic. If the registry has ended the run, the
//! runner sends nothing more.

mod concluded_run;
mod context;
mod directory;
mod failure;
mod findings;
#[cfg(test)]
mod fuzz_tests;
mod lifecycle;
mod masking;
mod panic;
mod plan;
mod reporting;
mod rescued_state;
mod result;
mod start;
mod steps;
mod teardown;
mod terminal;
mod watch;

pub use directory::leftovers::{CleanMode, Finding, clean};
pub use directory::memory::secrets_directory;
pub use masking::secret_names::SECRET_VARIABLES;
pub use masking::secrets::register_settings;
pub use start::execute;
pub use steps::tool_options::{
    required_version_warnings, tool_options, unread_warnings, variable_warnings, version_wish,
};
pub use terminal::Terminal;
pub use watch::{Watch, signals};
