//! The choice between the newest and the last valid generations of the resources in a namespace.

use std::collections::BTreeMap;
use std::path::PathBuf;

use butler_cluster::{ResourceKey, ResourceKind};
use butler_follower::config::Follower;
use serde_json::{Value, json};

use super::followers::follower;
use super::schemas::schema;
use super::structural::message_with_resource_keys;
use crate::config::{Config, Trust, document_problem, parse_namespace};

/// Why the newest generation of a resource is not used.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Refusal {
    /// In one word.
    pub reason: &'static str,
    /// What is wrong, and what to do.
    pub message: String,
}

/// The choice between the newest and the last valid generations in a namespace.
pub(super) struct Choice<'a> {
    /// What the resources want.
    pub(super) entries: BTreeMap<ResourceKey, Value>,
    /// What was in force before.
    pub(super) before: &'a BTreeMap<ResourceKey, Value>,
    pub(super) refusals: &'a mut BTreeMap<ResourceKey, Refusal>,
}

impl Choice<'_> {
    /// What repositories and layers define together.
    pub(super) fn config(&mut self, own: &Config, trust: &Trust) -> Config {
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
    pub(super) fn followers(
        &mut self,
        namespace: &str,
        config: &Config,
        trust: &Trust,
    ) -> Vec<Follower> {
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
pub(super) fn entry_of(
    config: &Config,
    key: &ResourceKey,
) -> Option<(&'static str, PathBuf, (u64, u64))> {
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
