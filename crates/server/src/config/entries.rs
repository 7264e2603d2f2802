//! The entries of all files together.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_saphyr::Spanned;

use super::document::{LayerEntry, NotificationEntry, RepositoryEntry, WindowEntry};
use super::error::ConfigError;
use super::sources::{DEFAULT_REFERENCE, IncludeEntry, IncludeSource};
use crate::mirror::join;

/// The most layers of a layer set, of an include, and of the custom resources of a namespace, unless it says another
/// number.
pub const MAX_LAYERS: u32 = 1_000;

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
    /// Where further configuration is.
    pub include: Vec<Placed<IncludeEntry>>,
    /// The defaults, which the layers of the same files have already.
    pub defaults: Option<LayerEntry>,
    /// What includes and custom resources have added.
    pub included: Vec<Included>,
    /// The namespaces whose custom resources are not known yet.
    pub unlisted: BTreeSet<String>,
}

/// Where configuration of other people is.
#[derive(Clone, Debug)]
pub enum IncludedFrom {
    /// In a repository.
    Repository(IncludeSource),
    /// In the custom resources of this namespace.
    Namespace(String),
}

impl From<&IncludeSource> for IncludedFrom {
    fn from(source: &IncludeSource) -> Self {
        Self::Repository(source.clone())
    }
}

/// What an include, or the custom resources of a namespace, have added to a configuration.
#[derive(Clone, Debug)]
pub struct Included {
    /// Where it is.
    pub source: IncludedFrom,
    /// The most layers that it may define.
    pub max_layers: u32,
    /// The names of its repositories.
    pub repositories: BTreeSet<String>,
    /// The names of its layers and layer sets.
    pub layers: BTreeSet<String>,
    /// When actions are forbidden for its layers.
    pub windows: Vec<Placed<WindowEntry>>,
}

impl Config {
    /// Where the configuration names further configuration.
    #[must_use]
    pub fn include_sources(&self) -> Vec<IncludeSource> {
        self.include.iter().filter_map(|include| self.source_of(&include.entry)).collect()
    }

    fn source_of(&self, entry: &IncludeEntry) -> Option<IncludeSource> {
        let repository = self.repositories.get(&entry.repository.value)?;
        let reference = entry.reference.as_deref().unwrap_or(DEFAULT_REFERENCE);
        Some(IncludeSource {
            repository: entry.repository.value.clone(),
            reference: reference.to_owned(),
            path: join("", &entry.path.value)?,
            url: repository.entry.url.value.clone(),
        })
    }

    /// The most layers that may be defined there.
    #[must_use]
    pub fn most_layers(&self, from: &IncludedFrom) -> u32 {
        let given = match from {
            IncludedFrom::Namespace(_) => None,
            IncludedFrom::Repository(source) => {
                let mut entries = self.include.iter().map(|include| &include.entry);
                let entry = entries.find(|it| self.source_of(it).as_ref() == Some(source));
                entry.and_then(|entry| entry.max_layers)
            }
        };
        given.unwrap_or(MAX_LAYERS)
    }

    /// How many includes have added something.
    #[must_use]
    pub fn read_includes(&self) -> usize {
        let is_include = |it: &&Included| matches!(it.source, IncludedFrom::Repository(_));
        self.included.iter().filter(is_include).count()
    }

    /// The layers and layer sets by name: first those of the server's own files, then included ones, then those of
    /// custom resources. So later ones cannot take the name of a member of a layer set from earlier ones.
    pub fn layers_in_order(&self) -> impl Iterator<Item = (&str, &Placed<LayerEntry>)> {
        let rank = |name: &str| {
            let of = self.included.iter().find(|included| included.layers.contains(name));
            match of.map(|included| &included.source) {
                None => 0,
                Some(IncludedFrom::Repository(_)) => 1,
                Some(IncludedFrom::Namespace(_)) => 2,
            }
        };
        let all = self.layers.iter().map(|(name, layer)| (name.as_str(), layer));
        let mut all: Vec<_> = all.collect();
        all.sort_by_cached_key(|(name, _)| rank(name));
        all.into_iter()
    }

    /// Whether a custom resource defines the layer or layer set.
    #[must_use]
    pub fn is_resource(&self, name: &str) -> bool {
        let mut of_namespaces =
            self.included.iter().filter(|it| matches!(it.source, IncludedFrom::Namespace(_)));
        of_namespaces.any(|included| included.layers.contains(name))
    }

    /// Whether a custom resource that is not known yet can have this name.
    #[must_use]
    pub fn is_unlisted(&self, name: &str) -> bool {
        namespace_of(name).is_some_and(|namespace| self.unlisted.contains(namespace))
    }

    /// Whether an include has defined the repository.
    #[must_use]
    pub fn is_included_repository(&self, name: &str) -> bool {
        self.included.iter().any(|included| included.repositories.contains(name))
    }
}

/// The namespace of the custom resource that defines something with this name, if one does. Names of namespaces have no
/// dots.
#[must_use]
pub(crate) fn namespace_of(name: &str) -> Option<&str> {
    name.split_once('.').map(|(namespace, _)| namespace)
}

impl LayerEntry {
    /// Takes from `defaults` what the layer does not say. Maps are merged by key.
    pub(super) fn fill(&mut self, defaults: &Self) {
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
        if self.pass_env.is_empty() {
            self.pass_env.clone_from(&defaults.pass_env);
        }
        if self.credential_env.is_empty() {
            self.credential_env.clone_from(&defaults.credential_env);
        }
        or(&mut self.backend, defaults.backend.as_ref());
        or(&mut self.workspace, defaults.workspace.as_ref());
        if self.triggers.is_empty() {
            self.triggers.clone_from(&defaults.triggers);
        }
        or(&mut self.max_layers, defaults.max_layers.as_ref());
        or(&mut self.checkout, defaults.checkout.as_ref());
        or(&mut self.module_credentials, defaults.module_credentials.as_ref());
        or(&mut self.drift, defaults.drift.as_ref());
        or(&mut self.destroy_limit, defaults.destroy_limit.as_ref());
        or(&mut self.retries, defaults.retries.as_ref());
        or(&mut self.timeout, defaults.timeout.as_ref());
        or(&mut self.history, defaults.history.as_ref());
        or(&mut self.max_log, defaults.max_log.as_ref());
        or(&mut self.isolation, defaults.isolation.as_ref());
        or(&mut self.job, defaults.job.as_ref());
        or(&mut self.after_plan, defaults.after_plan.as_ref());
        or(&mut self.plan_lifetime, defaults.plan_lifetime.as_ref());
    }
}
