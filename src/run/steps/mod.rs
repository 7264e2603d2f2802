//! The steps of a run, from its configuration to the operation; `phases` has their order.

pub(super) mod after_plan;
pub(super) mod approval;
pub(super) mod command_input;
pub(super) mod early_question;
pub(super) mod init;
pub(super) mod operations;
pub(super) mod phases;
pub(super) mod saved_plan;
pub(super) mod sources;
pub(super) mod state_place;
pub(super) mod terraform_settings;
pub(super) mod tool_options;
pub(super) mod tools;
pub(super) mod workspace_choice;
