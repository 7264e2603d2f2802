//! Tokens and one-time codes with which browsers sign in.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use butler_registry::TokenHash;
use secrecy::{ExposeSecret, SecretString};
use tokio::sync::Semaphore;

/// How long the one-time code is valid.
const CODE: Duration = Duration::from_mins(10);

/// How long the answer to a wrong token takes.
const DELAY: Duration = Duration::from_secs(1);

/// How many answers to wrong tokens are delayed at the same time. Further ones are refused at once.
const DELAYED: usize = 8;

/// What is needed to sign browsers in.
#[derive(Debug)]
pub struct SignIns {
    code: Mutex<Option<Code>>,
    delayed: Semaphore,
}

/// A code with which one browser can sign in.
#[derive(Debug)]
struct Code {
    hash: TokenHash,
    made: Instant,
}

impl Default for SignIns {
    fn default() -> Self {
        Self { code: Mutex::default(), delayed: Semaphore::new(DELAYED) }
    }
}

impl SignIns {
    /// Makes a code of 128 bits with which one browser on this machine can sign in within ten minutes. It
    /// replaces an earlier one.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub fn new_code(&self) -> std::io::Result<SecretString> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
        let code = SecretString::from(hex::encode(bytes));
        let hash = TokenHash::of(code.expose_secret());
        *self.code.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(Code { hash, made: Instant::now() });
        Ok(code)
    }

    /// Whether `given` is the code. It is used up then.
    pub(crate) fn use_code(&self, given: &str, now: Instant) -> bool {
        let mut code = self.code.lock().unwrap_or_else(PoisonError::into_inner);
        let is_valid = |code: &mut Code| {
            code.hash == TokenHash::of(given) && now.duration_since(code.made) < CODE
        };
        code.take_if(is_valid).is_some()
    }

    /// Delays the answer to a wrong token. Returns `false` at once if too many are delayed already.
    pub(crate) async fn delay(&self) -> bool {
        let Ok(_permit) = self.delayed.try_acquire() else { return false };
        tokio::time::sleep(DELAY).await;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_valid_once_for_ten_minutes_and_is_replaced_by_a_newer_one() {
        let (sign_ins, now) = (SignIns::default(), Instant::now());
        let code = |sign_ins: &SignIns| sign_ins.new_code().unwrap().expose_secret().to_owned();
        let first = code(&sign_ins);
        assert_eq!(first.len(), 32);
        assert!(!sign_ins.use_code("", now) && !sign_ins.use_code(&first[1..], now));
        assert!(sign_ins.use_code(&first, now));
        assert!(!sign_ins.use_code(&first, now));
        let (second, third) = (code(&sign_ins), code(&sign_ins));
        assert!(!sign_ins.use_code(&second, now));
        assert!(!sign_ins.use_code(&third, Instant::now() + CODE));
        assert!(sign_ins.use_code(&third, now));
    }

    #[tokio::test(start_paused = true)]
    async fn wrong_tokens_are_delayed_and_too_many_at_once_are_refused() {
        let sign_ins = SignIns::default();
        let began = tokio::time::Instant::now();
        let all = (0..=DELAYED).map(|_| sign_ins.delay());
        let delayed = futures_util::future::join_all(all).await;
        assert_eq!(delayed.iter().filter(|delayed| !**delayed).count(), 1);
        assert_eq!(began.elapsed(), DELAY);
        assert!(sign_ins.delay().await);
    }
}
