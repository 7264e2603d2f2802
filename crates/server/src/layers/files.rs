//! What a layer's configuration says about the files that it needs.

use serde_json::Value;

use crate::config::{Checkout, EnvironmentValue, LayerEntry};
use crate::mirror::{Dependencies, LayerFiles};

/// The files of the layer at `path`; `triggers` are those that match its triggers.
#[must_use]
pub fn layer_files<'a>(
    entry: &'a LayerEntry,
    path: &'a str,
    triggers: &'a Dependencies,
) -> LayerFiles<'a> {
    let mut values = Vec::new();
    for value in entry.variables.values() {
        add_texts(value, &mut values);
    }
    for value in entry.env.values() {
        if let EnvironmentValue::Text(text) = value {
            values.push(text.as_str());
        }
    }
    LayerFiles {
        path,
        values,
        triggers: (!entry.triggers.is_empty()).then_some(triggers),
        is_terragrunt: entry.is_terragrunt(),
        is_full: entry.checkout == Some(Checkout::Full),
    }
}

/// Adds all texts in a value. Values of configuration files are not nested deep.
fn add_texts<'a>(value: &'a Value, texts: &mut Vec<&'a str>) {
    match value {
        Value::String(text) => texts.push(text),
        Value::Array(values) => values.iter().for_each(|value| add_texts(value, texts)),
        Value::Object(members) => members.values().for_each(|value| add_texts(value, texts)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
