//! What the git hosts send with a delivery: headers with its kind and its proof.
//!
//! The names are those of the documentation of each host: "Validating webhook deliveries" of GitHub,
//! "Webhooks" of GitLab, "Event payloads" of Bitbucket Cloud and Data Center, "Webhooks" of Gitea and
//! Forgejo.

use axum::http::{HeaderMap, HeaderValue};
use hmac::{Hmac, KeyInit as _, Mac as _};
use secrecy::{ExposeSecret as _, SecretString};
use sha2::Sha256;

use crate::config::WebhookProvider;

/// How a delivery proves that its sender knows the secret.
pub(super) enum Proof {
    /// It contains the secret.
    Secret(SecretString),
    /// It contains the HMAC-SHA256 of its body.
    Hmac(Vec<u8>),
}

/// A proof is not valid, or cannot be compared.
#[derive(Debug, thiserror::Error)]
pub(super) enum ProofError {
    /// Any client could sign with this secret.
    #[error("the file of `webhook.secret-file` is empty")]
    EmptySecret,
    /// The delivery contains another secret.
    #[error("the delivery contains another secret")]
    WrongSecret,
}

/// The body of a delivery, as far as it has arrived, and what it is compared with.
pub(super) struct Verification {
    mac: Hmac<Sha256>,
    /// The expected HMAC; `None` if the delivery contains the secret, and the body proves nothing.
    expected: Option<Vec<u8>>,
}

impl Proof {
    /// The proof in the headers of a delivery; `None` if there is none, or it is not valid.
    pub(super) fn of(provider: WebhookProvider, headers: &HeaderMap) -> Option<Self> {
        let header = |name: &str| headers.get(name).map(HeaderValue::as_bytes);
        let hmac = |digits: &[u8]| hex::decode(digits).ok().map(Self::Hmac);
        let prefixed = |name: &str| hmac(header(name)?.strip_prefix(b"sha256=")?);
        match provider {
            WebhookProvider::Github => prefixed("x-hub-signature-256"),
            WebhookProvider::Gitlab => {
                let given = headers.get("x-gitlab-token")?.to_str().ok()?;
                Some(Self::Secret(given.into()))
            }
            WebhookProvider::Bitbucket => prefixed("x-hub-signature"),
            WebhookProvider::Gitea => {
                header("x-gitea-signature").or_else(|| header("x-forgejo-signature")).and_then(hmac)
            }
            WebhookProvider::Generic => prefixed("x-butler-signature-256"),
        }
    }

    /// Takes the body, to be verified with this secret. A proof that contains the secret is verified before
    /// the body is read. All comparisons take a time that does not depend on the proof.
    ///
    /// # Errors
    /// If the secret is empty, or another one than the delivery contains.
    pub(super) fn verification(self, secret: &SecretString) -> Result<Verification, ProofError> {
        let secret = secret.expose_secret().as_bytes();
        if secret.is_empty() {
            return Err(ProofError::EmptySecret);
        }
        let keyed = |key: &[u8]| Hmac::new_from_slice(key).expect("a key of any length is valid");
        match self {
            Self::Hmac(expected) => {
                Ok(Verification { mac: keyed(secret), expected: Some(expected) })
            }
            // HMACs are compared, so the length of the secret is not told either.
            Self::Secret(given) => {
                let (given, own) = (keyed(given.expose_secret().as_bytes()), keyed(secret));
                given.verify(&own.finalize().into_bytes()).map_err(|_| ProofError::WrongSecret)?;
                Ok(Verification { mac: keyed(secret), expected: None })
            }
        }
    }
}

impl Verification {
    /// Takes the next part of the body.
    pub(super) fn update(&mut self, part: &[u8]) {
        if self.expected.is_some() {
            self.mac.update(part);
        }
    }

    /// Whether the sender knows the secret.
    pub(super) fn verify(self) -> bool {
        self.expected.is_none_or(|expected| self.mac.verify_slice(&expected).is_ok())
    }
}

/// Whether a delivery can be about new commits. Others, such as the one with which a host tries the address,
/// are answered alike and change nothing.
pub(super) fn is_about_commits(provider: WebhookProvider, headers: &HeaderMap) -> bool {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    match provider {
        WebhookProvider::Github => {
            header("x-github-event").is_none_or(|it| ["push", "create", "delete"].contains(&it))
        }
        WebhookProvider::Gitlab => {
            // System hooks are about many things, also about commits.
            let kinds = ["Push Hook", "Tag Push Hook", "System Hook"];
            header("x-gitlab-event").is_none_or(|it| kinds.contains(&it))
        }
        WebhookProvider::Bitbucket => {
            header("x-event-key").is_none_or(|it| ["repo:push", "repo:refs_changed"].contains(&it))
        }
        WebhookProvider::Gitea => header("x-gitea-event")
            .or_else(|| header("x-forgejo-event"))
            .is_none_or(|it| ["push", "create", "delete"].contains(&it)),
        WebhookProvider::Generic => true,
    }
}

