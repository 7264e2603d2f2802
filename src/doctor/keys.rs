//! Checks when the built-in signing keys expire.

use std::time::SystemTime;

use super::finding::Finding;
use crate::tool::ExpiringKey;

/// A warning for each key of `expiring`. Releases that were signed before remain valid.
pub(super) fn check_keys(expiring: &[ExpiringKey], now: SystemTime) -> Vec<Finding> {
    let warning = |ExpiringKey { product, fingerprint, expires }: &ExpiringKey| {
        let end = humantime::format_rfc3339_seconds(*expires).to_string();
        let day = end.split('T').next().unwrap_or(&end);
        let verb = if *expires > now { "expires" } else { "expired" };
        let message = format!("the key {fingerprint} that signs {product} {verb} on {day}");
        Finding::warning("keys", message).hint(
            "update butler-runner, or name the renewed key with --signing-key (BUTLER_SIGNING_KEY)",
        )
    };
    expiring.iter().map(warning).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use butler_protocol::spec::Product;

    #[test]
    fn expiring_key_is_reported_with_its_date() {
        let day = |days: u64| SystemTime::UNIX_EPOCH + Duration::from_hours(24 * days);
        let messages = |now| {
            let key = ExpiringKey {
                product: Product::Terraform,
                fingerprint: "C874011F",
                expires: day(21_978),
            };
            check_keys(&[key], now).remove(0).message
        };
        let expected = "the key C874011F that signs terraform expires on 2030-03-05";
        assert_eq!(messages(day(21_900)), expected);
        assert_eq!(messages(day(22_000)), expected.replace("expires", "expired"));
    }
}
