//! The `Idempotency-Key` of a request: every attempt of the same request has the same key.
//!
//! The key is derived from the beginning of the body, its length, and a random value of this process.
//! Two different bodies of a process never share a key: log batches begin with the number of their first
//! line, and no two forms of other bodies are equally long. It is
//! keyed with the callback token, so that the key does not reveal what was sent.

use std::sync::LazyLock;

use hmac::{HmacReset, KeyInit as _, Mac as _};
use secrecy::{ExposeSecret, SecretString};
use sha2::Sha256;

use super::body::Part;
use super::{Body, Callback};

/// How many bytes of the body the key depends on: all of most statuses.
const BEGINNING: usize = 4096;

/// Distinguishes the requests of two processes that execute the same run one after the other.
static PROCESS: LazyLock<u128> = LazyLock::new(|| fastrand::u128(..));

/// The key of `body` at `callback`: the callback's name and 32 hexadecimal digits.
pub(super) fn idempotency_key(token: &SecretString, callback: Callback, body: &Body) -> String {
    let mac = HmacReset::<Sha256>::new_from_slice(token.expose_secret().as_bytes());
    // It buffers the end of what it gets, which can be a secret output. On the heap, the allocator zeroes it.
    let mut mac = Box::new(mac.expect("an HMAC takes a key of any length"));
    mac.update(&PROCESS.to_le_bytes());
    mac.update(callback.name().as_bytes());
    mac.update(b"\0");
    mac.update(&body.length().to_le_bytes());
    let mut left = BEGINNING;
    for part in body.parts() {
        if let Part::Bytes(bytes) = part {
            let beginning = &bytes[..bytes.len().min(left)];
            mac.update(beginning);
            left -= beginning.len();
        }
    }
    // Not `finalize`, which moves it to the stack.
    let digest = mac.finalize_reset().into_bytes();
    format!("{}-{}", callback.name(), hex::encode(&digest[..16]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idempotency_key_depends_on_token_callback_and_body() {
        let (one, other) = (SecretString::from("brce_1"), SecretString::from("brce_2"));
        let key = idempotency_key(&one, Callback::Logs, &Body::from("{}"));
        assert_eq!(key, idempotency_key(&one, Callback::Logs, &Body::from("{}")));
        assert_eq!(key.len(), "logs-".len() + 32);
        for different in [
            idempotency_key(&one, Callback::Logs, &Body::from("{ }")),
            idempotency_key(&one, Callback::Plan, &Body::from("{}")),
            idempotency_key(&other, Callback::Logs, &Body::from("{}")),
        ] {
            assert_ne!(key, different);
        }
    }

    #[test]
    fn idempotency_key_depends_on_beginning_and_length_of_the_body() {
        let token = SecretString::from("brce_1");
        let key = |body: Body| idempotency_key(&token, Callback::Plan, &body);
        let lines = |first: u32| format!("{{\"logs\":[{{\"sequence\":{first}}}").into_bytes();
        let file = |end| {
            let path = std::sync::Arc::new("/nonexistent".into());
            Part::File { path, place: 0..end }
        };
        let long = [lines(1), vec![b' '; 2 * BEGINNING]].concat();
        let longer = [&*long, b" "].concat();
        let other = [lines(2), vec![b' '; 2 * BEGINNING]].concat();
        let known = key(Body::from(long.clone()));
        assert_eq!(known, key(Body::from(long)));
        assert_ne!(known, key(Body::from(longer)));
        assert_ne!(known, key(Body::from(other)));
        assert_ne!(key(Body::from(vec![file(10)])), key(Body::from(vec![file(11)])));
        let form = |bytes: &'static str| vec![Part::Bytes(bytes.into()), file(10)];
        assert_ne!(key(Body::from(form("{"))), key(Body::from(form("["))));
    }
}
