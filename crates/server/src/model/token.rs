//! The tokens of attempts.

use butler_registry::TokenHash;
use secrecy::{ExposeSecret, SecretString};

/// How many random bytes a token has.
const BYTES: usize = 32;

/// The token of one attempt, which it sends with each request. Only its process has it.
#[derive(Debug)]
pub struct AttemptToken(SecretString);

impl AttemptToken {
    /// A new token.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub fn random() -> std::io::Result<Self> {
        let mut bytes = [0; BYTES];
        getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
        Ok(Self(format!("brce_{}", hex::encode(bytes)).into()))
    }

    /// What the store keeps of it.
    #[must_use]
    pub fn hash(&self) -> TokenHash {
        TokenHash::of(self.0.expose_secret())
    }

    /// The token.
    #[must_use]
    pub const fn secret(&self) -> &SecretString {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_differ_and_only_their_hash_is_shown() {
        let (one, other) = (AttemptToken::random().unwrap(), AttemptToken::random().unwrap());
        assert_ne!(one.hash(), other.hash());
        assert!(one.secret().expose_secret().starts_with("brce_"));
        let shown = format!("{one:?} {:?}", one.hash());
        assert!(!shown.contains(one.secret().expose_secret()), "{shown}");
    }
}
