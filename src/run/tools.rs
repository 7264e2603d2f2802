//! What is needed to make a tool ready, out of the settings and of the module.

use std::path::Path;

use crate::http::LazyClient;
use crate::settings::ToolSettings;
use crate::tool::{ToolOptions, VersionWish, WhenBusy};
use crate::workspace::{Module, ModuleError, version_files};

/// The options for `owner`, without anything that is installed outside of the cache.
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

/// What `directory` says about its version; `settings` have the default.
///
/// # Errors
/// When the directory cannot be read. It may well hold no configuration.
pub fn version_wish(directory: &Path, settings: &ToolSettings) -> Result<VersionWish, ModuleError> {
    let (required, version_files) = match Module::read(directory) {
        Ok(module) => (module.required_versions, module.version_files),
        Err(ModuleError::Empty { .. }) => (Vec::new(), version_files(directory)?),
        Err(error) => return Err(error),
    };
    let default = settings.default_version.clone();
    Ok(VersionWish { required, version_files, default, ..VersionWish::default() })
}
