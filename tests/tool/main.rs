//! Tools and providers, the command line, generated files, and the rules of the project: what needs no run of its own.

#![expect(clippy::disallowed_methods, reason = "tests start the programs that they check")]
#![expect(clippy::unwrap_used, reason = "what fails in a test's set-up fails the test")]

mod binary;
mod command_line;
mod doctor;
mod documented_commands;
mod documents;
mod errors;
mod generate;
mod generate_pipelines;
mod hostile;
mod layout;
mod linters;
mod packages;
mod providers;
mod registry_api;
mod self_update;
mod settings;
mod showing;
mod style;
mod terragrunt;
mod tool;
mod tool_choice;
mod tool_commands;
mod tool_downloads;
mod tool_lifecycle;
mod tool_status;
mod tool_versions;
mod trust;
