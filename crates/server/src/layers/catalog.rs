//! All layers of all repositories.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::budget::Budget;
use super::naming::members_of;
use super::read::Reading;
use super::resolve::{self, reference};
use super::state_key;
use super::windows::WindowsByName;
use crate::config::{Config, LayerEntry, SubmoduleChoice, namespace_of};
use crate::controller::ConfiguredLayer;
use crate::model::{Formerly, LayerName};

/// A layer, and where its module is.
#[derive(Clone, Debug)]
pub struct LayerSource {
    /// What the decision and the store need.
    pub configured: ConfiguredLayer,
    /// The branch or tag, or `HEAD` for the default branch.
    pub reference: String,
    /// The module's directory in the repository, without `.` and `..`; empty for the root.
    pub path: String,
    /// What the configuration says.
    pub entry: Arc<LayerEntry>,
    /// Whether submodules that its module reads are left out on purpose.
    pub is_without_submodules: bool,
    /// What people should know about it, in sentences.
    pub notes: Vec<String>,
}

/// All layers by name.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    /// The layers.
    pub layers: BTreeMap<LayerName, Arc<LayerSource>>,
    /// What is wrong, in sentences. Layers that are wrong are missing.
    pub problems: Vec<String>,
    /// Whether members of layer sets are missing because their repository was not read yet, or because
    /// the set cannot be used.
    pub is_incomplete: bool,
    /// The namespaces whose custom resources are not known yet.
    pub unlisted: BTreeSet<String>,
    /// The layers of each layer set, and each other layer alone, by the name in the configuration. Layers whose name
    /// an earlier one has are missing.
    pub members: BTreeMap<String, Vec<LayerName>>,
}

impl Catalog {
    /// The layers of `config`, with what was read from the repositories, by name. Layer sets of a
    /// repository that was not read yet are missing.
    #[must_use]
    pub fn new(config: &Config, readings: &BTreeMap<String, Reading>) -> Self {
        let mut catalog = Self { unlisted: config.unlisted.clone(), ..Self::default() };
        for reading in readings.values() {
            catalog.problems.extend(reading.problems.iter().cloned());
        }
        let mut budget = Budget::new(config);
        let mut members = BTreeMap::<&str, Vec<LayerName>>::new();
        let mut found = Vec::new();
        let windows = WindowsByName::new(config);
        // Layers of includes that were not read yet are missing.
        catalog.is_incomplete = config.read_includes() < config.include.len();
        for (set, placed) in config.layers_in_order() {
            let entry = Arc::new(placed.entry.clone());
            let Some(repository) = entry.repository.as_ref().map(|given| given.value.clone())
            else {
                continue;
            };
            let reading = readings.get(&repository);
            let choice = config.repositories.get(&repository).and_then(|it| it.entry.submodules);
            let is_without_submodules = choice == Some(SubmoduleChoice::None);
            let directories = reading.and_then(|reading| reading.directories.get(set));
            catalog.is_incomplete |= entry.path.is_none() && directories.is_none();
            let paths = directories.into_iter().flatten();
            let named: Vec<(LayerName, String, Option<String>)> = match (&entry.path, reading) {
                (Some(path), _) => set
                    .parse()
                    .ok()
                    .map(|name| (name, path.value.clone(), None))
                    .into_iter()
                    .collect(),
                (None, Some(reading)) => {
                    let paths: Vec<String> = paths.cloned().collect();
                    let (members, _) = members_of(config, set, &entry, &paths, &reading.homes);
                    members.into_iter().map(|it| (it.name, it.path, it.conflict)).collect()
                }
                (None, None) => Vec::new(),
            };
            if let Err(problem) = budget.take(set, named.len()) {
                catalog.problems.push(problem);
                catalog.is_incomplete = true;
                continue;
            }
            for (name, path, conflict) in named {
                let module_has = reading.is_none_or(|read| read.with_backend.contains(&name));
                let has_backend = entry.backend.is_some() || module_has;
                let mut layer = resolve::layer(name.clone(), &entry, has_backend);
                layer.conflict = conflict;
                let path = crate::mirror::join("", &path).unwrap_or_default();
                let of_module = reading.and_then(|reading| reading.state_keys.get(&name));
                let of_module = of_module.and_then(|key| key.text(&entry, &path));
                let notes = reading.and_then(|reading| reading.notes.get(&name));
                members.entry(set).or_default().push(name.clone());
                found.push((
                    set,
                    LayerSource {
                        configured: ConfiguredLayer {
                            layer,
                            repository: repository.clone(),
                            state_key: state_key::key(&name, &entry, of_module),
                            windows: windows.of(set, &name),
                        },
                        reference: reference(&entry).to_owned(),
                        path,
                        entry: Arc::clone(&entry),
                        is_without_submodules,
                        notes: notes.cloned().unwrap_or_default(),
                    },
                ));
            }
        }
        let mut resources = BTreeSet::new();
        for (set, mut source) in found {
            // A name of `after` can be that of a layer set.
            let after =
                source.entry.after.iter().filter_map(|name| members.get(name.value.as_str()));
            source.configured.layer.after = after.flatten().cloned().collect();
            let name = source.configured.layer.name.clone();
            if !catalog.insert(source) {
                continue;
            }
            if config.is_resource(set) {
                resources.insert(name.clone());
            }
            catalog.members.entry(set.to_owned()).or_default().push(name);
        }
        catalog.find_conflicts(&resources);
        catalog.find_former_names();
        catalog
    }

