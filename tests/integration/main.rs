//! Integration tests: real Terraform, real git servers, real PostgreSQL, real signals.

#![expect(clippy::unwrap_used, reason = "what fails in a test's set-up fails the test")]

mod backend;
mod backends;
mod binary;
mod cluster;
mod command_line;
mod doctor;
mod documents;
mod execute;
mod faults;
mod generate;
mod generate_pipelines;
mod hostile;
mod interrupts;
mod layout;
mod leftovers;
mod linters;
mod locks;
mod logs;
mod masking;
mod memory;
mod notices;
mod packages;
#[cfg(target_os = "linux")]
mod performance;
mod plan_json;
mod providers;
mod registry;
mod report;
mod run_empty_root;
mod run_inputs;
mod run_local;
mod run_source;
mod run_tool;
mod settings;
mod showing;
mod signals;
mod source;
mod stop;
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
