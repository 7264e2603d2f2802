//! Integration tests: real Terraform, real git servers, real PostgreSQL, real signals.

#![expect(clippy::disallowed_methods, reason = "tests start the programs that they check")]
#![expect(clippy::unwrap_used, reason = "what fails in a test's set-up fails the test")]

mod after_plan;
mod backend;
mod backends;
mod binary;
mod cluster;
mod command_line;
mod commands;
mod doctor;
mod documented_commands;
mod documents;
mod errors;
mod execute;
mod faults;
mod generate;
mod generate_pipelines;
mod hostile;
mod incomplete;
mod interrupts;
#[cfg(target_os = "linux")]
mod isolation;
mod layout;
mod leftovers;
mod linters;
mod locks;
mod logs;
mod masking;
mod memory;
mod notices;
mod packages;
mod panics;
#[cfg(target_os = "linux")]
mod performance;
mod plan_files;
mod plan_json;
mod providers;
mod registry;
mod registry_api;
mod report;
mod run_archive;
mod run_empty_root;
mod run_inputs;
mod run_local;
mod run_secrets;
mod run_source;
mod run_tool;
mod self_update;
mod server;
mod settings;
mod showing;
mod signals;
mod source;
mod state_places;
mod stop;
mod style;
mod support;
mod telemetry;
mod terminal;
mod terraform_settings;
mod terragrunt;
mod tool;
mod tool_choice;
mod tool_commands;
mod tool_downloads;
mod tool_lifecycle;
mod tool_status;
mod tool_versions;
mod trigger;
mod trust;
mod unprivileged;
mod variables;
mod work_directory;
