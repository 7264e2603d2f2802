//! Verifies the vendor's signature of a checksum file.
//!
//! The rule: at least one signature by a trusted certificate (the vendor's, identified by the
//! fingerprint of its primary key, or one that the user supplied), over SHA-256 or better. Its key
//! must be a signing key that was bound, alive and not revoked when the signature was made. A key
//! that expired later only causes a warning: its earlier signatures remain valid.
//!
//! A signature whose RSA number is shorter than its length field declares is refused, although
//! `GnuPG` accepts it (`terraform-provider-null` 3.1.0 declares 4096 bits and has 4091). RFC 9580,
//! 3.2 calls such a number malformed, and no release of Terraform or `OpenTofu` is known to have
//! one. A lenient parser would weaken the verification.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use sequoia_openpgp as openpgp;

use openpgp::parse::Parse;
use openpgp::parse::stream::{
    DetachedVerifierBuilder, GoodChecksum, MessageLayer, MessageStructure, VerificationError,
    VerificationHelper,
};
use openpgp::policy::StandardPolicy;
use openpgp::types::{HashAlgorithm, RevocationStatus, SignatureType};
use openpgp::{Cert, KeyHandle};

use crate::tool::vendor::certificates::{certificates, pinned};
use crate::tool::vendor::lifetime;
use crate::tool::vendor::product::Vendored as _;
use butler_protocol::spec::Product;

/// The accepted hashes of a signature.
const HASHES: [HashAlgorithm; 5] = [
    HashAlgorithm::SHA256,
    HashAlgorithm::SHA384,
    HashAlgorithm::SHA512,
    HashAlgorithm::SHA3_256,
    HashAlgorithm::SHA3_512,
];

/// The difference between clocks that is tolerated, which is that of the library.
const CLOCK_TOLERANCE: Duration = Duration::from_mins(30);

/// A checksum file cannot be trusted.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// A key file of the user cannot be read.
    #[error("cannot read the signing key `{}`", path.display())]
    ReadKey {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: std::io::Error,
    },
    /// A key file of the user does not contain a key.
    #[error("the signing key `{}` is not an OpenPGP certificate", path.display())]
    NoKey {
        /// The file.
        path: PathBuf,
    },
    /// The signature is by a key that is not trusted.
    #[error("the signature is by the unknown key `{issuer}`")]
    UnknownSigner {
        /// The key's fingerprint or id, as the signature has it.
        issuer: String,
    },
    /// The key is trusted, but was not valid when it signed.
    #[error("the signing key is not acceptable: {reason}")]
    Key {
        /// The problem.
        reason: String,
    },
    /// The signature was made after the time of this machine, so one of the two clocks is wrong.
    #[error("the signature was made at {}, which is in the future for this machine", humantime::format_rfc3339_seconds(*made))]
    FromTheFuture {
        /// The time of the signature.
        made: SystemTime,
    },
    /// The signature is not valid.
    #[error("the signature is not valid: {reason}")]
    Refused {
        /// The problem.
        reason: String,
    },
}

impl butler_base::error::Advice for VerifyError {
    fn advice(&self) -> Option<String> {
        Some(
            match self {
                Self::ReadKey { .. } | Self::NoKey { .. } => {
                    "--signing-key names a file with an OpenPGP public key, armored or binary"
                }
                Self::FromTheFuture { .. } => {
                    "set the clock of this machine: `butler-runner doctor` compares it with those of servers"
                }
                Self::UnknownSigner { .. } => {
                    "if the site is yours, name its public key with --signing-key"
                }
                Self::Key { .. } => {
                    "do not use this download; if the key was renewed, update butler-runner or give the renewed key with --signing-key"
                }
                Self::Refused { .. } => {
                    "do not use this download; check that the --mirror site and proxies do not modify files"
                }
            }
            .to_owned(),
        )
    }
}

/// A valid signature.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(in crate::tool) struct Signed {
    /// The fingerprint of the certificate's primary key.
    pub(in crate::tool) signer: String,
    /// Whether the certificate or its signing key is expired or revoked today.
    pub(in crate::tool) outdated: bool,
    /// Whether it was revoked, for a reason that keeps older signatures valid.
    pub(in crate::tool) revoked: bool,
    /// The expiry of the certificate, if it is soon.
    pub(in crate::tool) expires: Option<SystemTime>,
}

/// The certificates that may sign a product's releases.
pub(in crate::tool) struct TrustedCertificates(Vec<Cert>);

impl TrustedCertificates {
    /// The vendor's certificate and those in the user's files.
    pub(in crate::tool) fn new(
        product: Product,
        user_keys: &[PathBuf],
    ) -> Result<Self, VerifyError> {
        let mut trusted = pinned(product.signer());
        for path in user_keys {
            trusted.extend(user_certificates(path)?);
        }
        let mut trust = Self(Vec::new());
        for certificate in trusted {
            trust.add(certificate);
        }
        Ok(trust)
    }

    /// The user's copy of a known certificate may be newer, renewed or revoked, so the two are
    /// merged. Its content is signed by its own primary key, so a merge does not add trust.
    fn add(&mut self, certificate: Cert) {
        let known =
            self.0.iter().position(|known| known.fingerprint() == certificate.fingerprint());
        let certificate = match known.map(|position| self.0.swap_remove(position)) {
            Some(known) => known.clone().merge_public(certificate).unwrap_or(known),
            None => certificate,
        };
        self.0.push(certificate);
    }

    /// Checks `signature`, armored or binary, over `data`.
    pub(in crate::tool) fn verify(
        &self,
        data: &[u8],
        signature: &[u8],
    ) -> Result<Signed, VerifyError> {
        self.verify_at(data, signature, SystemTime::now())
    }

