//! The rule for signatures, held against real releases and against keys made to break it.

use std::time::Duration;

use openpgp::cert::CertBuilder;
use openpgp::packet::signature::SignatureBuilder;
use openpgp::serialize::{Marshal, MarshalInto};
use openpgp::types::{KeyFlags, ReasonForRevocation};

use super::*;
use crate::tool::vendor::product::Signer;

const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data");
const DAY: Duration = Duration::from_hours(24);

fn data(file: &str) -> Vec<u8> {
    std::fs::read(format!("{DATA}/{file}")).unwrap()
}

/// Holds the checksum file `vectors/{file}` against its signature.
fn verdict(trust: &TrustedCertificates, file: &str, suffix: &str) -> Result<Signed, VerifyError> {
    trust.verify(&data(&format!("vectors/{file}")), &data(&format!("vectors/{file}{suffix}")))
}

fn terraform(version: &str) -> String {
    format!("hashicorp/terraform_{version}_SHA256SUMS")
}

fn vendor(product: Product) -> TrustedCertificates {
    TrustedCertificates::new(product, &[]).unwrap()
}

fn trust_in(key: &str) -> TrustedCertificates {
    TrustedCertificates(certificates(&data(&format!("keys/{key}.asc"))))
}

#[test]
fn every_real_release_verifies_with_the_embedded_keys() {
    let trust = vendor(Product::Terraform);
    let versions = [
        "1.0.11", "1.1.9", "1.3.10", "1.4.7", "1.5.7", "1.6.6", "1.8.5", "1.9.8", "1.10.5",
        "1.11.4", "1.13.5", "1.14.9",
    ];
    for version in versions {
        let signed = verdict(&trust, &terraform(version), ".sig").unwrap();
        assert_eq!(signed.signer, Product::Terraform.signer().fingerprint);
        assert!(!signed.outdated, "{version}");
    }
    let files = std::fs::read_dir(format!("{DATA}/vectors/hashicorp")).unwrap().count();
    assert_eq!(files, 2 * versions.len());

    let file = "opentofu/tofu_1.8.5_SHA256SUMS";
    let signed = verdict(&vendor(Product::OpenTofu), file, ".gpgsig").unwrap();
    assert_eq!(signed.signer, Product::OpenTofu.signer().fingerprint);
}

/// What becomes of a signature.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Held {
    Holds,
    HoldsByAnOutdatedKey,
    UnknownSigner,
    Refused,
}

fn held(result: &Result<Signed, VerifyError>) -> Held {
    match result {
        Ok(Signed { outdated: false, .. }) => Held::Holds,
        Ok(Signed { outdated: true, .. }) => Held::HoldsByAnOutdatedKey,
        Err(VerifyError::UnknownSigner { .. }) => Held::UnknownSigner,
        Err(_) => Held::Refused,
    }
}

/// All files below a directory of the data, by their paths in it.
fn files_below(directory: &str) -> Vec<String> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(format!("{DATA}/{directory}")).unwrap() {
        let entry = entry.unwrap();
        let path = format!("{directory}/{}", entry.file_name().to_str().unwrap());
        if entry.file_type().unwrap().is_dir() {
            files.extend(files_below(&path));
        } else {
            files.push(path);
        }
    }
    files.sort();
    files
}

