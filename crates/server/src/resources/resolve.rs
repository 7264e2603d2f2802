//! Which resources are used.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use butler_cluster::{CustomObject, ResourceKey, ResourceKind};
use butler_follower::config::Follower;
use serde_json::{Value, json};

use super::followers::{follower, with_own_names};
use super::schemas::schema;
use super::structural::{message_with_resource_keys, with_file_keys};
use crate::config::{Config, ConfigError, RemoteLimits, Trust, document_problem, parse_namespace};

/// Why the newest generation of a resource is not used.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Refusal {
    /// In one word.
    pub reason: &'static str,
    /// What is wrong, and what to do.
    pub message: String,
}

/// What came of a resource.
#[derive(Clone, Debug)]
pub struct TakenResource {
    uid: String,
    generation: i64,
    /// Whether a generation of it is in force.
    pub is_in_force: bool,
    /// Why the newest one is not.
    pub refusal: Option<Refusal>,
}

impl TakenResource {
    /// Whether `object` wants what was taken.
    #[must_use]
    pub fn is_of(&self, object: &CustomObject) -> bool {
        self.uid == object.uid && self.generation == object.generation
    }
}

/// A name that a resource in force has, and the newest configuration too.
#[derive(Clone, Debug)]
pub struct Clash {
    /// The resource.
    pub key: ResourceKey,
    /// What is wrong, at the entry of the configuration.
    pub error: ConfigError,
}

/// The resources, and what of them is in force.
#[derive(Debug, Default)]
pub struct Resources {
    objects: Vec<Arc<CustomObject>>,
    /// What each resource in force wants, as the entry of a file.
    in_force: BTreeMap<ResourceKey, Value>,
    /// Why the newest generation of a resource is not in force.
    refusals: BTreeMap<ResourceKey, Refusal>,
    /// Name conflicts of resources in force with configuration that was refused because of them, by its place.
    notes: BTreeMap<String, BTreeMap<ResourceKey, Refusal>>,
    /// What the namespaces define.
    configs: BTreeMap<String, Config>,
    followers: Vec<Follower>,
    /// What has changed since the repository with this name was read.
    unread: Vec<(ResourceKey, String)>,
}

impl Resources {
    /// Takes the resources that the cluster has. Returns whether they want something else than before.
    pub fn replace(&mut self, objects: Vec<Arc<CustomObject>>) -> bool {
        // Most changes are those of their status, which the server has written.
        let wanted = |all: &[Arc<CustomObject>]| {
            let one = |it: &Arc<CustomObject>| (it.key.clone(), it.uid.clone(), it.generation);
            all.iter().map(one).collect::<Vec<_>>()
        };
        let is_other = wanted(&self.objects) != wanted(&objects);
        self.objects = objects;
        is_other
    }

    /// The resources.
    #[must_use]
    pub fn objects(&self) -> &[Arc<CustomObject>] {
        &self.objects
    }

    /// What the namespaces define, by their names.
    #[must_use]
    pub const fn configs(&self) -> &BTreeMap<String, Config> {
        &self.configs
    }

    /// The followers that are in force.
    #[must_use]
    pub fn followers(&self) -> &[Follower] {
        &self.followers
    }

    /// The resources, and what came of them.
    #[must_use]
    pub fn taken(&self) -> BTreeMap<ResourceKey, TakenResource> {
        let taken = |object: &Arc<CustomObject>| {
            let key = &object.key;
            let noted = || self.notes.values().find_map(|notes| notes.get(key));
            let refusal = self.refusals.get(key).or_else(noted);
            let taken = TakenResource {
                uid: object.uid.clone(),
                generation: object.generation,
                is_in_force: self.in_force.contains_key(key),
                refusal: refusal.cloned(),
            };
            (key.clone(), taken)
        };
        self.objects.iter().map(taken).collect()
    }

    /// What is wrong with resources, in sentences.
    pub fn problems(&self) -> impl Iterator<Item = String> {
        self.refusals.iter().map(|(key, refusal)| format!("{key}: {}", refusal.message))
    }