    /// [`Self::verify`] with another date for the warnings.
    fn verify_at(
        &self,
        data: &[u8],
        signature: &[u8],
        today: SystemTime,
    ) -> Result<Signed, VerifyError> {
        let refused = |error: openpgp::anyhow::Error| VerifyError::Refused {
            reason: format!("{error:#}").trim().to_owned(),
        };
        let policy = StandardPolicy::new();
        let check = SignatureCheck { trusted: &self.0, today, signed: None, error: None };
        // Without a time, the library checks the keys as of the signature's creation, and refuses a
        // signature from the future.
        let mut verifier = DetachedVerifierBuilder::from_bytes(signature)
            .and_then(|builder| builder.with_policy(&policy, None, check))
            .map_err(refused)?;
        verifier.verify_bytes(data).map_err(refused)?;
        let check = verifier.into_helper();
        check.signed.ok_or_else(|| {
            check.error.unwrap_or_else(|| VerifyError::Refused {
                reason: "the file does not contain a signature".to_owned(),
            })
        })
    }
}

fn user_certificates(path: &Path) -> Result<Vec<Cert>, VerifyError> {
    let bytes = fs_err::read(path)
        .map_err(|source| VerifyError::ReadKey { path: path.to_owned(), source })?;
    let certificates = certificates(&bytes);
    if certificates.is_empty() {
        return Err(VerifyError::NoKey { path: path.to_owned() });
    }
    Ok(certificates)
}

/// Collects the library's result for each signature.
struct SignatureCheck<'a> {
    trusted: &'a [Cert],
    today: SystemTime,
    signed: Option<Signed>,
    error: Option<VerifyError>,
}

impl VerificationHelper for SignatureCheck<'_> {
    fn get_certs(&mut self, _: &[KeyHandle]) -> openpgp::Result<Vec<Cert>> {
        Ok(self.trusted.to_vec())
    }

    fn check(&mut self, structure: MessageStructure<'_>) -> openpgp::Result<()> {
        for layer in structure {
            let MessageLayer::SignatureGroup { results } = layer else { continue };
            for result in results {
                let verified = result.map_err(|error| verify_error(error, self.today));
                match verified.and_then(|good| accept(&good, self.today)) {
                    Ok(signed) => self.signed = self.signed.take().or(Some(signed)),
                    Err(error) => self.error = self.error.take().or(Some(error)),
                }
            }
        }
        Ok(())
    }
}

/// The checks that the library leaves to its callers: kind of signature, strength of the hash, clock.
fn accept(good: &GoodChecksum<'_>, today: SystemTime) -> Result<Signed, VerifyError> {
    let hash = good.sig.hash_algo();
    if !HASHES.contains(&hash) {
        return Err(VerifyError::Refused { reason: format!("{hash} is too weak") });
    }
    if good.sig.typ() != SignatureType::Binary {
        return Err(VerifyError::Refused {
            reason: "it is not a signature over a file".to_owned(),
        });
    }
    let certificate = good.ka.cert();
    Ok(Signed {
        signer: certificate.fingerprint().to_hex(),
        outdated: !is_current(certificate, &good.ka.key().fingerprint(), today),
        revoked: is_revoked(certificate, &good.ka.key().fingerprint(), today),
        expires: lifetime::expires_soon(certificate, today),
    })
}

/// Whether the key could sign today.
fn is_current(certificate: &Cert, key: &openpgp::Fingerprint, today: SystemTime) -> bool {
    let policy = StandardPolicy::new();
    certificate.with_policy(&policy, today).is_ok_and(|valid| {
        valid.alive().is_ok()
            && !matches!(valid.revocation_status(), RevocationStatus::Revoked(_))
            && valid
                .keys()
                .alive()
                .revoked(false)
                .for_signing()
                .any(|candidate| candidate.key().fingerprint() == *key)
    })
}

/// Whether the certificate or its key is revoked today.
fn is_revoked(certificate: &Cert, key: &openpgp::Fingerprint, today: SystemTime) -> bool {
    let policy = StandardPolicy::new();
    let is = |status: RevocationStatus<'_>| matches!(status, RevocationStatus::Revoked(_));
    is(certificate.revocation_status(&policy, today))
        || certificate
            .with_policy(&policy, today)
            .is_ok_and(|valid| valid.keys().revoked(true).any(|it| it.key().fingerprint() == *key))
}

fn verify_error(error: VerificationError<'_>, today: SystemTime) -> VerifyError {
    let made = match &error {
        VerificationError::BadKey { sig, .. } | VerificationError::BadSignature { sig, .. } => {
            sig.signature_creation_time()
        }
        _ => None,
    };
    if let Some(made) = made.filter(|made| *made > today + CLOCK_TOLERANCE) {
        return VerifyError::FromTheFuture { made };
    }
    match error {
        VerificationError::MissingKey { sig } => VerifyError::UnknownSigner {
            issuer: sig.get_issuers().first().map_or_else(|| "?".to_owned(), KeyHandle::to_hex),
        },
        VerificationError::UnboundKey { error, .. } | VerificationError::BadKey { error, .. } => {
            VerifyError::Key { reason: format!("{error:#}") }
        }
        VerificationError::BadSignature { error, .. }
        | VerificationError::MalformedSignature { error, .. } => {
            VerifyError::Refused { reason: format!("{error:#}") }
        }
        VerificationError::UnknownSignature { sig } => {
            VerifyError::Refused { reason: format!("{:#}", sig.error()) }
        }
        other => VerifyError::Refused { reason: other.to_string() },
    }
}

#[cfg(test)]
#[path = "verify_tests.rs"]
mod tests;
