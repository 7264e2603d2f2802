//! The configuration that is made.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

/// The configuration that is made.
#[derive(Debug, Default)]
pub(super) struct Output {
    pub(super) repositories: BTreeMap<String, Value>,
    pub(super) layers: BTreeMap<String, Map<String, Value>>,
    pub(super) notes: BTreeSet<String>,
}

/// Sets a key if there is a value for it.
pub(super) fn set(layer: &mut Map<String, Value>, key: &str, value: Option<impl Into<Value>>) {
    if let Some(value) = value {
        layer.insert(key.to_owned(), value.into());
    }
}

impl Output {
    /// Without repositories and layers, it says only that.
    pub(super) fn into_yaml(self) -> Result<(String, BTreeSet<String>), String> {
        let Self { repositories, layers, notes } = self;
        let mut text = String::new();
        for note in &notes {
            text.push_str("# ");
            // A text of the other tool must not end the comment.
            text.extend(note.chars().map(|c| if c.is_control() { ' ' } else { c }));
            text.push('\n');
        }
        let document = json!({"repositories": repositories, "layers": layers});
        let yaml = serde_saphyr::to_string(&document).map_err(|error| error.to_string())?;
        Ok((text + &yaml, notes))
    }
}