    /// The names of resources in force that `config`, which has none of them, defines too.
    #[must_use]
    pub fn clashes(&self, config: &Config) -> Vec<Clash> {
        let clash = |key: &ResourceKey| {
            let (kind, file, at) = entry_of(config, key)?;
            let message = format!(
                "the {kind} `{}` is also the custom resource `{key}`; rename or delete one of them",
                key.full_name()
            );
            let error = ConfigError { file, at: Some(at), message };
            Some(Clash { key: key.clone(), error })
        };
        self.in_force.keys().filter_map(clash).collect()
    }

    /// Tells resources that newer configuration at `place` has their names. They stay in force instead of it.
    pub fn note(&mut self, place: &str, clashes: &[Clash]) {
        let mut notes = BTreeMap::new();
        for Clash { key, error } in clashes {
            let message = format!(
                "`{}` is also given in the configuration of the server ({}); rename or delete one of them",
                key.full_name(),
                error.file.display()
            );
            notes.insert(key.clone(), Refusal { reason: "NameConflict", message });
        }
        self.notes.insert(place.to_owned(), notes);
    }

    /// Forgets name conflicts with configuration at other places than these.
    pub fn retain_notes(&mut self, is_place: impl Fn(&str) -> bool) {
        self.notes.retain(|place, _| is_place(place));
    }

    /// Finds out which resources can be used beside `config`, which has none of them. What is wrong with a new
    /// generation leaves the last valid one in force. Returns whether repositories or layers have changed.
    pub fn resolve(&mut self, config: &Config, limits: &RemoteLimits) -> bool {
        self.configs.clear();
        self.resolve_changed(config, limits)
    }

    /// The same if neither `config` nor `limits` have changed: namespaces whose resources want what they wanted, and are
    /// used, are not read again. A change of one resource would otherwise cost as much as the first reading of all.
    pub fn resolve_changed(&mut self, config: &Config, limits: &RemoteLimits) -> bool {
        let (objects, notes) = (std::mem::take(&mut self.objects), std::mem::take(&mut self.notes));
        let mut found = Self { objects, notes, ..Self::default() };
        let mut namespaces: BTreeMap<String, BTreeMap<ResourceKey, Value>> = BTreeMap::new();
        for object in &found.objects {
            let namespace = namespaces.entry(object.key.namespace.clone()).or_default();
            namespace.insert(object.key.clone(), entry(object));
        }
        let mut before = Before::new(std::mem::take(&mut self.configs), self);
        for (namespace, entries) in namespaces {
            if let Some((config, followers)) = before.take_unchanged(&namespace, &entries) {
                found.followers.extend(followers.into_iter().cloned());
                found.in_force.extend(entries);
                found.configs.insert(namespace, config);
                continue;
            }
            let limits = limits.of_namespace(&namespace);
            let trust = Trust::Namespace { limits, namespace: namespace.clone() };
            let mut choice =
                Choice { entries, before: &self.in_force, refusals: &mut found.refusals };
            let of_namespace = choice.config(config, &trust);
            found.followers.extend(choice.followers(&namespace, &of_namespace, &trust));
            found.in_force.extend(choice.entries);
            found.configs.insert(namespace, of_namespace);
        }
        found.unread = std::mem::take(&mut self.unread);
        found.unread.extend(found.changed_since(&self.in_force));
        let wants = |in_force: &BTreeMap<ResourceKey, Value>| {
            let all = in_force.iter().filter(|(key, _)| key.kind != ResourceKind::Follower);
            all.map(|(key, entry)| (key.clone(), entry.clone())).collect::<Vec<_>>()
        };
        let is_other = wants(&found.in_force) != wants(&self.in_force);
        *self = found;
        is_other
    }

