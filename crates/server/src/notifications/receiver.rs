//! Receivers, as the configuration names them.

use std::collections::BTreeMap;
use std::sync::Arc;

use globset::{Glob, GlobSet, GlobSetBuilder};

use crate::config::{Config, NotificationEntry, NotificationEvent};
use crate::model::LayerName;

/// A receiver of notifications.
#[derive(Clone, Debug)]
pub(super) struct Receiver {
    /// Its name, under which the store keeps its cursor.
    pub(super) name: String,
    /// What the configuration says.
    pub(super) entry: NotificationEntry,
    /// What the names of its layers match.
    layers: GlobSet,
    /// The layer sets among them.
    sets: Vec<String>,
}

impl PartialEq for Receiver {
    /// The patterns are those of the entry.
    fn eq(&self, other: &Self) -> bool {
        (&self.name, &self.entry, &self.sets) == (&other.name, &other.entry, &other.sets)
    }
}

impl Receiver {
    /// `None` if the entry is not valid. A configuration with such an entry is refused when it is read.
    fn new(entry: &NotificationEntry, config: &Config) -> Option<Self> {
        let mut layers = GlobSetBuilder::new();
        for pattern in &entry.layers {
            layers.add(Glob::new(pattern).ok()?);
        }
        let layers = layers.build().ok()?;
        let sets = config.layers.iter().filter(|(_, layer)| layer.entry.path.is_none());
        let sets = sets.map(|(name, _)| name.clone()).filter(|name| layers.is_match(name));
        let sets = sets.collect();
        Some(Self { name: entry.receiver()?, entry: entry.clone(), layers, sets })
    }

    /// Whether it is told about this event of this layer.
    pub(super) fn wants(&self, event: NotificationEvent, layer: &LayerName) -> bool {
        // The breaker stops the applies of all layers.
        let is_for_all = event == NotificationEvent::Breaker || self.entry.layers.is_empty();
        self.entry.on.contains(&event) && (is_for_all || self.is_about(layer.as_str()))
    }

    fn is_about(&self, layer: &str) -> bool {
        let is_member = |set: &String| {
            let rest = layer.strip_prefix(set.as_str());
            set.is_empty() || rest.is_some_and(|rest| rest.starts_with('.'))
        };
        self.layers.is_match(layer) || self.sets.iter().any(is_member)
    }
}

/// The receivers of a configuration, by name.
pub(super) fn receivers(config: &Config) -> BTreeMap<String, Arc<Receiver>> {
    let all = config.notifications.iter();
    let valid = all.filter_map(|placed| Receiver::new(&placed.entry, config));
    valid.map(|receiver| (receiver.name.clone(), Arc::new(receiver))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::NotificationEvent::{Breaker, Drift, Failed};
    use crate::config::parse;

    #[test]
    fn receiver_is_told_about_its_layers_and_events() {
        let text = "repositories: {r: {url: 'file:///r'}}
layers:
  net-prod: {repository: r, path: net}
  net-dev: {repository: r, path: dev}
  apps: {repository: r, paths: ['*']}
notifications:
  - {name: all, url-file: /u, format: slack, on: [failed, drift]}
  - {name: some, url-file: /u, format: slack, on: [failed, breaker], layers: ['*-prod', apps]}
";
        let config = parse(&[("a.yaml".into(), text.to_owned())]).unwrap();
        let known = receivers(&config);
        for (receiver, event, layer, expected) in [
            ("all", Failed, "net-dev", true),
            ("all", Drift, "other", true),
            ("all", Breaker, "net-dev", false),
            ("some", Failed, "net-prod", true),
            ("some", Failed, "net-dev", false),
            ("some", Failed, "apps.envs.web", true),
            ("some", Failed, "appsx.envs.web", false),
            ("some", Drift, "net-prod", false),
            ("some", Breaker, "net-dev", true),
        ] {
            let wants = known[receiver].wants(event, &layer.parse().unwrap());
            assert_eq!(wants, expected, "{receiver} {event:?} {layer}");
        }
        // A reload that changes nothing does not disturb a delivery.
        assert!(receivers(&config) == known);
    }
}