#[test]
fn every_file_of_the_test_data_has_an_expected_result() {
    use Held::{Holds, HoldsByAnOutdatedKey, Refused, UnknownSigner};

    let (terraform, opentofu) = (vendor(Product::Terraform), vendor(Product::OpenTofu));
    let mut seen = Vec::new();
    let releases = [
        "1.0.11", "1.1.9", "1.3.10", "1.4.7", "1.5.7", "1.6.6", "1.8.5", "1.9.8", "1.10.5",
        "1.11.4", "1.13.5", "1.14.9",
    ];
    let own = releases.map(|version| (&terraform, self::terraform(version), ".sig", Holds));
    let others = [
        (&opentofu, "opentofu/tofu_1.8.5_SHA256SUMS", ".gpgsig", Holds),
        // Of cosign, and its certificate.
        (&opentofu, "opentofu/tofu_1.6.0_SHA256SUMS", ".sig", Refused),
        (&opentofu, "opentofu/tofu_1.6.0_SHA256SUMS", ".pem", Refused),
        (&terraform, "edge/terraform_0.15.1_SHA256SUMS", ".sig", HoldsByAnOutdatedKey),
        (&terraform, "edge/terraform_0.12.26_SHA256SUMS", ".sig", UnknownSigner),
        (&terraform, "edge/terraform-provider-null_3.1.0_SHA256SUMS", ".sig", Refused),
    ];
    let others = others.map(|(trust, file, suffix, held)| (trust, file.to_owned(), suffix, held));
    for (trust, file, suffix, expected) in own.into_iter().chain(others) {
        assert_eq!(held(&verdict(trust, &file, suffix)), expected, "{file}{suffix}");
        seen.extend([format!("vectors/{file}"), format!("vectors/{file}{suffix}")]);
    }
    // By each key alone: before the first renewal of keys, before and after that of 2026.
    for (key, expected) in [
        ("hashicorp-348FFC4C-retired-2021-do-not-trust", [Refused, UnknownSigner, UnknownSigner]),
        ("hashicorp-72D7468F-before-renewal", [UnknownSigner, HoldsByAnOutdatedKey, Refused]),
        ("hashicorp-72D7468F-renewed-only", [UnknownSigner, Refused, Holds]),
    ] {
        let trust = trust_in(key);
        let files = ["edge/terraform_0.12.26_SHA256SUMS".to_owned()];
        let files = files.into_iter().chain(["1.11.4", "1.14.9"].map(self::terraform));
        let found: Vec<_> = files.map(|file| held(&verdict(&trust, &file, ".sig"))).collect();
        assert_eq!(found, expected, "{key}");
        seen.push(format!("keys/{key}.asc"));
    }
    seen.sort();
    seen.dedup();
    assert_eq!(seen, [files_below("keys"), files_below("vectors")].concat());
}

#[test]
fn key_causes_a_warning_180_days_before_it_expires_and_is_outdated_after() {
    let trust = vendor(Product::Terraform);
    let file = format!("vectors/{}", terraform("1.14.9"));
    let (sums, signature) = (data(&file), data(&format!("{file}.sig")));
    for (today, outdated, soon) in
        [("2026-11-21", false, false), ("2029-12-01", false, true), ("2030-04-01", true, true)]
    {
        let today = humantime::parse_rfc3339(&format!("{today}T00:00:00Z")).unwrap();
        let signed = trust.verify_at(&sums, &signature, today).unwrap();
        assert_eq!((signed.outdated, signed.expires.is_some()), (outdated, soon), "{today:?}");
    }
}

#[test]
fn signature_by_a_subkey_that_expired_later_is_valid_and_outdated() {
    let trust = vendor(Product::Terraform);
    let signed = verdict(&trust, "edge/terraform_0.15.1_SHA256SUMS", ".sig").unwrap();
    assert!(signed.outdated);
}

#[test]
fn retired_key_and_weak_hash_are_refused() {
    let file = "edge/terraform_0.12.26_SHA256SUMS";
    let unknown = verdict(&vendor(Product::Terraform), file, ".sig");
    assert!(matches!(unknown, Err(VerifyError::UnknownSigner { .. })), "{unknown:?}");
    // Not even a user who trusts the key gets past its SHA-1 signature.
    let trusted = verdict(&trust_in("hashicorp-348FFC4C-retired-2021-do-not-trust"), file, ".sig");
    assert!(matches!(trusted, Err(VerifyError::Key { .. })), "{trusted:?}");
}

#[test]
fn rsa_number_shorter_than_declared_is_refused() {
    let file = "edge/terraform-provider-null_3.1.0_SHA256SUMS";
    let result = verdict(&vendor(Product::Terraform), file, ".sig");
    assert!(matches!(result, Err(VerifyError::Refused { .. })), "{result:?}");
}

#[test]
fn cosign_signature_is_not_an_openpgp_signature() {
    let result = verdict(&vendor(Product::OpenTofu), "opentofu/tofu_1.6.0_SHA256SUMS", ".sig");
    assert!(matches!(result, Err(VerifyError::Refused { .. })), "{result:?}");
}

#[test]
fn only_both_generations_of_the_renewed_key_verify_old_and_new_releases() {
    for (key, old, new) in [
        ("hashicorp-72D7468F-before-renewal", true, false),
        ("hashicorp-72D7468F-renewed-only", false, true),
    ] {
        let trust = trust_in(key);
        assert_eq!(verdict(&trust, &terraform("1.11.4"), ".sig").is_ok(), old, "{key}");
        assert_eq!(verdict(&trust, &terraform("1.14.9"), ".sig").is_ok(), new, "{key}");
    }
}

