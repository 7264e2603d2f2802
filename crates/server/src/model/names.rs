//! Names and identities.

use std::fmt;

/// The name of a layer: 1 to 200 characters of `[A-Za-z0-9._-]`, but neither `.` nor `..`.
#[derive(
    Clone,
    Debug,
    Eq,
    Hash,
    Ord,
    PartialEq,
    PartialOrd,
    serde::Deserialize,
    serde::Serialize,
    schemars::JsonSchema,
)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String", inline)]
pub struct LayerName(String);

/// A text that cannot be the name of a layer.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "invalid layer name `{0}`: a name has 1 to 200 letters, digits, dots, underscores and hyphens, and is \
     neither `.` nor `..`"
)]
pub struct InvalidLayerName(String);

impl LayerName {
    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for LayerName {
    type Error = InvalidLayerName;

    fn try_from(name: String) -> Result<Self, InvalidLayerName> {
        let valid = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        // Names become those of files and directories.
        let is_path = matches!(&*name, "." | "..");
        if (1..=200).contains(&name.len()) && name.bytes().all(valid) && !is_path {
            Ok(Self(name))
        } else {
            Err(InvalidLayerName(name))
        }
    }
}

impl std::str::FromStr for LayerName {
    type Err = InvalidLayerName;

    fn from_str(name: &str) -> Result<Self, InvalidLayerName> {
        Self::try_from(name.to_owned())
    }
}

impl From<LayerName> for String {
    fn from(name: LayerName) -> Self {
        name.0
    }
}

impl fmt::Display for LayerName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// Declares an identity that is a text.
macro_rules! identity {
    ($(#[$documentation:meta])* $name:ident) => {
        $(#[$documentation])*
        #[derive(
            Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, serde::Deserialize, serde::Serialize,
            schemars::JsonSchema,
        )]
        #[serde(transparent)]
        #[schemars(inline)]
        pub struct $name(String);

        impl $name {
            /// Takes `text` as it is.
            pub fn new(text: impl Into<String>) -> Self {
                Self(text.into())
            }

            /// The identity as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(&self.0)
            }
        }
    };
}

identity! {
    /// The object id of a commit, in hexadecimal.
    Commit
}

identity! {
    /// The hash of the tree and blob ids of everything that a layer depends on at one commit. Two
    /// commits with the same digest are the same revision for the layer.
    Digest
}

identity! {
    /// The SHA-256 of a saved plan file, in hexadecimal.
    PlanDigest
}

identity! {
    /// Identifies a run.
    RunId
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layer_names_are_checked() {
        for valid in ["a", "network-prod", "apps.envs.prod_2.Web", &"x".repeat(200)] {
            assert_eq!(valid.parse::<LayerName>().unwrap().as_str(), valid);
        }
        for invalid in ["", ".", "..", "a b", "a/b", "ü", &"x".repeat(201)] {
            assert!(invalid.parse::<LayerName>().is_err(), "{invalid}");
        }
    }
}
