//! The steps of a run, from its configuration to the operation; `phases` has their order.

pub(super) mod after_plan;
pub(super) mod applying;
pub(super) mod approval;
pub(super) mod command_input;
pub(super) mod engine_setup;
pub(super) mod fixed_variables;
mod grace;
pub(super) mod handover;
pub(super) mod init;
pub(super) mod isolation;
pub(super) mod isolation_level;
pub(super) mod module_files;
pub(super) mod operations;
pub(super) mod phases;
pub(super) mod piped_variables;
pub(super) mod planning;
pub(super) mod run_inputs;
pub(super) mod saved_plan;
pub(super) mod sources;
pub(super) mod state_location;
mod state_lock;
mod state_version;
pub(super) mod terraform_settings;
pub(super) mod tool_options;
pub(super) mod tools;
pub(super) mod version_query;
pub(super) mod workspace_choice;
