//! Which resources are used.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use butler_cluster::{CustomObject, KnownResources, ResourceKey, ResourceKind};
use butler_follower::config::Follower;
use serde_json::Value;

use super::before::Before;
use super::choice::{Choice, Refusal, entry_of};
use super::followers::with_own_names;
use super::schemas::schema;
use super::structural::with_file_keys;
use crate::config::{Config, ConfigError, RemoteLimits, Trust};

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
    /// The namespaces whose resources are not known.
    unlisted: BTreeSet<String>,
}

impl Resources {
    /// Takes the resources that the cluster has, as far as they are known. Returns whether they want something else than
    /// before, or others are unknown.
    pub fn replace(&mut self, known: impl Into<KnownResources>) -> bool {
        let KnownResources { objects, unlisted, .. } = known.into();
        // Most changes are those of their status, which the server has written.
        let wanted = |all: &[Arc<CustomObject>]| {
            let one = |it: &Arc<CustomObject>| (it.key.clone(), it.uid.clone(), it.generation);
            all.iter().map(one).collect::<Vec<_>>()
        };
        let is_other = wanted(&self.objects) != wanted(&objects) || self.unlisted != unlisted;
        (self.objects, self.unlisted) = (objects, unlisted);
        is_other
    }

    /// The resources.
    #[must_use]
    pub fn objects(&self) -> &[Arc<CustomObject>] {
        &self.objects
    }

    /// The namespaces whose resources are not known.
    #[must_use]
    pub const fn unlisted(&self) -> &BTreeSet<String> {
        &self.unlisted
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

    /// The followers of which no generation is in force: their ids, and why.
    pub fn refused_followers(&self) -> impl Iterator<Item = (String, String)> {
        let refused = self.refusals.iter().filter(|(key, _)| {
            key.kind == ResourceKind::Follower && !self.in_force.contains_key(key)
        });
        refused.map(|(key, refusal)| (key.full_name(), refusal.message.clone()))
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
        let mut found = Self {
            objects: std::mem::take(&mut self.objects),
            notes: std::mem::take(&mut self.notes),
            unlisted: std::mem::take(&mut self.unlisted),
            ..Self::default()
        };
        let mut namespaces: BTreeMap<String, BTreeMap<ResourceKey, Value>> = BTreeMap::new();
        for object in &found.objects {
            let namespace = namespaces.entry(object.key.namespace.clone()).or_default();
            namespace.insert(object.key.clone(), entry(object));
        }
        let mut before = Before::new(
            std::mem::take(&mut self.configs),
            &self.in_force,
            &self.followers,
            &self.refusals,
        );
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

/// What a resource wants, as the entry of a file.
fn entry(object: &CustomObject) -> Value {
    let CustomObject { key, spec, .. } = object;
    let entry = with_file_keys(schema(key.kind), Value::Object(spec.clone()));
    with_own_names(key, entry)
}