    /// The repositories and layers in force that have changed, with the names of their repositories. Those that are new
    /// here have changed too, unless an earlier server has reported them.
    fn changed_since(&self, before: &BTreeMap<ResourceKey, Value>) -> Vec<(ResourceKey, String)> {
        let reported = self.objects.iter().filter(|object| {
            let status = object.status.as_ref();
            status.is_some_and(|status| status.observed_generation == object.generation)
        });
        let reported: BTreeSet<&ResourceKey> = reported.map(|object| &object.key).collect();
        let is_other = |key: &ResourceKey| before.get(key) != self.in_force.get(key);
        let changed = |(key, entry): (&ResourceKey, &Value)| {
            let of = match key.kind {
                ResourceKind::Repository => key.clone(),
                ResourceKind::Layer => {
                    let name = entry["repository"].as_str()?;
                    let (_, name) = name.split_once('.')?;
                    ResourceKey {
                        namespace: key.namespace.clone(),
                        kind: ResourceKind::Repository,
                        name: name.to_owned(),
                    }
                }
                ResourceKind::Follower => return None,
            };
            let is_unread = if before.contains_key(key) {
                is_other(key) || is_other(&of)
            } else {
                !reported.contains(key)
            };
            is_unread.then(|| (key.clone(), of.full_name()))
        };
        self.in_force.iter().filter_map(changed).collect()
    }

    /// The resources that have changed since the repositories with these names were read. They are returned once.
    pub fn take_unread(&mut self) -> Vec<(ResourceKey, String)> {
        std::mem::take(&mut self.unread)
    }

    /// Whether a resource is not used. The cause can be gone without a change of resources.
    #[must_use]
    pub fn has_refusals(&self) -> bool {
        !self.refusals.is_empty()
    }
}

/// What was in force before, by namespaces.
struct Before<'a> {
    configs: BTreeMap<String, Config>,
    entries: BTreeMap<&'a str, Vec<(&'a ResourceKey, &'a Value)>>,
    followers: BTreeMap<&'a str, Vec<&'a Follower>>,
    /// The namespaces with a resource that is not used.
    refused: BTreeSet<&'a str>,
}

impl<'a> Before<'a> {
    fn new(configs: BTreeMap<String, Config>, resources: &'a Resources) -> Self {
        let mut entries: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (key, entry) in &resources.in_force {
            entries.entry(&*key.namespace).or_default().push((key, entry));
        }
        let mut followers: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for follower in &resources.followers {
            // Names of namespaces have no dots.
            let namespace = follower.id.split_once('.').map_or("", |(namespace, _)| namespace);
            followers.entry(namespace).or_default().push(follower);
        }
        let refused = resources.refusals.keys().map(|key| &*key.namespace).collect();
        Self { configs, entries, followers, refused }
    }

    /// What a namespace defines, if all of its resources are used and want what they wanted.
    fn take_unchanged(
        &mut self,
        namespace: &str,
        entries: &BTreeMap<ResourceKey, Value>,
    ) -> Option<(Config, Vec<&'a Follower>)> {
        let before = self.entries.get(namespace)?;
        if self.refused.contains(namespace) || !before.iter().copied().eq(entries) {
            return None;
        }
        let config = self.configs.remove(namespace)?;
        Some((config, self.followers.remove(namespace).unwrap_or_default()))
    }
}

/// What a resource wants, as the entry of a file.
fn entry(object: &CustomObject) -> Value {
    let CustomObject { key, spec, .. } = object;
    let entry = with_file_keys(schema(key.kind), Value::Object(spec.clone()));
    with_own_names(key, entry)
}

/// The choice between the newest and the last valid generations in a namespace.
struct Choice<'a> {
    /// What the resources want.
    entries: BTreeMap<ResourceKey, Value>,
    /// What was in force before.
    before: &'a BTreeMap<ResourceKey, Value>,
    refusals: &'a mut BTreeMap<ResourceKey, Refusal>,
}