    /// Whether a layer that is missing here may all the same be one: what would define it is not known yet.
    #[must_use]
    pub fn may_be_missing(&self, name: &LayerName) -> bool {
        let is_missing = !self.layers.contains_key(name);
        is_missing && (self.is_incomplete || self.unlisted_namespace(name).is_some())
    }

    /// The namespace that may define a layer that is missing here, if its custom resources are not known yet.
    #[must_use]
    pub fn unlisted_namespace(&self, name: &LayerName) -> Option<&str> {
        let namespace = namespace_of(name.as_str())?;
        let is_missing = !self.layers.contains_key(name);
        self.unlisted.get(namespace).filter(|_| is_missing).map(String::as_str)
    }

    /// The layers that come after `layer`.
    pub fn dependents<'a>(&'a self, layer: &'a LayerName) -> impl Iterator<Item = LayerName> + 'a {
        let all = self.layers.iter();
        all.filter(|(_, source)| source.configured.layer.after.contains(layer))
            .map(|(name, _)| name.clone())
    }

    /// The layer that takes over the history of `formerly`.
    pub fn successors<'a>(
        &'a self,
        formerly: &'a LayerName,
    ) -> impl Iterator<Item = LayerName> + 'a {
        let is_successor = move |source: &LayerSource| {
            source.configured.layer.formerly.as_ref().is_some_and(|it| it.name == *formerly)
        };
        let all = self.layers.iter().filter(move |(_, source)| is_successor(source));
        all.map(|(name, _)| name.clone())
    }

    /// Adds a layer, unless there is one with its name.
    fn insert(&mut self, source: LayerSource) -> bool {
        let name = source.configured.layer.name.clone();
        if let Some(first) = self.layers.get(&name) {
            self.problems.push(format!(
                "two layers have the name `{name}`: `{}` of the repository `{}`, and `{}` of `{}`; \
                 only the first one is used",
                first.path, first.configured.repository, source.path, source.configured.repository
            ));
            return false;
        }
        self.layers.insert(name, Arc::new(source));
        true
    }

    /// A name that a layer of a set has again is not a former one.
    fn find_former_names(&mut self) {
        let given = |source: &LayerSource| source.entry.formerly.as_ref()?.value.parse().ok();
        let all = self.layers.iter();
        let former: Vec<(LayerName, LayerName)> =
            all.filter_map(|(name, source)| Some((name.clone(), given(source)?))).collect();
        for (name, formerly) in former {
            if self.layers.contains_key(&formerly) {
                self.problems.push(format!(
                    "the layer `{name}` does not take over the history of `{formerly}`, which is still \
                     a layer"
                ));
                continue;
            }
            let is_certain = !self.may_be_missing(&formerly);
            if let Some(source) = self.layers.get_mut(&name) {
                let formerly = Formerly { name: formerly, is_certain };
                Arc::make_mut(source).configured.layer.formerly = Some(formerly);
            }
        }
    }

    /// Layers that share a state would destroy each other's resources. Those of custom resources do not block others.
    fn find_conflicts(&mut self, resources: &BTreeSet<LayerName>) {
        let mut by_key = BTreeMap::<String, Vec<LayerName>>::new();
        for (name, source) in &self.layers {
            by_key.entry(source.configured.state_key.clone()).or_default().push(name.clone());
        }
        for names in by_key.values().filter(|names| names.len() > 1) {
            let is_only_one = names.iter().filter(|name| !resources.contains(*name)).count() == 1;
            for name in names.iter().filter(|name| !is_only_one || resources.contains(*name)) {
                let others: Vec<&str> =
                    names.iter().filter(|other| *other != name).map(LayerName::as_str).collect();
                let others = others.join("`, `");
                if let Some(source) = self.layers.get_mut(name) {
                    let conflict = &mut Arc::make_mut(source).configured.layer.conflict;
                    conflict.get_or_insert_with(|| {
                        format!(
                            "the layer has the same state as `{others}`; give each a backend key or a \
                             workspace of its own"
                        )
                    });
                }
            }
        }
    }
}
