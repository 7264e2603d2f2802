//! Callback tokens, which a registry keeps only as hashes.

use std::fmt;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// The SHA-256 of a callback token. Two of them are compared in constant time.
#[derive(Clone, Copy)]
pub struct TokenHash([u8; 32]);

impl TokenHash {
    /// The hash of `token`.
    #[must_use]
    pub fn of(token: &str) -> Self {
        Self(Sha256::digest(token.as_bytes()).into())
    }
}

impl PartialEq for TokenHash {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for TokenHash {}

/// In hexadecimal, to be stored.
impl fmt::Display for TokenHash {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&hex::encode(self.0))
    }
}

impl Serialize for TokenHash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TokenHash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut bytes = [0; 32];
        let text = String::deserialize(deserializer)?;
        hex::decode_to_slice(text, &mut bytes).map_err(D::Error::custom)?;
        Ok(Self(bytes))
    }
}

impl fmt::Debug for TokenHash {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("TokenHash(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_is_equal_only_to_that_of_the_same_token_and_is_not_printed() {
        let hash = TokenHash::of("brce_1");
        let stored = serde_json::to_string(&hash).unwrap();
        assert_eq!(hash, serde_json::from_str(&stored).unwrap());
        assert!(serde_json::from_str::<TokenHash>("\"ab\"").is_err());
        assert_ne!(hash, TokenHash::of("brce_2"));
        assert_eq!(format!("{hash:?}"), "TokenHash(…)");
    }
}