#[test]
fn certificate_with_another_fingerprint_than_the_pinned_one_is_left_out() {
    for product in Product::ALL {
        assert_eq!(pinned(product.signer()).len(), 1, "{product}");
    }
    let certificate = Product::OpenTofu.signer().certificate;
    let mixed = Signer { certificate, ..Product::Terraform.signer() };
    assert!(pinned(mixed).is_empty());
}

#[test]
fn renewed_copy_of_a_known_key_is_merged() {
    let mut trust = trust_in("hashicorp-72D7468F-before-renewal");
    for certificate in certificates(&data("keys/hashicorp-72D7468F-renewed-only.asc")) {
        trust.add(certificate);
    }
    assert_eq!(trust.0.len(), 1);
    for version in ["1.11.4", "1.14.9"] {
        verdict(&trust, &terraform(version), ".sig").unwrap();
    }
}

#[test]
fn signature_of_another_vendor_is_refused() {
    let result = verdict(&vendor(Product::OpenTofu), &terraform("1.9.8"), ".sig");
    assert!(matches!(result, Err(VerifyError::UnknownSigner { .. })), "{result:?}");
}

#[test]
fn changed_file_and_broken_signature_are_refused() {
    let trust = vendor(Product::Terraform);
    let file = terraform("1.9.8");
    let (mut sums, signature) =
        (data(&format!("vectors/{file}")), data(&format!("vectors/{file}.sig")));
    sums[0] ^= 1;
    assert!(matches!(trust.verify(&sums, &signature), Err(VerifyError::Refused { .. })));
    for broken in [b"".as_slice(), b"<html>not found</html>", &signature[..signature.len() - 9]] {
        let result = trust.verify(&data(&format!("vectors/{file}")), broken);
        assert!(matches!(result, Err(VerifyError::Refused { .. })), "{result:?}");
    }
}

/// A certificate whose subkey signs, made `age` ago and alive for `life`.
fn made(flags: KeyFlags, age: Duration, life: Option<Duration>) -> (Cert, SystemTime) {
    let created = SystemTime::now() - age;
    let (certificate, _) = CertBuilder::new()
        .set_creation_time(created)
        .set_validity_period(life)
        .add_userid("release site of a test")
        .add_subkey(flags, None, None)
        .generate()
        .unwrap();
    (certificate, created)
}

/// Signs `data` with the first subkey of `certificate`, regardless of its key flags.
fn sign(certificate: &Cert, data: &[u8], at: SystemTime, hash: HashAlgorithm) -> Vec<u8> {
    let subkey = certificate.keys().subkeys().next().unwrap().key().clone();
    let mut pair = subkey.parts_into_secret().unwrap().into_keypair().unwrap();
    let signature = SignatureBuilder::new(SignatureType::Binary)
        .set_signature_creation_time(at)
        .unwrap()
        .set_hash_algo(hash)
        .sign_message(&mut pair, data)
        .unwrap();
    let mut bytes = Vec::new();
    openpgp::Packet::from(signature).serialize(&mut bytes).unwrap();
    bytes
}

fn signing() -> KeyFlags {
    KeyFlags::empty().set_signing()
}

#[test]
fn signature_must_be_made_in_the_validity_period_of_its_key() {
    let (certificate, created) = made(signing(), 100 * DAY, Some(50 * DAY));
    let trust = TrustedCertificates(vec![certificate.clone()]);
    let at = |time| trust.verify(b"data", &sign(&certificate, b"data", time, HASHES[0]));
    let signed = at(created + DAY).unwrap();
    assert!(signed.outdated && !signed.revoked);
    assert_eq!(signed.signer, certificate.fingerprint().to_hex());
    for time in [created + 60 * DAY, created - DAY] {
        let refused =
            matches!(at(time), Err(VerifyError::Key { .. } | VerifyError::Refused { .. }));
        assert!(refused, "{:?}", at(time));
    }
    let future = at(SystemTime::now() + 2 * DAY);
    assert!(matches!(future, Err(VerifyError::FromTheFuture { .. })), "{future:?}");
}

