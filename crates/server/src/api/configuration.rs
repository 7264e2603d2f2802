//! The configuration of a layer that is in force, without values of secrets.
//!
//! A secret that the configuration names stays as it is written: `{file: PATH}` or `{env: NAME}`. Plain
//! values of `env` are hidden, and so are other plain values whose names are those of secrets, because
//! viewers read this.

use butler_protocol::backend::is_public_setting;
use serde_json::{Map, Value, json};
use url::Url;

use super::error::ApiError;
use crate::config::{SecretSource, Span};
use crate::layers::LayerSource;

/// What is shown instead of a value.
const HIDDEN: &str = "***";

/// Parts of the names of secrets.
const SECRET_WORDS: [&str; 6] = ["auth", "credential", "key", "pass", "secret", "token"];

/// The configuration of a layer, with what it has from defaults.
pub(crate) fn in_force(source: &LayerSource) -> Result<Value, ApiError> {
    let entry = serde_json::to_value(&*source.entry).map_err(|error| ApiError::internal(&error))?;
    let Value::Object(mut entry) = entry else { return Ok(entry) };
    let layer = &source.configured.layer;
    entry.remove("paths");
    entry.insert("repository".to_owned(), json!(source.configured.repository));
    entry.insert("ref".to_owned(), json!(source.reference));
    entry.insert("path".to_owned(), json!(source.path));
    entry.insert("strategy".to_owned(), json!(layer.strategy));
    entry.insert("after".to_owned(), json!(layer.after));
    entry.insert("retries".to_owned(), json!({"max": layer.most_attempts}));
    let timeouts = (Span(layer.timeouts.plan), Span(layer.timeouts.apply));
    entry.insert("timeout".to_owned(), json!({"plan": timeouts.0, "apply": timeouts.1}));
    entry.insert("plan-lifetime".to_owned(), json!(Span(layer.plan_lifetime)));
    if let Some(drift) = &layer.drift {
        entry["drift"]["every"] = json!(Span(drift.every));
        entry["drift"]["repair"] = drift.repair.into();
        entry["drift"]["compare"] = json!(drift.compare);
    }
    if let Some(Value::Object(values)) = entry.get_mut("env") {
        hide(values, &|_| false);
    }
    if let Some(Value::Object(values)) = entry.get_mut("variables") {
        hide_variables(values);
    }
    if let Some(Value::Object(settings)) =
        entry.get_mut("backend").and_then(|it| it.get_mut("config"))
    {
        hide(settings, &is_public_setting);
    }
    entry.retain(|_, value| !is_empty(value));
    Ok(Value::Object(entry))
}

/// Whether the name of a variable is that of a secret.
fn looks_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRET_WORDS.iter().any(|word| name.contains(word))
}

/// Hides the values of variables whose names are those of secrets, with everything in them, and texts
/// that contain a password.
fn hide_variables(values: &mut Map<String, Value>) {
    for (name, value) in values {
        if looks_secret(name) {
            *value = HIDDEN.into();
        } else {
            hide_in_variable(value);
        }
    }
}

fn hide_in_variable(value: &mut Value) {
    match value {
        Value::Object(members) => hide_variables(members),
        Value::Array(items) => items.iter_mut().for_each(hide_in_variable),
        Value::String(text) if has_password(text) => *value = HIDDEN.into(),
        _ => {}
    }
}

/// Whether a text is a URL with a password.
fn has_password(text: &str) -> bool {
    Url::parse(text).is_ok_and(|url| url.password().is_some())
}

/// Hides the plain values whose names are not public.
fn hide(values: &mut Map<String, Value>, is_public: &dyn Fn(&str) -> bool) {
    for (name, value) in values {
        if SecretSource::in_backend(value).is_some() {
            continue;
        }
        match value {
            Value::Object(members) => hide(members, is_public),
            Value::Null => {}
            value if !is_public(name) => *value = HIDDEN.into(),
            Value::Array(items) => {
                for item in items.iter_mut().filter_map(Value::as_object_mut) {
                    hide(item, is_public);
                }
            }
            _ => {}
        }
    }
}

/// Whether a value says nothing.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.values().all(is_empty),
        _ => false,
    }
}
