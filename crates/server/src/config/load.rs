//! Reads the files of a configuration.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_saphyr::Spanned;

use super::check;
use super::document::{Document, LayerEntry, NotificationEntry, RepositoryEntry, WindowEntry};
use super::error::ConfigError;

/// An entry, and where it stands.
#[derive(Clone, Debug)]
pub struct Placed<T> {
    /// The file.
    pub file: PathBuf,
    /// Line and column, from 1.
    pub at: (u64, u64),
    /// The entry.
    pub entry: T,
}

impl<T> Placed<T> {
    pub(super) fn new(file: &Path, spanned: Spanned<T>) -> Self {
        let at = (spanned.referenced.line(), spanned.referenced.column());
        Self { file: file.to_owned(), at, entry: spanned.value }
    }

    /// `message` about this entry.
    pub(super) fn error(&self, message: impl Into<String>) -> ConfigError {
        self.error_at(self.at, message)
    }

    /// `message` about a value in this entry.
    pub(super) fn error_in<V>(
        &self,
        value: &Spanned<V>,
        message: impl Into<String>,
    ) -> ConfigError {
        self.error_at((value.referenced.line(), value.referenced.column()), message)
    }

    fn error_at(&self, at: (u64, u64), message: impl Into<String>) -> ConfigError {
        ConfigError { file: self.file.clone(), at: Some(at), message: message.into() }
    }
}

/// The desired state. It is checked as far as that is possible without the repositories.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// By name.
    pub repositories: BTreeMap<String, Placed<RepositoryEntry>>,
    /// Layers and layer sets by name, with the defaults filled in.
    pub layers: BTreeMap<String, Placed<LayerEntry>>,
    /// When actions are forbidden.
    pub windows: Vec<Placed<WindowEntry>>,
    /// Who is told.
    pub notifications: Vec<Placed<NotificationEntry>>,
}

/// Reads a file, or all `*.yaml` and `*.yml` files of a directory in the order of their names.
///
/// # Errors
/// All that is wrong, in the order of files and lines.
pub fn load(path: &Path) -> Result<Config, Vec<ConfigError>> {
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
    parse(&texts)
}

/// Reads the texts of files.
///
/// # Errors
/// All that is wrong, in the order of files and lines.
pub fn parse(files: &[(PathBuf, String)]) -> Result<Config, Vec<ConfigError>> {
    let mut config = Config::default();
    let mut defaults: Option<Placed<LayerEntry>> = None;
    let mut errors = Vec::new();
    for (file, text) in files {
        let document: Document = match serde_saphyr::from_str(text) {
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
    }
    if let Some(defaults) = &defaults {
        errors.extend(check::defaults(defaults));
        for layer in config.layers.values_mut() {
            layer.entry.fill(&defaults.entry);
        }
    }
    errors.extend(check::config(&config));
    if errors.is_empty() {
        return Ok(config);
    }
    errors.sort_by(|one, other| (&one.file, one.at).cmp(&(&other.file, other.at)));
    Err(errors)
}

fn insert<T>(
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

impl LayerEntry {
    /// Takes from `defaults` what the layer does not say. Maps are merged by key.
    fn fill(&mut self, defaults: &Self) {
        fn or<T: Clone>(value: &mut Option<T>, default: Option<&T>) {
            if value.is_none() {
                *value = default.cloned();
            }
        }
        fn merge<V: Clone>(values: &mut BTreeMap<String, V>, defaults: &BTreeMap<String, V>) {
            for (name, value) in defaults {
                values.entry(name.clone()).or_insert_with(|| value.clone());
            }
        }
        or(&mut self.repository, defaults.repository.as_ref());
        or(&mut self.reference, defaults.reference.as_ref());
        or(&mut self.tool, defaults.tool.as_ref());
        or(&mut self.strategy, defaults.strategy.as_ref());
        merge(&mut self.variables, &defaults.variables);
        merge(&mut self.secrets, &defaults.secrets);
        merge(&mut self.env, &defaults.env);
        or(&mut self.backend, defaults.backend.as_ref());
        or(&mut self.workspace, defaults.workspace.as_ref());
        if self.triggers.is_empty() {
            self.triggers.clone_from(&defaults.triggers);
        }
        or(&mut self.drift, defaults.drift.as_ref());
        or(&mut self.destroy_limit, defaults.destroy_limit.as_ref());
        or(&mut self.retries, defaults.retries.as_ref());
        or(&mut self.timeout, defaults.timeout.as_ref());
        or(&mut self.history, defaults.history.as_ref());
        or(&mut self.plan_lifetime, defaults.plan_lifetime.as_ref());
    }
}
