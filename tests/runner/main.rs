//! One run of the runner: real Terraform, real git servers, real PostgreSQL, real signals.

#![expect(clippy::disallowed_methods, reason = "tests start the programs that they check")]
#![expect(clippy::unwrap_used, reason = "what fails in a test's set-up fails the test")]

mod after_plan;
mod backend;
mod backends;
mod commands;
mod engines;
mod execute;
mod faults;
mod git_hooks;
mod incomplete;
mod interrupts;
#[cfg(target_os = "linux")]
mod isolation;
mod leftovers;
mod locks;
mod logs;
mod masking;
mod memory;
mod panics;
mod plan_files;
mod plan_json;
mod quoted_secrets;
mod registry;
mod report;
mod run_archive;
mod run_inputs;
mod run_local;
mod run_secrets;
mod run_source;
mod run_tool;
mod signals;
mod source;
mod state_places;
mod state_secrets;
mod stop;
mod telemetry;
mod terminal;
mod terraform_settings;
mod tool_errors;
mod unprivileged;
mod unsaved_state;
mod variables;
mod work_directory;
