//! Callback tokens, which a registry keeps only as hashes.

use std::fmt;

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

    /// A hash that [`Self::as_bytes`] returned, as it was stored.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The hash, to be stored.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl PartialEq for TokenHash {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for TokenHash {}

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
        assert_eq!(hash, TokenHash::from_bytes(*TokenHash::of("brce_1").as_bytes()));
        assert_ne!(hash, TokenHash::of("brce_2"));
        assert_eq!(format!("{hash:?}"), "TokenHash(…)");
    }
}
