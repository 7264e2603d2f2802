//! The identity of a layer's state: which layers must not run at the same time.

use std::path::{Component, Path, PathBuf};

use butler_protocol::backend::{LOCAL, SettingValue, state_key};
use secrecy::ExposeSecret as _;
use serde::{Deserialize, Serialize};

use crate::config::LayerEntry;
use crate::mirror::BackendBlock;
use crate::model::LayerName;

/// The file of a local state without further settings.
const DEFAULT_PATH: &str = "terraform.tfstate";

/// The directory of local states of other workspaces than the default one.
const DEFAULT_WORKSPACE_DIRECTORY: &str = "terraform.tfstate.d";

/// Variables from which a backend takes a setting that leads to another state, if the setting is not given
/// otherwise.
const VARIABLES: [(&str, &str, &str); 9] = [
    ("azurerm", "ARM_ENVIRONMENT", "environment"),
    ("cloud", "TF_CLOUD_HOSTNAME", "hostname"),
    ("consul", "CONSUL_HTTP_SSL", "scheme"),
    ("gcs", "GOOGLE_BACKEND_STORAGE_CUSTOM_ENDPOINT", "storage_custom_endpoint"),
    ("pg", "PG_SCHEMA_NAME", "schema_name"),
    ("pg", "PG_TABLE_NAME", "table_name"),
    ("s3", "AWS_ENDPOINT_URL", "endpoint"),
    ("s3", "AWS_ENDPOINT_URL_S3", "endpoint"),
    ("s3", "AWS_S3_ENDPOINT", "endpoint"),
];

/// The identity of the state that the backend of a module names, and what it was computed for: the
/// configuration can have changed since the module was read. It contains no credentials.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct ModuleStateKey {
    path: String,
    workspace: Option<String>,
    key: String,
}

impl ModuleStateKey {
    /// The identity for the layer of `entry`, whose module in the directory `path` of `repository` has the
    /// block; `None` if it is not known.
    pub(super) fn of(
        entry: &LayerEntry,
        repository: &str,
        path: &str,
        block: &BackendBlock,
    ) -> Option<Self> {
        let mut settings: Vec<(&str, SettingValue<'_>)> = Vec::new();
        for (name, value) in &block.settings {
            let value = value.as_ref();
            let value =
                value.map_or(SettingValue::Unknown, |it| SettingValue::Json(it.expose_secret()));
            settings.push((name, value));
        }
        let workspace = entry.workspace.as_deref().unwrap_or_default();
        let key = if block.kind == LOCAL.name {
            local_key(block, repository, path, workspace)?
        } else {
            key_of(entry, &block.kind, settings, workspace)?
        };
        Some(Self { path: path.to_owned(), workspace: entry.workspace.clone(), key })
    }

    /// The key, if it was computed for this configuration.
    pub(super) fn text(&self, entry: &LayerEntry, path: &str) -> Option<&str> {
        let is_current = self.path == path && self.workspace == entry.workspace;
        is_current.then_some(&*self.key)
    }
}

/// The identity of the layer's state: that of its backend and workspace, or of the layer if these
/// are not known. The backend of the configuration replaces the one of the module.
pub(super) fn key(name: &LayerName, entry: &LayerEntry, of_module: Option<&str>) -> String {
    let known = match &entry.backend {
        Some(backend) => {
            let settings = backend.config.iter();
            let settings: Vec<(&str, String)> =
                settings.map(|(name, value)| (name.as_str(), value.to_string())).collect();
            let settings =
                settings.iter().map(|(name, json)| (*name, SettingValue::Json(json.as_str())));
            let workspace = entry.workspace.as_deref().unwrap_or_default();
            key_of(entry, &backend.kind.value, settings.collect(), workspace)
        }
        None => of_module.map(str::to_owned),
    };
    known.unwrap_or_else(|| format!("layer|{name}"))
}

/// The key of a backend with these settings, and with those that it takes from the environment.
fn key_of<'a>(
    entry: &LayerEntry,
    kind: &str,
    mut settings: Vec<(&'a str, SettingValue<'a>)>,
    workspace: &str,
) -> Option<String> {
    for (of_kind, variable, setting) in VARIABLES {
        let is_given = entry.env.contains_key(variable)
            || entry.pass_env.iter().any(|name| name.value == variable);
        if of_kind == kind && is_given && settings.iter().all(|(name, _)| *name != setting) {
            settings.push((setting, SettingValue::Unknown));
        }
    }
    state_key(kind, settings, workspace).map(|key| key.to_string())
}

/// The key of a local state. A relative path begins in the module's directory.
fn local_key(
    block: &BackendBlock,
    repository: &str,
    directory: &str,
    workspace: &str,
) -> Option<String> {
    let is_default = matches!(workspace, "" | "default");
    let (name, default) = if is_default {
        ("path", DEFAULT_PATH)
    } else {
        ("workspace_dir", DEFAULT_WORKSPACE_DIRECTORY)
    };
    let given = match block.settings.get(name) {
        Some(json) => {
            serde_json::from_str::<Option<String>>(json.as_ref()?.expose_secret()).ok()?
        }
        None => None,
    };
    let given = given.filter(|path| !path.is_empty()).unwrap_or_else(|| default.to_owned());
    let is_relative = Path::new(&given).is_relative();
    let path = Path::new("/").join(directory).join(given);
    // It leads out of the repository.
    if is_relative && !stays_inside(&path) {
        return None;
    }
    let json = serde_json::to_string(path.to_str()?).ok()?;
    let key = state_key(LOCAL.name, [(name, SettingValue::Json(&json))], workspace)?;
    Some(if is_relative { format!("repository|{repository}|{key}") } else { key.to_string() })
}

/// Whether an absolute path never leads above its root.
fn stays_inside(path: &Path) -> bool {
    let mut inside = PathBuf::new();
    path.components().all(|component| match component {
        Component::ParentDir => inside.pop(),
        Component::Normal(name) => {
            inside.push(name);
            true
        }
        Component::RootDir | Component::CurDir | Component::Prefix(_) => true,
    })
}

#[cfg(test)]
#[path = "state_key_tests.rs"]
mod tests;