#[test]
fn key_without_signing_capability_is_not_accepted() {
    for (flags, holds) in [
        (signing(), true),
        (KeyFlags::empty().set_authentication(), false),
        (KeyFlags::empty().set_certification(), false),
    ] {
        let (certificate, created) = made(flags, 2 * DAY, None);
        let trust = TrustedCertificates(vec![certificate.clone()]);
        let result = trust.verify(b"data", &sign(&certificate, b"data", created + DAY, HASHES[0]));
        assert_eq!(result.is_ok(), holds, "{result:?}");
    }
}

#[test]
fn encryption_key_is_not_accepted() {
    let created = SystemTime::now() - 2 * DAY;
    let (certificate, _) = CertBuilder::new()
        .set_cipher_suite(openpgp::cert::CipherSuite::RSA2k)
        .set_creation_time(created)
        .add_transport_encryption_subkey()
        .generate()
        .unwrap();
    let signature = sign(&certificate, b"data", created + DAY, HASHES[0]);
    let result = TrustedCertificates(vec![certificate]).verify(b"data", &signature);
    assert!(matches!(result, Err(VerifyError::Key { .. })), "{result:?}");
}

#[test]
fn hash_below_sha256_is_refused() {
    let (certificate, created) = made(signing(), 2 * DAY, None);
    let trust = TrustedCertificates(vec![certificate.clone()]);
    for (hash, holds) in [
        (HashAlgorithm::SHA1, false),
        (HashAlgorithm::SHA224, false),
        (HashAlgorithm::SHA256, true),
        (HashAlgorithm::SHA512, true),
    ] {
        let result = trust.verify(b"data", &sign(&certificate, b"data", created + DAY, hash));
        assert_eq!(result.is_ok(), holds, "{hash}: {result:?}");
    }
}

#[test]
fn effect_of_a_revocation_depends_on_its_reason() {
    for (reason, holds) in
        [(ReasonForRevocation::KeyCompromised, false), (ReasonForRevocation::KeyRetired, true)]
    {
        let (certificate, created) = made(signing(), 9 * DAY, None);
        let mut primary = certificate
            .primary_key()
            .key()
            .clone()
            .parts_into_secret()
            .unwrap()
            .into_keypair()
            .unwrap();
        let revocation = openpgp::cert::CertRevocationBuilder::new()
            .set_signature_creation_time(created + 5 * DAY)
            .unwrap()
            .set_reason_for_revocation(reason, b"")
            .unwrap()
            .build(&mut primary, &certificate, None)
            .unwrap();
        let signature = sign(&certificate, b"data", created + DAY, HASHES[0]);
        let revoked = certificate.insert_packets(vec![revocation]).unwrap().0;
        let result = TrustedCertificates(vec![revoked]).verify(b"data", &signature);
        assert_eq!(result.as_ref().is_ok_and(|it| it.outdated && it.revoked), holds, "{result:?}");
    }
}

#[test]
fn user_keys_are_trusted_in_addition_to_the_vendors_key() {
    let directory = tempfile::tempdir().unwrap();
    let (first, created) = made(signing(), 2 * DAY, None);
    let (second, _) = made(signing(), 2 * DAY, None);
    let armored = |certificate: &Cert| certificate.armored().to_vec().unwrap();
    let both = directory.path().join("both.asc");
    std::fs::write(&both, [armored(&first), armored(&second)].concat()).unwrap();
    let binary = directory.path().join("binary.gpg");
    std::fs::write(&binary, second.to_vec().unwrap()).unwrap();

    for file in [both, binary] {
        let trust = TrustedCertificates::new(Product::Terraform, &[file]).unwrap();
        assert!(trust.0.iter().any(|known| known.fingerprint() == second.fingerprint()));
        trust.verify(b"data", &sign(&second, b"data", created + DAY, HASHES[0])).unwrap();
        verdict(&trust, &terraform("1.9.8"), ".sig").unwrap();
    }
}

#[test]
fn key_file_without_a_key_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let empty = directory.path().join("empty.asc");
    std::fs::write(&empty, "no key\n").unwrap();
    let error = TrustedCertificates::new(Product::Terraform, &[empty]).err().unwrap();
    assert!(error.to_string().contains("empty.asc"), "{error}");
    let missing = directory.path().join("missing.asc");
    let error = TrustedCertificates::new(Product::Terraform, &[missing]).err().unwrap();
    assert!(matches!(error, VerifyError::ReadKey { .. }), "{error}");
}
