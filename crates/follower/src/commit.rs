//! The commit that a follower delivers.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The letters that a table shows of a commit.
const SHORT: usize = 12;

/// The full name of a commit: 40 (SHA-1) or 64 (SHA-256) lowercase hexadecimal digits.
#[derive(
    Clone, Debug, Deserialize, Eq, Hash, JsonSchema, Ord, PartialEq, PartialOrd, Serialize,
)]
#[schemars(with = "String", inline)]
#[serde(try_from = "String", into = "String")]
pub struct Commit(String);

/// A text that is not a full commit.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the commit `{0}`: a commit has 40 or 64 hexadecimal digits")]
pub struct CommitError(String);

impl Commit {
    /// Reads a full commit. Uppercase digits become lowercase.
    ///
    /// # Errors
    /// The text is an abbreviation, a branch, or not hexadecimal.
    pub fn parse(text: &str) -> Result<Self, CommitError> {
        let is_hexadecimal = text.bytes().all(|byte| byte.is_ascii_hexdigit());
        if is_hexadecimal && matches!(text.len(), 40 | 64) {
            Ok(Self(text.to_ascii_lowercase()))
        } else {
            Err(CommitError(crate::text::shorten(text, 100)))
        }
    }

    /// All digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The first digits, for people.
    #[must_use]
    pub fn short(&self) -> &str {
        &self.0[..SHORT]
    }
}

impl TryFrom<String> for Commit {
    type Error = CommitError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text)
    }
}

impl From<Commit> for String {
    fn from(commit: Commit) -> Self {
        commit.0
    }
}

impl fmt::Display for Commit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn abbreviations_and_branches_are_not_commits() {
        for text in ["", "main", "abc1234", &"g".repeat(40), &"a".repeat(41)] {
            assert!(Commit::parse(text).is_err(), "{text}");
        }
        let commit = Commit::parse(&"AB".repeat(20)).unwrap();
        assert_eq!(commit.as_str(), "ab".repeat(20));
        assert_eq!(commit.short(), "abababababab");
        assert!(Commit::parse(&"0".repeat(64)).is_ok());
    }
}
