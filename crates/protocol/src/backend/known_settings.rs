//! The settings of a backend as far as they are known before a run.

use std::collections::BTreeMap;

use serde_json::Value;

/// The value of a setting.
#[derive(Clone, Copy)]
pub enum SettingValue<'a> {
    /// JSON text. `null` means that the setting is not given.
    Json(&'a str),
    /// A value that only Terraform can compute, or a reference that is not resolved yet.
    Unknown,
}

/// Settings by name. Values can be credentials, so there is no `Debug`.
pub(super) struct KnownSettings(BTreeMap<String, Setting>);

enum Setting {
    Known(Value),
    Unknown,
}

impl KnownSettings {
    pub(super) fn new<'a>(settings: impl IntoIterator<Item = (&'a str, SettingValue<'a>)>) -> Self {
        let mut known = BTreeMap::new();
        for (name, value) in settings {
            let setting = match value {
                SettingValue::Json(json) => match serde_json::from_str(json) {
                    Ok(Value::Null) => continue,
                    Ok(Value::String(text)) if text.is_empty() => continue,
                    Ok(value) => Setting::Known(value),
                    Err(_) => Setting::Unknown,
                },
                SettingValue::Unknown => Setting::Unknown,
            };
            known.insert(name.to_owned(), setting);
        }
        Self(known)
    }

    /// Whether the setting has a value that is not empty, known or not.
    pub(super) fn is_given(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// The text, number or boolean of a setting; `None` if it is missing or unknown.
    pub(super) fn required(&self, name: &str) -> Option<String> {
        match self.0.get(name)? {
            Setting::Known(Value::String(text)) => Some(text.clone()),
            Setting::Known(Value::Bool(value)) => Some(value.to_string()),
            Setting::Known(Value::Number(number)) => Some(number.to_string()),
            Setting::Known(_) | Setting::Unknown => None,
        }
    }

    /// The same with Terraform's default for a missing setting.
    pub(super) fn with_default(&self, name: &str, default: &str) -> Option<String> {
        if self.is_given(name) { self.required(name) } else { Some(default.to_owned()) }
    }

    /// A list of texts, or a single text as a list of one; `None` if it is missing or unknown.
    pub(super) fn texts(&self, name: &str) -> Option<Vec<String>> {
        match self.0.get(name)? {
            Setting::Known(Value::Array(values)) => {
                values.iter().map(|value| value.as_str().map(str::to_owned)).collect()
            }
            _ => Some(vec![self.required(name)?]),
        }
    }

    /// The members of an object or of a single block, empty if the setting is missing; `None` if it is
    /// unknown.
    pub(super) fn object(&self, name: &str) -> Option<Self> {
        let members = match self.0.get(name) {
            None => return Some(Self(BTreeMap::new())),
            Some(Setting::Known(Value::Object(members))) => members,
            Some(Setting::Known(Value::Array(blocks))) => match blocks.as_slice() {
                [Value::Object(members)] => members,
                _ => return None,
            },
            Some(_) => return None,
        };
        let is_given = |value: &Value| !value.is_null() && value.as_str() != Some("");
        let given = members.iter().filter(|(_, value)| is_given(value));
        Some(Self(given.map(|(key, it)| (key.clone(), Setting::Known(it.clone()))).collect()))
    }
}
