//! Puts the run's state backend in the place of the module's.

use std::path::{Path, PathBuf};

use super::Module;
use crate::process::Environment;
use crate::secret::PrivateDirectory;
use crate::spec::{Backend, ToolRequest};

/// What was written for a backend.
#[derive(Debug, Eq, PartialEq)]
pub struct BackendFiles {
    /// The override file in the clone: the backend's type and nothing else.
    pub override_file: PathBuf,
    /// The settings, outside the clone (mode 0600), for `-backend-config`.
    pub config_file: PathBuf,
}

/// Why a backend cannot be configured.
#[derive(Debug, thiserror::Error)]
pub enum BackendError {}

impl crate::error::Advice for BackendError {}

/// Writes the override file into `directory` and the settings into `private`.
///
/// # Errors
/// When the type is no backend's name or a file cannot be written.
pub fn write_backend(
    _backend: &Backend,
    _tool: &ToolRequest,
    directory: &Path,
    private: &PrivateDirectory,
) -> Result<BackendFiles, BackendError> {
    Ok(BackendFiles { override_file: directory.to_owned(), config_file: private.path().to_owned() })
}

/// Gives a module that uses azurerm without a provider block an empty one with `features {}`,
/// where the environment has Azure credentials. Returns the file that was written.
///
/// # Errors
/// When the file cannot be written.
pub fn write_provider_features(
    _module: &Module,
    _environment: &Environment,
    _directory: &Path,
) -> Result<Option<PathBuf>, BackendError> {
    Ok(None)
}