/// Whether it is the delivery with which a host tries the address, and which that host never signs: "Test connection" of
/// Bitbucket Data Center.
pub(super) fn is_unsigned_test(provider: WebhookProvider, headers: &HeaderMap) -> bool {
    let is_ping = headers.get("x-event-key").is_some_and(|it| it == "diagnostics:ping");
    provider == WebhookProvider::Bitbucket && is_ping && !headers.contains_key("x-hub-signature")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(given: &[(&'static str, &str)]) -> HeaderMap {
        given.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    fn is_valid(provider: WebhookProvider, given: &[(&'static str, &str)], body: &[u8]) -> bool {
        let Some(proof) = Proof::of(provider, &headers(given)) else { return false };
        let verification = proof.verification(&"It's a Secret to Everybody".into());
        let Ok(mut verification) = verification else { return false };
        body.chunks(5).for_each(|part| verification.update(part));
        verification.verify()
    }

    /// The secret, the body and the signature are the example of GitHub's documentation.
    const BODY: &[u8] = b"Hello, World!";
    const SIGNATURE: &str = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";

    #[test]
    fn signatures_of_each_host_are_verified() {
        let prefixed = format!("sha256={SIGNATURE}");
        for (provider, name, value) in [
            (WebhookProvider::Github, "x-hub-signature-256", &*prefixed),
            (WebhookProvider::Bitbucket, "x-hub-signature", &prefixed),
            (WebhookProvider::Gitea, "x-gitea-signature", SIGNATURE),
            (WebhookProvider::Gitea, "x-forgejo-signature", SIGNATURE),
            (WebhookProvider::Generic, "x-butler-signature-256", &prefixed),
        ] {
            assert!(is_valid(provider, &[(name, value)], BODY), "{name}");
            assert!(!is_valid(provider, &[(name, value)], b"Hello, World?"), "{name}");
            let cut = &value[..value.len() - 2];
            assert!(!is_valid(provider, &[(name, cut)], BODY), "{name}: {cut}");
            assert!(!is_valid(provider, &[("x-other", value)], BODY), "{name} is missing");
        }
        // The older signature of GitHub is not enough, and neither is a signature without its name.
        let old = [("x-hub-signature", &*prefixed)];
        assert!(!is_valid(WebhookProvider::Github, &old, BODY));
        assert!(!is_valid(WebhookProvider::Github, &[("x-hub-signature-256", SIGNATURE)], BODY));
    }

    #[test]
    fn empty_secret_verifies_nothing() {
        for proof in [Proof::Secret("".into()), Proof::Hmac(Vec::new())] {
            assert!(matches!(proof.verification(&"".into()), Err(ProofError::EmptySecret)));
        }
    }

    #[test]
    fn secret_of_gitlab_is_compared() {
        for (given, valid) in [
            ("It's a Secret to Everybody", true),
            ("It's a Secret to Everybody ", false),
            ("It's a Secret to Everybod", false),
            ("", false),
        ] {
            let given = [("x-gitlab-token", given)];
            assert_eq!(is_valid(WebhookProvider::Gitlab, &given, BODY), valid, "{given:?}");
        }
        assert!(!is_valid(WebhookProvider::Gitlab, &[], BODY));
    }

    #[test]
    fn only_the_test_of_bitbucket_needs_no_signature() {
        let ping = ("x-event-key", "diagnostics:ping");
        for (provider, given, expected) in [
            (WebhookProvider::Bitbucket, &[ping][..], true),
            (WebhookProvider::Bitbucket, &[ping, ("x-hub-signature", "sha256=00")], false),
            (WebhookProvider::Bitbucket, &[ping, ("x-hub-signature", "")], false),
            (WebhookProvider::Bitbucket, &[("x-event-key", "repo:refs_changed")], false),
            (WebhookProvider::Bitbucket, &[], false),
            (WebhookProvider::Generic, &[ping], false),
            (WebhookProvider::Github, &[ping], false),
        ] {
            assert_eq!(is_unsigned_test(provider, &headers(given)), expected, "{given:?}");
        }
    }

    #[test]
    fn only_events_about_references_are_followed() {
        use WebhookProvider::{Bitbucket, Generic, Gitea, Github, Gitlab};
        for (provider, name, value, expected) in [
            (Github, "x-github-event", "push", true),
            (Github, "x-github-event", "create", true),
            (Github, "x-github-event", "ping", false),
            (Github, "x-github-event", "issue_comment", false),
            (Gitlab, "x-gitlab-event", "Push Hook", true),
            (Gitlab, "x-gitlab-event", "Tag Push Hook", true),
            (Gitlab, "x-gitlab-event", "Note Hook", false),
            (Bitbucket, "x-event-key", "repo:push", true),
            (Bitbucket, "x-event-key", "repo:refs_changed", true),
            (Bitbucket, "x-event-key", "diagnostics:ping", false),
            (Gitea, "x-gitea-event", "push", true),
            (Gitea, "x-forgejo-event", "delete", true),
            (Gitea, "x-gitea-event", "issues", false),
            (Generic, "x-github-event", "ping", true),
        ] {
            assert_eq!(is_about_commits(provider, &headers(&[(name, value)])), expected, "{value}");
        }
    }
}