impl Choice<'_> {
    /// What repositories and layers define together.
    fn config(&mut self, own: &Config, trust: &Trust) -> Config {
        // First those that cannot be parsed: others that name them would have misleading errors.
        loop {
            let is_new = |key| self.before.get(key) != self.entries.get(key);
            let new = self.files().filter(|(key, ..)| is_new(key));
            let unreadable = new.filter_map(|(key, file, text)| {
                let problem = document_problem(&file, &text)?;
                Some((key.clone(), problem.message))
            });
            let unreadable: Vec<_> = unreadable.collect();
            if !self.refuse(unreadable) {
                break;
            }
        }
        let taken = self.entries.keys().filter_map(|key| {
            let (kind, file, (line, _)) = entry_of(own, key)?;
            let message = format!(
                "the {kind} `{}` is also given in {}:{line}; rename or delete one of them",
                key.full_name(),
                file.display()
            );
            Some((key.clone(), Refusal { reason: "NameConflict", message }))
        });
        let taken: Vec<_> = taken.collect();
        for (key, refusal) in taken {
            self.entries.remove(&key);
            self.refusals.insert(key, refusal);
        }
        loop {
            let files = self.files().map(|(_, file, text)| (file, text)).collect::<Vec<_>>();
            let errors = match parse_namespace(&files, trust, own.defaults.as_ref()) {
                Ok(config) => return config,
                Err(errors) => errors,
            };
            let named =
                self.entries.keys().map(|key| (PathBuf::from(key.to_string()), key.clone()));
            let keys: BTreeMap<PathBuf, ResourceKey> = named.collect();
            let wrong = errors.into_iter().filter_map(|error| {
                let key = keys.get(&error.file)?.clone();
                Some((key, error.message))
            });
            if !self.refuse(wrong.collect()) {
                return Config::default();
            }
        }
    }

    /// The followers, which name repositories and layers of `config`.
    fn followers(&mut self, namespace: &str, config: &Config, trust: &Trust) -> Vec<Follower> {
        loop {
            let all = self.entries.iter().filter(|(key, _)| key.kind == ResourceKind::Follower);
            let read: Vec<_> = all
                .map(|(key, entry)| (key.clone(), follower(namespace, entry, config, trust)))
                .collect();
            let (valid, wrong): (Vec<_>, Vec<_>) =
                read.into_iter().partition(|(_, follower)| follower.is_ok());
            let wrong = wrong.into_iter();
            let wrong = wrong.filter_map(|(key, follower)| Some((key, follower.err()?)));
            if !self.refuse(wrong.collect()) {
                return valid.into_iter().filter_map(|(_, follower)| follower.ok()).collect();
            }
        }
    }

    /// Repositories and layers as files.
    fn files(&self) -> impl Iterator<Item = (&ResourceKey, PathBuf, String)> {
        self.entries.iter().filter_map(|(key, entry)| {
            let group = match key.kind {
                ResourceKind::Repository => "repositories",
                ResourceKind::Layer => "layers",
                ResourceKind::Follower => return None,
            };
            // JSON is YAML.
            let text = json!({(group): {(key.full_name()): entry}}).to_string();
            Some((key, PathBuf::from(key.to_string()), text))
        })
    }

    /// Replaces wrong entries by those that were valid last, or removes them. Returns whether there were any.
    fn refuse(&mut self, wrong: Vec<(ResourceKey, String)>) -> bool {
        let has_any = !wrong.is_empty();
        let mut by_key: BTreeMap<ResourceKey, Vec<String>> = BTreeMap::new();
        for (key, message) in wrong {
            by_key.entry(key).or_default().push(message);
        }
        // A changed entry can make unchanged ones wrong, for example with a cycle. Then only the change is refused.
        let can_return = |key: &ResourceKey| {
            self.before.get(key).is_some_and(|before| self.entries.get(key) != Some(before))
        };
        if by_key.keys().any(can_return) {
            by_key.retain(|key, _| can_return(key));
        }
        for (key, messages) in by_key {
            let message = message_with_resource_keys(schema(key.kind), &messages.join("; "));
            // The first refusal is about the newest generation. Later ones are about the last valid one.
            let refusal = || Refusal { reason: "Invalid", message };
            self.refusals.entry(key.clone()).or_insert_with(refusal);
            match self.before.get(&key) {
                Some(before) if self.entries.get(&key) != Some(before) => {
                    self.entries.insert(key.clone(), before.clone());
                }
                _ => {
                    self.entries.remove(&key);
                }
            }
        }
        has_any
    }
}

/// The entry of a configuration with the name of a resource: its kind, and where it is.
fn entry_of(config: &Config, key: &ResourceKey) -> Option<(&'static str, PathBuf, (u64, u64))> {
    let name = key.full_name();
    match key.kind {
        ResourceKind::Repository => {
            let entry = config.repositories.get(&name)?;
            Some(("repository", entry.file.clone(), entry.at))
        }
        ResourceKind::Layer => {
            let entry = config.layers.get(&name)?;
            Some(("layer", entry.file.clone(), entry.at))
        }
        // Ids of the registry have no dots.
        ResourceKind::Follower => None,
    }
}
