//! Which certificates are accepted, for which name and when. TLS itself verifies that a server has
//! the key of its certificate.

use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, UnixTime};

use super::Verifier;
use crate::http::roots::in_bundle;
use crate::http::test_certificates::{AUTHORITY, BOTH, Pair, SERVER, Says};

/// The error for `shown` if `bundle` is trusted in addition to the system's certificates.
fn judged(bundle: &[&Pair], shown: &Pair, name: &'static str) -> Result<(), String> {
    let pem: Vec<_> = bundle.iter().flat_map(|pair| pair.0.to_pem().unwrap()).collect();
    let algorithms = ring::default_provider().signature_verification_algorithms;
    let verifier = Verifier::new(in_bundle(&pem), algorithms);
    let shown = CertificateDer::from(shown.0.to_der().unwrap());
    let name = name.try_into().unwrap();
    let verdict = verifier.verify_server_cert(&shown, &[], &name, &[], UnixTime::now());
    verdict.map(drop).map_err(|error| crate::error::chain(&std::io::Error::other(error)))
}

fn refused(reason: &str) -> Result<(), String> {
    Err(format!("the server's certificate {reason}"))
}

const UNKNOWN: &str = "was issued by an untrusted authority";

#[test]
fn certificate_of_an_authority_in_the_bundle_is_accepted() {
    let (authority, other) = (Pair::new(AUTHORITY, None), Pair::new(AUTHORITY, None));
    let server = Pair::new(SERVER, Some(&authority));
    assert_eq!(judged(&[&authority], &server, "localhost"), Ok(()));
    assert_eq!(judged(&[&other, &authority], &server, "localhost"), Ok(()));
    assert_eq!(judged(&[&authority], &server, "example.com"), refused("is not for `example.com`"));
    let same_name = judged(&[&other], &server, "localhost");
    assert!(same_name.unwrap_err().contains("BadSignature"));
    assert_eq!(judged(&[], &server, "localhost"), refused(UNKNOWN));
    let below = Pair::new(AUTHORITY, Some(&other));
    assert_eq!(judged(&[&below], &Pair::new(SERVER, Some(&below)), "localhost"), Ok(()));
    let outdated = Pair::new(Says { ends: -1, ..SERVER }, Some(&authority));
    let error = judged(&[&authority], &outdated, "localhost").unwrap_err();
    assert!(error.starts_with("the server's certificate expired at "), "{error}");
}

#[test]
fn self_signed_certificate_in_the_bundle_is_accepted() {
    for says in [BOTH, SERVER] {
        let (server, other) = (Pair::new(says, None), Pair::new(says, None));
        assert_eq!(judged(&[&other, &server], &server, "localhost"), Ok(()));
        assert_eq!(judged(&[&server], &server, "example.com"), refused("is not for `example.com`"));
        assert_eq!(judged(&[], &server, "localhost"), refused(UNKNOWN));
        assert_eq!(judged(&[&other], &server, "localhost"), refused(UNKNOWN));
        let outdated = Pair::new(Says { ends: -1, ..says }, None);
        let error = judged(&[&outdated], &outdated, "localhost").unwrap_err();
        assert!(error.starts_with("the server's certificate expired at "), "{error}");
    }
}

#[test]
fn certificate_of_an_authority_outside_of_the_bundle_is_rejected() {
    let authority = Pair::new(BOTH, None);
    let other = Pair::with_key(authority.1.clone(), BOTH, None);
    assert_eq!(judged(&[&authority], &other, "localhost"), refused(UNKNOWN));
}

#[test]
fn certificate_of_a_server_is_not_an_authority() {
    let server = Pair::new(SERVER, None);
    let victim = Pair::new(Says { name: "git.example.com", ..SERVER }, Some(&server));
    assert_eq!(judged(&[&server], &victim, "git.example.com"), refused(UNKNOWN));
}

#[test]
fn expired_authority_is_not_trusted() {
    let authority = Pair::new(Says { ends: -1, ..AUTHORITY }, None);
    let server = Pair::new(SERVER, Some(&authority));
    assert_eq!(judged(&[&authority], &server, "localhost"), refused(UNKNOWN));
}

#[test]
fn authority_with_a_version_1_certificate_is_accepted() {
    let authority = Pair::new(Says { is_authority: None, ..AUTHORITY }, None);
    let server = Pair::new(SERVER, Some(&authority));
    assert_eq!(judged(&[&authority], &server, "localhost"), Ok(()));
}

#[test]
fn bundle_with_text_between_certificates_is_accepted_and_a_broken_one_is_not() {
    let pem = String::from_utf8(Pair::new(AUTHORITY, None).0.to_pem().unwrap()).unwrap();
    let spoken = format!("# ours\r\n{}\nand theirs\n{pem}", pem.replace('\n', "\r\n"));
    assert_eq!(in_bundle(spoken.as_bytes()).len(), 2);
    let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    for mistake in [format!("{pem}{broken}"), format!("{pem}{}", &pem[..200]), String::new()] {
        assert!(in_bundle(mistake.as_bytes()).is_empty(), "{mistake}");
    }
}
