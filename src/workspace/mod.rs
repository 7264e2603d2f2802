//! The files of a run's module: those of an archive, and those that the runner adds, which are variable files,
//! backend, and CLI configuration.
//!
//! Files with secrets are written to the run's private directory, never into the clone.

mod archive;
mod backend;
mod cli_config;
#[cfg(test)]
mod fuzz_tests;
mod s3;
mod setting_versions;
mod terraform_settings;
mod variables;

pub use archive::{ArchiveError, unpack};
pub use backend::{BackendError, BackendFiles, write_backend, write_provider_features};
pub use cli_config::{write_cli_config, written_token};
pub use terraform_settings::{
    KEYS, LOG_LEVELS, ONE_WORD, Problem, SettingsContext, TerraformSettingsError,
    apply_terraform_settings, parse_run_settings, read_settings_file, terraform_name,
};
pub use variables::{
    AssignedSecrets, HARMLESS_OPTIONS, Inputs, NAME_RULES, NameRule, Unresolved, VariableError,
    VariableFiles, VariableTreatment, apply_declarations, assigned_secrets, resolve,
    saved_plan_takes_all_variables, saved_plan_takes_variables, write_variable_files,
};
