//! The identity of a state: which configurations share one state and so must not run at the same time.

use std::fmt::{self, Write};

use super::kind::BackendKind;
use super::known_settings::{KnownSettings, SettingValue};

/// The identity of a state. Two configurations share a state if their keys are equal. It contains no
/// credentials, so it may be logged and stored.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct StateKey(String);

impl StateKey {
    /// The key as text: the store and its parts, separated by `|`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for StateKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// The key of the state that a backend of the type `kind` has with these settings in `workspace` (empty or
/// `default` for the default one). The names of settings are Terraform's.
///
/// `None` if a setting that names the state is missing or unknown, or if the backend has no such workspace. The
/// environment is not read: a caller that gives Terraform settings there (`PG_CONN_STR`, `AWS_REGION`) has to
/// add them. Different names of one server, such as an address and its alias, lead to different keys.
#[must_use]
pub fn state_key<'a>(
    kind: &str,
    settings: impl IntoIterator<Item = (&'a str, SettingValue<'a>)>,
    workspace: &str,
) -> Option<StateKey> {
    let workspace = Some(workspace).filter(|name| !matches!(*name, "" | "default"));
    let parts = (BackendKind::of(kind).identity)(&KnownSettings::new(settings), workspace)?;
    let parts: Vec<_> = parts.iter().map(|part| escape(part)).collect();
    Some(StateKey(parts.join("|")))
}

/// Escapes what separates parts, so that two lists of parts never have the same text.
fn escape(part: &str) -> String {
    let mut escaped = String::with_capacity(part.len());
    for character in part.chars() {
        if matches!(character, '%' | '|') || character.is_control() {
            let _ = write!(escaped, "%{:02X}", u32::from(character));
        } else {
            escaped.push(character);
        }
    }
    escaped
}

#[cfg(test)]
#[path = "state_key_tests.rs"]
mod tests;
