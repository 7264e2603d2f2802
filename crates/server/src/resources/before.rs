//! What custom resources defined before a change, so that unchanged namespaces need not be read again.

use std::collections::{BTreeMap, BTreeSet};

use butler_cluster::ResourceKey;
use butler_follower::config::Follower;
use serde_json::Value;

use super::choice::Refusal;
use crate::config::Config;

/// What was in force before, by namespaces.
pub(super) struct Before<'a> {
    configs: BTreeMap<String, Config>,
    entries: BTreeMap<&'a str, Vec<(&'a ResourceKey, &'a Value)>>,
    followers: BTreeMap<&'a str, Vec<&'a Follower>>,
    /// The namespaces with a resource that is not used.
    refused: BTreeSet<&'a str>,
}

impl<'a> Before<'a> {
    pub(super) fn new(
        configs: BTreeMap<String, Config>,
        in_force: &'a BTreeMap<ResourceKey, Value>,
        all_followers: &'a [Follower],
        refusals: &'a BTreeMap<ResourceKey, Refusal>,
    ) -> Self {
        let mut entries: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (key, entry) in in_force {
            entries.entry(&*key.namespace).or_default().push((key, entry));
        }
        let mut followers: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for follower in all_followers {
            // Names of namespaces have no dots.
            let namespace = follower.id.split_once('.').map_or("", |(namespace, _)| namespace);
            followers.entry(namespace).or_default().push(follower);
        }
        let refused = refusals.keys().map(|key| &*key.namespace).collect();
        Self { configs, entries, followers, refused }
    }

    /// What a namespace defines, if all of its resources are used and want what they wanted.
    pub(super) fn take_unchanged(
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
