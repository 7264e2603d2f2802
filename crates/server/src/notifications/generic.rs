//! The generic format: JSON, signed with HMAC-SHA256.

use hmac::{Hmac, KeyInit as _, Mac as _};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value, json};
use sha2::Sha256;

use super::message::Delivery;

/// The header with the signature of the body.
pub(super) const SIGNATURE: &str = "x-butler-signature-256";

/// The header with the id of the delivery.
pub(super) const DELIVERY: &str = "x-butler-delivery";

/// The header with the name of the event.
pub(super) const EVENT: &str = "x-butler-event";

/// The body of a delivery.
pub(super) fn body(delivery: &Delivery) -> Value {
    let notification = &delivery.notification;
    json!({
        "id": delivery.id,
        "at": notification.time(),
        "event": notification.event.as_str(),
        "layer": notification.layer,
        "title": notification.title,
        "reason": notification.reason,
        "action": notification.action,
        "counts": notification.counts,
        "commit": notification.commit,
        "run": notification.run,
        "url": delivery.page,
    })
}

/// The value of the header with the signature; `None` if the key is empty, because any client could sign then.
pub(super) fn signature(key: &SecretString, body: &[u8]) -> Option<String> {
    let key = key.expose_secret().as_bytes();
    if key.is_empty() {
        return None;
    }
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("a key of any length is valid");
    mac.update(body);
    Some(format!("sha256={}", hex::encode(mac.finalize().into_bytes())))
}

#[cfg(test)]
mod tests {
    use super::super::message::tests::delivery;
    use super::*;

    #[test]
    fn message_has_all_fields() {
        let expected = json!({
            "id": "d1",
            "at": "2023-11-14T22:13:20.000Z",
            "event": "waiting",
            "layer": "net",
            "title": "net: plan waits for approval",
            "reason": "The plan is applied when a user approves it.",
            "action": "plan",
            "counts": {
                "add": 3, "change": 0, "destroy": 1, "replace": 0, "import": 0, "move": 0, "forget": 0,
                "actions": 0, "outputs": 0
            },
            "commit": "0123456789abcdef0123456789abcdef01234567",
            "run": "r1",
            "url": "https://butler.example.com/prefix/runs/r1",
        });
        assert_eq!(body(&delivery("The plan is applied when a user approves it.")), expected);
    }

    #[test]
    fn body_is_signed_unless_the_key_is_empty() {
        // The second test case of RFC 4231.
        let expected = "sha256=5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        let signed = signature(&"Jefe".into(), b"what do ya want for nothing?");
        assert_eq!(signed.as_deref(), Some(expected));
        assert_eq!(signature(&"".into(), b"{}"), None);
    }
}
