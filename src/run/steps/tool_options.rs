//! How tools are chosen and installed, for runs and for the commands around them.

use std::path::Path;

use crate::settings::ToolSettings;
use crate::tool::{ToolOptions, VersionSources, WhenBusy};
use butler_base::http::LazyClient;
use butler_protocol::spec::{ToolRequest, VersionFile};
use butler_source::module::{Module, ModuleError};
use butler_source::{IgnoredVersionFile, VersionFiles, version_files};

/// The options for `owner`. Tools on PATH are ignored.
#[must_use]
pub fn tool_options(settings: &ToolSettings, http: LazyClient, owner: String) -> ToolOptions {
    ToolOptions {
        cache: settings.cache_dir.clone(),
        sites: settings.sites.clone(),
        signing_keys: settings.signing_keys.clone(),
        search_path: None,
        http,
        meter: None,
        timeout: settings.timeout,
        when_busy: WhenBusy::Wait,
        owner,
    }
}

/// The version that the module in `directory` requires, with the default of `settings`. A directory without
/// configuration is permitted.
///
/// # Errors
/// If the directory cannot be read.
pub fn version_wish(
    directory: &Path,
    settings: &ToolSettings,
) -> Result<VersionSources, ModuleError> {
    let default = settings.default_version.clone();
    match Module::read(directory) {
        Ok(mut module) => {
            module.version_files.counted = counted(std::mem::take(&mut module.version_files));
            Ok(module_wish(module, default))
        }
        Err(ModuleError::Empty { .. }) => Ok(VersionSources {
            version_files: counted(version_files(directory)?),
            default,
            ..VersionSources::default()
        }),
        Err(error) => Err(error),
    }
}

/// The version files that count. The log names the others.
fn counted(found: VersionFiles) -> Vec<VersionFile> {
    for warning in warnings(&found) {
        tracing::warn!("{warning}");
    }
    found.counted
}

/// Names the version files that do not count and would decide.
pub(in crate::run) fn warnings(found: &VersionFiles) -> Vec<String> {
    let deciding = found.ignored.iter().filter(|_| found.counted.is_empty());
    deciding.map(|file| format!("{file}; {}", IgnoredVersionFile::ADVICE)).collect()
}

/// The version that a module requires, with the default of the machine.
pub(in crate::run) fn module_wish(module: Module, default: Option<ToolRequest>) -> VersionSources {
    VersionSources {
        required: module.required_versions,
        version_files: module.version_files.counted,
        default,
        ..VersionSources::default()
    }
}
