//! Executes a run from its first request to its exit code.
//!
//! The order is fixed: status → configuration → `running` → source and tool → variables and
//! backend → `init` → operation → last log lines → plan → outputs → files wiped → final status →
//! last lines on the terminal.
//! Whatever happens in between, a panic included, ends in exactly one final status, unless the
//! registry itself has ended the run: then nothing more is sent.

mod after_plan;
mod ambient;
mod approval;
mod backend_secrets;
mod collected;
mod context;
mod descriptors;
mod documents;
mod earlier;
mod early_question;
mod files;
mod final_status;
mod findings;
#[cfg(test)]
mod fuzz_tests;
mod init;
mod leftovers;
mod lifecycle;
mod logs;
mod memory;
mod notices;
mod operations;
mod origin;
mod outcome;
mod outputs;
mod ownership;
mod panic;
mod part_writer;
mod phases;
mod plan_report;
mod plan_text;
mod recovery;
mod report_error;
mod report_files;
mod reports;
mod saved_plan;
mod secret_names;
mod secrets;
mod sources;
mod start;
mod state_place;
mod teardown;
mod terminal;
mod terraform_settings;
mod tool_options;
mod tools;
mod undelivered;
mod watch;
mod wiping;
mod workspace;
mod workspace_choice;

pub use leftovers::{Act, Finding, clean};
pub use memory::secret_place;
pub use secret_names::SECRET_VARIABLES;
pub use secrets::register_settings;
pub use start::execute;
pub use terminal::Terminal;
pub use tool_options::{tool_options, version_wish};
pub use watch::{Watch, signals};
