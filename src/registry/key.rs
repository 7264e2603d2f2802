//! The `Idempotency-Key` of what is posted: the same however often the same thing is sent.
//!
//! It is derived from what is sent, so that two different things never share one, and keyed with
//! the callback token, so that nobody who sees it can guess at what was sent.

use futures_util::StreamExt;
use hmac::{Hmac, KeyInit as _, Mac as _};
use secrecy::{ExposeSecret, SecretString};
use sha2::Sha256;

use super::{Body, Callback};

/// The key of `body` at `callback`: the callback's name and 32 hexadecimal digits.
pub(super) async fn idempotency_key(
    token: &SecretString,
    callback: Callback,
    body: &Body,
) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(token.expose_secret().as_bytes())
        .expect("an HMAC takes a key of any length");
    mac.update(callback.name().as_bytes());
    mac.update(b"\0");
    let mut chunks = std::pin::pin!(body.read());
    // One that cannot be read to its end is not sent either.
    while let Some(Ok(chunk)) = chunks.next().await {
        mac.update(&chunk);
    }
    let digest = mac.finalize().into_bytes();
    format!("{}-{}", callback.name(), hex::encode(&digest[..16]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_key_belongs_to_one_thing_of_one_run() {
        let (one, other) = (SecretString::from("brce_1"), SecretString::from("brce_2"));
        let key = idempotency_key(&one, Callback::Logs, &Body::from("{}")).await;
        assert_eq!(key, idempotency_key(&one, Callback::Logs, &Body::from("{}")).await);
        assert_eq!(key.len(), "logs-".len() + 32);
        for different in [
            idempotency_key(&one, Callback::Logs, &Body::from("{ }")).await,
            idempotency_key(&one, Callback::Plan, &Body::from("{}")).await,
            idempotency_key(&other, Callback::Logs, &Body::from("{}")).await,
        ] {
            assert_ne!(key, different);
        }
    }
}
