//! The description of a run, from the registry, a file or the command line.
//!
//! Every [`RunSpec`] is valid: names, versions and kinds are parsed where they are read. Every value of
//! a variable, environment variable or backend setting is a secret here, because the whole
//! configuration is secret; [`Variable::sensitive`] only says what may be *named*.

mod cli_files;
mod constraint;
mod local;
mod operation;
mod requested_version;
mod required_versions;
mod run_id;
mod run_spec;
mod secret_reference;
mod sensitive_values;
mod terraform_settings;
mod tool;
mod version_file;

pub use cli_files::{CLI_CONFIG_VARIABLES, cli_config_files};
pub use constraint::Constraint;
pub use constraint::ConstraintError;
pub use local::{
    Approval, Assignment, ChangesExit, LocalOptions, PlanFile, PlanPurpose, PlanningOptions,
    Refresh,
};
pub use operation::{Operation, UnknownOperation};
pub use requested_version::{NEWEST_ALLOWED, OLDEST_ALLOWED, VersionSelector};
pub use requested_version::{RequestedVersion, RequestedVersionError};
pub use required_versions::{
    ConstraintPlace, FIRST_WITH_TOFU_FILES, ModuleLimit, RequiredVersion, RequiredVersions, core,
    reads_tofu_files,
};
pub use run_id::{InvalidRunId, RunId};
pub use run_spec::{
    ArchiveSource, Backend, EnvironmentVariable, GitCredentials, GitSource, RunSpec, Source,
    Variable,
};
pub use secret_reference::SecretReference;
pub use sensitive_values::SensitiveValues;
pub use terraform_settings::{
    AfterPlan, BackendSettings, BackendValue, CliConfig, InstallationMethod, LoggingSettings,
    ProviderSource, RegistryHost, TerraformSettings, TerraformSetup,
};
pub use tool::{ParseRequestError, Product, ToolRequest};
pub use version_file::{VersionFile, VersionFileKind};
