//! The keys of a mapping, each of which is taken once.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// The keys of a mapping that were not taken yet.
#[derive(Clone, Debug, Default)]
pub(super) struct Fields(Map<String, Value>);

impl Fields {
    pub(super) const fn new(map: Map<String, Value>) -> Self {
        Self(map)
    }

    pub(super) fn take(&mut self, key: &str) -> Option<Value> {
        self.0.remove(key).filter(|value| !value.is_null())
    }

    pub(super) fn put(&mut self, key: &str, value: Value) {
        self.0.insert(key.to_owned(), value);
    }

    /// Leaves a value that is not a text, so that it becomes a note.
    pub(super) fn text(&mut self, key: &str) -> Option<String> {
        let text = match self.0.get(key)? {
            Value::String(text) => text.clone(),
            // YAML reads the version 1.9 as a number.
            Value::Number(number) => number.to_string(),
            _ => return None,
        };
        self.0.remove(key);
        Some(text).filter(|text| !text.is_empty())
    }

    pub(super) fn boolean(&mut self, key: &str) -> Option<bool> {
        let found = match self.0.get(key)? {
            Value::String(text) => match text.to_ascii_lowercase().as_str() {
                "true" | "yes" | "on" => true,
                "false" | "no" | "off" => false,
                _ => return None,
            },
            other => other.as_bool()?,
        };
        self.0.remove(key);
        Some(found)
    }

    pub(super) fn number(&mut self, key: &str) -> Option<u64> {
        let found = self.0.get(key)?.as_u64()?;
        self.0.remove(key);
        Some(found)
    }

    pub(super) fn texts(&mut self, key: &str) -> Option<Vec<String>> {
        let texts = self.0.get(key)?.as_array()?.iter();
        let texts: Option<Vec<_>> = texts.map(|text| text.as_str().map(str::to_owned)).collect();
        self.0.remove(key);
        texts
    }

    /// A mapping; an empty one if it is missing.
    pub(super) fn fields(&mut self, key: &str) -> Self {
        match self.0.get_mut(key) {
            Some(Value::Object(map)) => {
                let map = std::mem::take(map);
                self.0.remove(key);
                Self(map)
            }
            _ => Self::default(),
        }
    }

    /// The mappings of a list.
    pub(super) fn list(&mut self, key: &str) -> Option<Vec<Self>> {
        let items = self.0.get(key)?.as_array()?.iter();
        let items: Option<Vec<_>> = items.map(|item| item.as_object().cloned().map(Self)).collect();
        self.0.remove(key);
        items
    }

    /// The items of a list that are mappings of one key, with this key. Other items are left out.
    pub(super) fn named(&mut self, key: &str) -> Vec<(String, Self)> {
        let Some(Value::Array(items)) = self.0.remove(key) else { return Vec::new() };
        let maps = items.into_iter().filter_map(|item| match item {
            Value::Object(map) => map.into_iter().next(),
            _ => None,
        });
        maps.map(|(name, value)| match value {
            Value::Object(map) => (name, Self(map)),
            _ => (name, Self::default()),
        })
        .collect()
    }

    /// One note for each key that was not taken: `NAME: key: why`.
    pub(super) fn rest(self, notes: &mut BTreeSet<String>, name: &str, below: &str, why: &str) {
        for (key, value) in self.0 {
            if !value.is_null() {
                notes.insert(format!("{name}: `{below}{key}`: {why}"));
            }
        }
    }
}
