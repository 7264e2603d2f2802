//! The keys of a mapping, each of which is taken once. Scalars are texts as they are written.

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

    /// Takes the text of a key, also an empty one. Leaves a value that is not a text, so that it becomes a note.
    pub(super) fn given(&mut self, key: &str) -> Option<String> {
        let text = self.0.get(key)?.as_str()?.to_owned();
        self.0.remove(key);
        Some(text)
    }

    /// Takes the text of a key, as [`Self::given`]. An empty text is the same as a missing key.
    pub(super) fn text(&mut self, key: &str) -> Option<String> {
        self.given(key).filter(|text| !text.is_empty())
    }

    /// The text of a key. Leaves the key.
    pub(super) fn peek(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.as_str()
    }

    pub(super) fn boolean(&mut self, key: &str) -> Option<bool> {
        let found = flag(self.0.get(key)?.as_str()?)?;
        self.0.remove(key);
        Some(found)
    }

    pub(super) fn number(&mut self, key: &str) -> Option<u64> {
        let found = self.0.get(key)?.as_str()?.parse().ok()?;
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

    /// One note for each key that was not taken: `NAME: key: why`.
    pub(super) fn rest(self, notes: &mut BTreeSet<String>, name: &str, below: &str, why: &str) {
        for (key, value) in self.0 {
            if !value.is_null() {
                notes.insert(format!("{name}: `{below}{key}`: {why}"));
            }
        }
    }
}

/// The boolean that other tools read, also in the words of YAML 1.1.
pub(super) fn flag(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" | "y" => Some(true),
        "false" | "no" | "off" | "n" => Some(false),
        _ => None,
    }
}
