//! Turns a run's variables into the files and the environment that Terraform reads.

use std::path::PathBuf;

use secrecy::SecretString;
use semver::Version;

use super::{Module, SecretSources};
use crate::secret::PrivateDirectory;
use crate::spec::RunSpec;

/// The inputs of a run with every reference resolved.
#[derive(Debug, Default)]
pub struct Inputs {
    /// Variables in their order: name, JSON text, and whether it is sensitive.
    pub variables: Vec<(String, SecretString, bool)>,
    /// Terraform's additional environment: name, value, and whether it is sensitive.
    pub environment: Vec<(String, SecretString, bool)>,
    /// What the log should say, line by line: `Resolved 3 variables: region, db_password [sensitive]`,
    /// and which variables an upstream output replaced.
    pub messages: Vec<String>,
}

/// The variable files of a run.
#[derive(Debug, Default, Eq, PartialEq)]
pub struct VariableFiles {
    /// Files for `plan` and `test`, in the order in which they must be passed.
    pub plan: Vec<PathBuf>,
    /// Files for the `apply` of a saved plan: ephemeral variables only.
    pub apply: Vec<PathBuf>,
}

/// Why variables cannot be given to Terraform.
#[derive(Debug, thiserror::Error)]
pub enum VariableError {}

impl crate::error::Advice for VariableError {}

/// Resolves every reference of the run; the secrets never leave the returned value.
///
/// # Errors
/// Names every variable that cannot be resolved, and how to supply it.
pub fn resolve(_spec: &RunSpec, _sources: &SecretSources) -> Result<Inputs, VariableError> {
    Ok(Inputs::default())
}

/// Writes the variable files (mode 0600) into `private`.
///
/// # Errors
/// When a value does not fit its declared type's syntax, or a file cannot be written.
pub fn write_variable_files(
    _inputs: &Inputs,
    _module: &Module,
    _tool: &Version,
    _private: &PrivateDirectory,
) -> Result<VariableFiles, VariableError> {
    Ok(VariableFiles::default())
}
