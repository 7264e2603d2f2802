//! Tests which certificates are accepted, for which names, and at which time. TLS itself verifies
//! that a server has the key of its certificate.

use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, UnixTime};

use super::Verifier;
use crate::http::roots::in_bundle;
use crate::http::test_certificates::{AUTHORITY, BOTH, Pair, Properties, SERVER};

/// Verifies `shown` with a client that trusts `bundle` and the system's certificates. Returns the
/// error that a user reads.
fn verify(bundle: &[&Pair], shown: &Pair, name: &'static str) -> Result<(), String> {
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
    assert_eq!(verify(&[&authority], &server, "localhost"), Ok(()));
    assert_eq!(verify(&[&other, &authority], &server, "localhost"), Ok(()));
    assert_eq!(verify(&[&authority], &server, "example.com"), refused("is not for `example.com`"));
    let same_name = verify(&[&other], &server, "localhost");
    assert!(same_name.unwrap_err().contains("BadSignature"));
    assert_eq!(verify(&[], &server, "localhost"), refused(UNKNOWN));
    let below = Pair::new(AUTHORITY, Some(&other));
    assert_eq!(verify(&[&below], &Pair::new(SERVER, Some(&below)), "localhost"), Ok(()));
    let outdated = Pair::new(Properties { ends: -1, ..SERVER }, Some(&authority));
    let error = verify(&[&authority], &outdated, "localhost").unwrap_err();
    assert!(error.starts_with("the server's certificate expired at "), "{error}");
}

#[test]
fn self_signed_certificate_in_the_bundle_is_accepted() {
    for says in [BOTH, SERVER] {
        let (server, other) = (Pair::new(says, None), Pair::new(says, None));
        assert_eq!(verify(&[&other, &server], &server, "localhost"), Ok(()));
        assert_eq!(verify(&[&server], &server, "example.com"), refused("is not for `example.com`"));
        assert_eq!(verify(&[], &server, "localhost"), refused(UNKNOWN));
        assert_eq!(verify(&[&other], &server, "localhost"), refused(UNKNOWN));
        let outdated = Pair::new(Properties { ends: -1, ..says }, None);
        let error = verify(&[&outdated], &outdated, "localhost").unwrap_err();
        assert!(error.starts_with("the server's certificate expired at "), "{error}");
    }
}

#[test]
fn certificate_of_an_authority_outside_of_the_bundle_is_rejected() {
    let authority = Pair::new(BOTH, None);
    let other = Pair::with_key(authority.1.clone(), BOTH, None);
    assert_eq!(verify(&[&authority], &other, "localhost"), refused(UNKNOWN));
}

#[test]
fn certificate_of_a_server_is_not_an_authority() {
    let server = Pair::new(SERVER, None);
    let victim = Pair::new(Properties { name: "git.example.com", ..SERVER }, Some(&server));
    assert_eq!(verify(&[&server], &victim, "git.example.com"), refused(UNKNOWN));
}

#[test]
fn expired_authority_is_not_trusted() {
    let authority = Pair::new(Properties { ends: -1, ..AUTHORITY }, None);
    let server = Pair::new(SERVER, Some(&authority));
    assert_eq!(verify(&[&authority], &server, "localhost"), refused(UNKNOWN));
}

#[test]
fn authority_with_a_version_1_certificate_is_accepted() {
    let authority = Pair::new(Properties { is_authority: None, ..AUTHORITY }, None);
    let server = Pair::new(SERVER, Some(&authority));
    assert_eq!(verify(&[&authority], &server, "localhost"), Ok(()));
}

#[test]
fn bundle_may_contain_text_between_certificates_but_not_a_broken_certificate() {
    let pem = String::from_utf8(Pair::new(AUTHORITY, None).0.to_pem().unwrap()).unwrap();
    let spoken = format!("# ours\r\n{}\nand theirs\n{pem}", pem.replace('\n', "\r\n"));
    assert_eq!(in_bundle(spoken.as_bytes()).len(), 2);
    let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    for mistake in [format!("{pem}{broken}"), format!("{pem}{}", &pem[..200]), String::new()] {
        assert!(in_bundle(mistake.as_bytes()).is_empty(), "{mistake}");
    }
}
