//! The values of a configuration that can be of any type, as they are written.
//!
//! A key that is a text gets the text that is written, because its type says so. `variables`, `backend.config` and `env`
//! have no such type: the parser makes a number of `010` and a boolean of `no`. So they are read again as they are
//! written.

use butler_base::yaml;
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::document::{Document, EnvironmentValue, LayerEntry, SecretSource};

/// Replaces values whose text was lost while `document` was read from `text`.
///
/// # Errors
/// If a value cannot be kept as it is written.
pub(super) fn restore(document: &mut Document, text: &str) -> Result<(), serde_saphyr::Error> {
    let (values, texts) = (yaml::values(text)?, yaml::texts(text)?);
    // Only one document was read. It can be empty.
    let (Some(values), Some(texts)) = (values.first(), texts.first()) else { return Ok(()) };
    let layers = document.layers.iter_mut();
    let layers = layers
        .map(|(name, entry)| (&mut entry.value, &values["layers"][name], &texts["layers"][name]));
    let defaults = document.defaults.iter_mut();
    let defaults =
        defaults.map(|entry| (&mut entry.value, &values["defaults"], &texts["defaults"]));
    for (entry, values, texts) in layers.chain(defaults) {
        restore_layer(entry, values, texts);
    }
    Ok(())
}

fn restore_layer(entry: &mut LayerEntry, values: &Value, texts: &Value) {
    for (name, value) in &mut entry.variables {
        value.clone_from(&values["variables"][name]);
    }
    for (name, value) in entry.backend.iter_mut().flat_map(|backend| &mut backend.config) {
        value.clone_from(&values["backend"]["config"][name]);
    }
    for (name, value) in &mut entry.env {
        if let (EnvironmentValue::Text(value), Some(text)) = (value, texts["env"][name].as_str()) {
            text.clone_into(value);
        }
    }
}

impl<'de> Deserialize<'de> for EnvironmentValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextOrSecret)
    }
}

/// Reads an [`EnvironmentValue`]. [`restore`] makes its text the one that is written.
struct TextOrSecret;

impl<'de> Visitor<'de> for TextOrSecret {
    type Value = EnvironmentValue;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("a text, `{file: PATH}` or `{env: NAME}`")
    }

    fn visit_str<E>(self, text: &str) -> Result<EnvironmentValue, E> {
        Ok(EnvironmentValue::Text(text.to_owned()))
    }

    fn visit_bool<E>(self, value: bool) -> Result<EnvironmentValue, E> {
        Ok(EnvironmentValue::Text(value.to_string()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<EnvironmentValue, E> {
        Ok(EnvironmentValue::Text(value.to_string()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<EnvironmentValue, E> {
        Ok(EnvironmentValue::Text(value.to_string()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<EnvironmentValue, E> {
        Ok(EnvironmentValue::Text(value.to_string()))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<EnvironmentValue, A::Error> {
        SecretSource::deserialize(MapAccessDeserializer::new(map)).map(EnvironmentValue::Secret)
    }
}
