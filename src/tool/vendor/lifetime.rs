//! When the built-in keys of the vendors expire.
//!
//! An expired key is not a security problem. But releases that are signed after its renewal need a
//! newer copy of the key: a runner without it cannot install them.

use std::time::{Duration, SystemTime};

use sequoia_openpgp::Cert;
use sequoia_openpgp::policy::StandardPolicy;

use crate::tool::vendor::certificates::pinned;
use crate::tool::vendor::product::Vendored as _;
use butler_protocol::spec::Product;

/// How long before the expiry of a key the runner warns about it.
const NOTICE: Duration = Duration::from_hours(180 * 24);

/// A built-in key that expires soon or has expired.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ExpiringKey {
    /// The product whose releases it signs.
    pub product: Product,
    /// The fingerprint of its primary key.
    pub fingerprint: &'static str,
    /// When it expires, or has expired.
    pub expires: SystemTime,
}

/// The keys that are built in and expire within 180 days of `now`, or before.
#[must_use]
pub fn expiring_keys(now: SystemTime) -> Vec<ExpiringKey> {
    let expiring = |product: Product| {
        let signer = product.signer();
        let expires =
            pinned(signer).iter().find_map(|certificate| expires_soon(certificate, now))?;
        Some(ExpiringKey { product, fingerprint: signer.fingerprint, expires })
    };
    Product::ALL.into_iter().filter_map(expiring).collect()
}

/// When the last signing key of `certificate` expires, if that is soon or in the past.
pub(in crate::tool) fn expires_soon(certificate: &Cert, now: SystemTime) -> Option<SystemTime> {
    let policy = StandardPolicy::new();
    let valid = certificate.with_policy(&policy, now).ok()?;
    let primary = valid.primary_key().key_expiration_time();
    let ends = valid.keys().revoked(false).for_signing().map(|key| {
        // No key outlives the primary one.
        key.key_expiration_time().into_iter().chain(primary).min()
    });
    // `None` is a key that never expires.
    let last = ends.collect::<Option<Vec<_>>>()?.into_iter().max()?;
    (last <= now + NOTICE).then_some(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Midnight of a day, UTC.
    fn day(date: &str) -> SystemTime {
        humantime::parse_rfc3339(&format!("{date}T00:00:00Z")).unwrap()
    }

    #[test]
    fn built_in_keys_are_reported_180_days_before_they_expire() {
        // 2030-03-01 less 180 days is 2029-09-02.
        for (today, expiring) in [
            ("2026-11-21", false),
            ("2029-09-01", false),
            ("2029-09-03", true),
            ("2030-02-28", true),
            ("2031-01-01", true),
        ] {
            let keys = expiring_keys(day(today));
            assert_eq!(!keys.is_empty(), expiring, "{today}: {keys:?}");
            for key in keys {
                assert_eq!(key.product, Product::Terraform);
                assert_eq!(key.fingerprint, Product::Terraform.signer().fingerprint);
                assert!(key.expires > day("2030-02-28") && key.expires < day("2030-03-03"));
            }
        }
    }

    #[test]
    fn built_in_keys_do_not_expire_soon() {
        assert_eq!(expiring_keys(SystemTime::now()), [], "time to embed renewed keys");
    }
}
