//! Replaces every registered secret by `***`, in one pass over the bytes whatever their number.

use std::sync::{Arc, Mutex, PoisonError};

use aho_corasick::AhoCorasick;
use secrecy::{ExposeSecret, SecretString};

/// What stands in for a secret.
pub(super) const MASK: &str = "***";

/// Shorter values (and shorter lines of a value) cannot be masked: `a` would eat half the log.
const SHORTEST: usize = 4;

/// The secrets of a run, shared by everything that shows text.
#[derive(Debug, Default)]
pub struct Redactor {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    secrets: Vec<SecretString>,
    patterns: Option<Arc<AhoCorasick>>,
}

impl std::fmt::Debug for State {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} secrets", self.secrets.len())
    }
}

impl Redactor {
    /// A redactor that knows no secret yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers secrets; from now on none of them gets through. Of a value with several lines,
    /// each line counts, because the log is made of lines.
    pub fn register<'a>(&self, secrets: impl IntoIterator<Item = &'a SecretString>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        for secret in secrets {
            for line in secret.expose_secret().lines().map(str::trim) {
                if line.len() >= SHORTEST {
                    state.secrets.push(SecretString::from(line));
                }
            }
        }
        state.patterns = AhoCorasick::builder()
            .match_kind(aho_corasick::MatchKind::LeftmostLongest)
            .build(state.secrets.iter().map(ExposeSecret::expose_secret))
            .map(Arc::new)
            .ok();
    }

    /// `text` without secrets, as valid UTF-8 without NUL: what is neither becomes U+FFFD.
    #[must_use]
    pub fn redact(&self, text: &[u8]) -> String {
        let patterns = self.state.lock().unwrap_or_else(PoisonError::into_inner).patterns.clone();
        let masked = match &patterns {
            Some(patterns) if patterns.is_match(text) => {
                let mut masked = Vec::with_capacity(text.len());
                patterns.replace_all_with_bytes(text, &mut masked, |_, _, masked| {
                    masked.extend_from_slice(MASK.as_bytes());
                    true
                });
                masked
            }
            _ => text.to_vec(),
        };
        let text = String::from_utf8(masked)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
        if text.contains('\0') { text.replace('\0', "\u{fffd}") } else { text }
    }

    /// How many bytes of the beginning of a line can be shown before its end is known: no secret
    /// and no character is cut in two.
    #[must_use]
    pub fn showable(&self, pending: &[u8]) -> usize {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut end = match std::str::from_utf8(pending) {
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            _ => pending.len(),
        };
        for secret in &state.secrets {
            let secret = secret.expose_secret().as_bytes();
            for length in (1..secret.len().min(pending.len() + 1)).rev() {
                if pending.ends_with(&secret[..length]) {
                    end = end.min(pending.len() - length);
                    break;
                }
            }
        }
        end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_never_get_through() {
        let redactor = Redactor::new();
        redactor.register(&[
            SecretString::from("hunter22"),
            SecretString::from("first line\nsecond line"),
        ]);
        assert_eq!(redactor.redact(b"password=hunter22;"), "password=***;");
        assert_eq!(redactor.redact(b"second line"), "***");
        assert_eq!(redactor.redact(b"a\0b\xff"), "a\u{fffd}b\u{fffd}");
        assert_eq!(redactor.showable(b"password=hunt"), "password=".len());
        assert_eq!(redactor.showable(b"password="), "password=".len());
    }
}
