//! State locks and their holders, and how both are described to users.

use serde::{Deserialize, Serialize};

/// The longest id of a lock that can be removed. Terraform's own ids are UUIDs or numbers.
const MAX_ID: usize = 200;

/// The holder of a lock.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
pub struct Holder {
    /// `user@host`.
    pub who: String,
    /// The operation, such as `OperationTypeApply`.
    pub operation: String,
    /// The time, as the tool prints it.
    pub created: String,
}

/// A lock on a state, as far as the backend reports it.
#[derive(Clone, Debug, Default, Eq, PartialEq, Deserialize, Serialize)]
pub struct StateLock {
    /// The argument of `force-unlock`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The holder.
    #[serde(flatten)]
    pub holder: Option<Holder>,
}

impl StateLock {
    /// Whether this is the lock with the id `id`.
    #[must_use]
    pub fn has_id(&self, id: &LockId) -> bool {
        self.id.as_deref() == Some(id.as_str())
    }

    /// The texts, to mask them.
    pub fn texts_mut(&mut self) -> impl Iterator<Item = &mut String> {
        let holder = self.holder.as_mut();
        let of_holder = holder.map(|Holder { who, operation, created }| [who, operation, created]);
        self.id.iter_mut().chain(of_holder.into_iter().flatten())
    }
}

impl std::fmt::Display for StateLock {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (&self.holder, &self.id) {
            (Some(holder), id) => {
                let Holder { who, operation, created } = holder;
                write!(formatter, "the state is locked by {who} since {created} ({operation}")?;
                id.as_ref().map_or(Ok(()), |id| write!(formatter, ", id {id}"))?;
                formatter.write_str(")")
            }
            (None, Some(id)) if is_workspace(id) => {
                write!(formatter, "the workspace `{id}` is locked, by a person or by another run")
            }
            (None, Some(id)) => {
                write!(
                    formatter,
                    "the state is locked (id {id}; its backend does not report the holder)"
                )
            }
            (None, None) => {
                formatter.write_str("the state is locked; its backend does not report the holder")
            }
        }
    }
}

/// Whether an id is that of a locked workspace. With `cloud` and `remote`, the tool prints `ORGANIZATION/WORKSPACE` and
/// not the holder.
fn is_workspace(id: &str) -> bool {
    id.split_once('/').is_some_and(|(organization, workspace)| {
        !organization.is_empty() && !workspace.is_empty() && !workspace.contains('/')
    })
}

/// The id of a lock that is to be removed. It can be an argument of the tool, and a part of a command that a user
/// copies into a shell.
#[derive(Clone, Debug, Eq, Hash, PartialEq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct LockId(String);

/// A text is not the id of a lock.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "the id of a state lock must begin with a letter or digit, followed by at most 199 letters, digits and \
     characters of `._:/+=@-`"
)]
pub struct InvalidLockId;

impl LockId {
    /// The id.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for LockId {
    type Error = InvalidLockId;

    fn try_from(text: String) -> Result<Self, InvalidLockId> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._:/+=@-".contains(&byte);
        let begins = text.starts_with(|first: char| first.is_ascii_alphanumeric());
        let is_valid = begins && text.len() <= MAX_ID && text.bytes().all(is_plain);
        is_valid.then_some(Self(text)).ok_or(InvalidLockId)
    }
}

impl std::str::FromStr for LockId {
    type Err = InvalidLockId;

    fn from_str(text: &str) -> Result<Self, InvalidLockId> {
        text.to_owned().try_into()
    }
}

impl From<LockId> for String {
    fn from(id: LockId) -> Self {
        id.0
    }
}

impl std::fmt::Display for LockId {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_of_a_lock_is_neither_an_option_nor_syntax_of_a_shell() {
        let id = |text: &str| text.parse::<LockId>().map(String::from);
        for text in ["8b6983e4-417d-c2a2-6a53-5f0f8f674b40", "1763757180933409", "a/b+c=", "x"] {
            assert_eq!(id(text).as_deref(), Ok(text));
        }
        for text in [
            "",
            "-lock=false",
            "--help",
            "a b",
            "a\n",
            "\u{1b}[1m",
            "ä",
            "a;b",
            "$(a)",
            "a`b`",
            "=a",
        ] {
            assert_eq!(id(text), Err(InvalidLockId), "{text:?}");
        }
        assert!(id(&"x".repeat(MAX_ID)).is_ok());
        assert_eq!(id(&"x".repeat(MAX_ID + 1)), Err(InvalidLockId));
        assert!(serde_json::from_str::<LockId>(r#""-x""#).is_err());
    }

    #[test]
    fn json_of_a_lock_has_only_what_the_backend_reports() {
        let holder = Holder { who: "a@b".into(), operation: "o".into(), created: "c".into() };
        for (lock, json) in [
            (StateLock::default(), "{}"),
            (StateLock { id: Some("x".into()), holder: None }, r#"{"id":"x"}"#),
            (
                StateLock { id: Some("x".into()), holder: Some(holder) },
                r#"{"id":"x","who":"a@b","operation":"o","created":"c"}"#,
            ),
        ] {
            assert_eq!(serde_json::to_string(&lock).unwrap(), json);
            assert_eq!(serde_json::from_str::<StateLock>(json).unwrap(), lock);
        }
        let incomplete = r#"{"id": "x", "who": "a@b", "more": 1}"#;
        let lock: StateLock = serde_json::from_str(incomplete).unwrap();
        assert_eq!(lock, StateLock { id: Some("x".into()), holder: None });
    }
}
