//! Reads the files of a configuration.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::check;
use super::document::{Document, LayerEntry};
use super::entries::{Config, Placed};
use super::error::ConfigError;
use super::notifications;
use super::trust::Trust;
use super::values;
use super::written;

/// Reads a file, or all `*.yaml` and `*.yml` files of a directory in the order of their names. A server
/// gives its data directory.
///
/// # Errors
/// All that is wrong, in the order of files and lines.
pub fn load(path: &Path, data: Option<&Path>) -> Result<Config, Vec<ConfigError>> {
    parse_from(&texts(path)?, &Trust::Local { data: data.map(Path::to_owned) })
}

/// The texts of a file, or of all `*.yaml` and `*.yml` files of a directory.
pub(super) fn texts(path: &Path) -> Result<Vec<(PathBuf, String)>, Vec<ConfigError>> {
    let failed = |path: &Path, error: std::io::Error| {
        let message = format!("cannot read the configuration: {error}");
        vec![ConfigError { file: path.to_owned(), at: None, message }]
    };
    let mut files = Vec::new();
    if path.is_dir() {
        for entry in std::fs::read_dir(path).map_err(|error| failed(path, error))? {
            let file = entry.map_err(|error| failed(path, error))?.path();
            if file.extension().is_some_and(|ending| ending == "yaml" || ending == "yml") {
                files.push(file);
            }
        }
        files.sort();
    } else {
        files.push(path.to_owned());
    }
    let mut texts = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).map_err(|error| failed(&file, error))?;
        texts.push((file, text));
    }
    Ok(texts)
}

/// The configuration of a quick start: each directory of a repository that matches `glob` is a
/// layer. The layer set has no name, so the layers are named by their paths alone. Nothing is applied:
/// the quick start does not know which state each directory has.
///
/// # Errors
/// If the address or the glob cannot be used.
pub fn of_repository(
    url: &str,
    glob: &str,
    reference: Option<&str>,
) -> Result<Config, Vec<ConfigError>> {
    let mut layers = json!({"repository": "default", "paths": [glob], "strategy": "plan-only"});
    if let Some(reference) = reference {
        layers["ref"] = json!(reference);
    }
    // JSON is YAML.
    let text = json!({"repositories": {"default": {"url": url}}, "layers": {"": layers}});
    parse(&[(PathBuf::from("command line"), text.to_string())])
}

/// Reads the texts of files that the administrator of the server wrote.
///
/// # Errors
/// All that is wrong, in the order of files and lines.
pub fn parse(files: &[(PathBuf, String)]) -> Result<Config, Vec<ConfigError>> {
    parse_from(files, &Trust::Local { data: None })
}

/// Reads the texts of files.
///
/// # Errors
/// All that is wrong, or is not allowed to who wrote the files, in the order of files and lines.
pub fn parse_from(files: &[(PathBuf, String)], trust: &Trust) -> Result<Config, Vec<ConfigError>> {
    parse_with(files, trust, None)
}

/// As [`parse_from`]. Layers take from `inherited` what neither they nor the defaults of the files say.
pub(super) fn parse_with(
    files: &[(PathBuf, String)],
    trust: &Trust,
    inherited: Option<&LayerEntry>,
) -> Result<Config, Vec<ConfigError>> {
    let mut config = Config::default();
    let mut defaults: Option<Placed<LayerEntry>> = None;
    let mut errors = Vec::new();
    for (file, text) in files {
        let document = match read(text) {
            Ok(document) => document,
            Err(error) => {
                errors.push(ConfigError::parsing(file, &error));
                continue;
            }
        };
        for (name, entry) in document.repositories {
            insert(
                &mut config.repositories,
                "repository",
                name,
                Placed::new(file, entry),
                &mut errors,
            );
        }
        for (name, entry) in document.layers {
            insert(&mut config.layers, "layer", name, Placed::new(file, entry), &mut errors);
        }
        if let Some(entry) = document.defaults {
            let entry = Placed::new(file, entry);
            match &defaults {
                Some(first) => errors.push(entry.error(format!(
                    "`defaults` are also given in {}:{}",
                    first.file.display(),
                    first.at.0
                ))),
                None => defaults = Some(entry),
            }
        }
        config.windows.extend(document.windows.into_iter().map(|entry| Placed::new(file, entry)));
        let notifications = document.notifications.into_iter();
        config.notifications.extend(notifications.map(|entry| Placed::new(file, entry)));
        config.include.extend(document.include.into_iter().map(|entry| Placed::new(file, entry)));
    }
    for repository in config.repositories.values() {
        errors.extend(values::repository(repository));
        errors.extend(trust.repository(repository));
    }
    let layers = config.layers.iter().map(|(name, layer)| (Some(name.as_str()), layer));
    for (name, layer) in defaults.iter().map(|defaults| (None, defaults)).chain(layers) {
        errors.extend(values::layer(layer));
        errors.extend(trust.layer(layer, name));
    }
    for notification in &config.notifications {
        errors.extend(notifications::values(notification));
        errors.extend(trust.notification(notification));
    }
    errors.extend(config.include.iter().filter_map(|include| trust.include(include)));
    if let Some(defaults) = &defaults {
        errors.extend(check::defaults(defaults));
        for layer in config.layers.values_mut() {
            layer.entry.fill(&defaults.entry);
        }
    }
    for layer in config.layers.values_mut() {
        layer.entry.fill(inherited.unwrap_or(&LayerEntry::default()));
    }
    config.defaults = defaults.map(|defaults| defaults.entry);
    errors.extend(check::config(&config, trust));
    if errors.is_empty() {
        return Ok(config);
    }
    errors.sort_by(|one, other| (&one.file, one.at).cmp(&(&other.file, other.at)));
    Err(errors)
}

/// Why the text of a file cannot be read at all.
#[must_use]
pub fn document_problem(file: &Path, text: &str) -> Option<ConfigError> {
    read(text).err().map(|error| ConfigError::parsing(file, &error))
}

fn read(text: &str) -> Result<Document, serde_saphyr::Error> {
    let mut document: Document = serde_saphyr::from_str(text)?;
    written::restore(&mut document, text)?;
    Ok(document)
}

/// Adds an entry, unless there is one with its name.
pub(super) fn insert<T>(
    entries: &mut BTreeMap<String, Placed<T>>,
    kind: &str,
    name: String,
    entry: Placed<T>,
    errors: &mut Vec<ConfigError>,
) {
    if let Some(first) = entries.get(&name) {
        errors.push(entry.error(format!(
            "the {kind} `{name}` is also given in {}:{}",
            first.file.display(),
            first.at.0
        )));
        return;
    }
    entries.insert(name, entry);
}
