//! The settings that commands need without a run: directories, and where tools come from.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::directories::Missing;
use super::reader::{Reader, absolute, existing};
use super::setting::{
    CA_BUNDLE, CACHE_DIR, DEFAULT_TOOL_VERSION, DRAIN_PERIOD, PROVIDER_CACHE, RECOVERY_DIR,
    SIGNING_KEY, TMPFS_DIR, TOOL_TIMEOUT, WORK_DIR,
};
use super::{
    Arguments, CleanSettings, Environment, SettingsError, ToolSettings, directories, mirrors, parse,
};

/// Enough for a large archive over a slow connection. Another process that installs the same version can take as
/// long.
const TOOL_TIMEOUT_DEFAULT: Duration = Duration::from_mins(10);

/// Within this time, a run that has selected an installed version has started it.
const DRAIN_PERIOD_DEFAULT: Duration = Duration::from_secs(30);

impl CleanSettings {
    /// Reads and checks the settings.
    ///
    /// # Errors
    /// If one of them is not usable.
    pub fn resolve(
        arguments: &Arguments,
        environment: &Environment,
    ) -> Result<Self, SettingsError> {
        Self::read(&Reader { arguments, environment }, Missing::Create)
    }

    /// The same for a dry run: does not create directories.
    ///
    /// # Errors
    /// If one of them is not usable.
    pub fn resolve_for_dry_run(
        arguments: &Arguments,
        environment: &Environment,
    ) -> Result<Self, SettingsError> {
        Self::read(&Reader { arguments, environment }, Missing::OnlyName)
    }

    pub(super) fn read(reader: &Reader<'_>, missing: Missing) -> Result<Self, SettingsError> {
        let work_dir = match reader.path(&WORK_DIR)? {
            Some(path) => path,
            None => absolute(&WORK_DIR, &directories::temporary(reader.environment, missing)?)?,
        };
        Ok(Self {
            work_dir: existing(&WORK_DIR, work_dir, Path::is_dir)?,
            temporary: absolute(&WORK_DIR, reader.environment.temporary())?,
            tmpfs_dir: reader.existing(&TMPFS_DIR, Path::is_dir)?,
            recovery_dir: match reader.path(&RECOVERY_DIR)? {
                Some(directory) => directory,
                None => cache_dir(reader, missing)?.join("recovery"),
            },
        })
    }
}

impl ToolSettings {
    /// Reads and checks the settings.
    ///
    /// # Errors
    /// If one of them is not usable.
    pub fn resolve(
        arguments: &Arguments,
        environment: &Environment,
    ) -> Result<Self, SettingsError> {
        let reader = Reader { arguments, environment };
        let mut warnings = Vec::new();
        let signing_keys = reader.existing_paths(&SIGNING_KEY, Path::is_file)?;
        let writable_cache = cache_dir(&reader, Missing::Create)?;
        let read_only = match reader.path(&CACHE_DIR)? {
            Some(_) => None,
            None => directories::read_only_cache(environment, &mut warnings),
        };
        Ok(Self {
            provider_cache: provider_cache(&reader, read_only.as_deref(), &writable_cache)?,
            cache_dir: read_only.unwrap_or(writable_cache),
            sites: mirrors::sites(&reader, &mut warnings)?,
            signing_keys,
            ca_bundle: ca_bundle(&reader)?,
            default_version: reader.parsed(&DEFAULT_TOOL_VERSION, parse::request)?,
            timeout: reader.parsed(&TOOL_TIMEOUT, parse::interval)?.unwrap_or(TOOL_TIMEOUT_DEFAULT),
            drain_period: reader
                .parsed(&DRAIN_PERIOD, parse::duration)?
                .unwrap_or(DRAIN_PERIOD_DEFAULT),
            warnings,
        })
    }
}

/// The provider cache; `None` if the user has disabled it.
fn provider_cache(
    reader: &Reader<'_>,
    read_only: Option<&Path>,
    writable_cache: &Path,
) -> Result<Option<PathBuf>, SettingsError> {
    if reader.parsed(&PROVIDER_CACHE, |text| Ok(text == "off"))? == Some(true) {
        return Ok(None);
    }
    let read_only = read_only.map(|cache| cache.join("providers")).filter(|path| path.is_dir());
    let default = || read_only.unwrap_or_else(|| writable_cache.join("providers"));
    Ok(Some(reader.path(&PROVIDER_CACHE)?.unwrap_or_else(default)))
}

fn cache_dir(reader: &Reader<'_>, missing: Missing) -> Result<PathBuf, SettingsError> {
    match reader.path(&CACHE_DIR)? {
        Some(path) => Ok(path),
        None => directories::default_cache(reader.environment, missing),
    }
}

/// The CA bundle, if one is given. It contains at least one certificate.
pub(super) fn ca_bundle(reader: &Reader<'_>) -> Result<Option<PathBuf>, SettingsError> {
    let bundle = reader.existing(&CA_BUNDLE, Path::is_file)?;
    if let Some(path) = &bundle {
        butler_base::http::check_bundle(path).map_err(|error| SettingsError::Unusable {
            setting: &CA_BUNDLE,
            problem: butler_base::error::chain(&error),
        })?;
    }
    Ok(bundle)
}
