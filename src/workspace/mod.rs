//! The directory in which a run happens: the module's source and what the runner adds to it.
//!
//! Everything with a secret in it is written to the run's private directory, never into the clone.

mod backend;
mod cli_config;
#[cfg(test)]
mod fuzz_tests;
mod s3;
mod terraform_settings;
mod variables;

pub use backend::{BackendError, BackendFiles, write_backend, write_provider_features};
pub use cli_config::{write_cli_config, written_token};
pub use terraform_settings::{
    KEYS, LOG_LEVELS, ONE_WORD, Problem, Surroundings, TerraformSettingsError, parse_run_settings,
    read_settings_file, settle, terraform_name,
};
pub use variables::{
    Fate, HARMLESS_OPTIONS, Inputs, NAME_RULES, NameRule, Unresolved, VariableError, VariableFiles,
    assigned_secrets, resolve, saved_plan_takes_variables, settle_declared, write_variable_files,
};
