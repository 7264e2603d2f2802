//! Reads `OpenPGP` certificates: the vendors' own, which are built in, and those in key files.

use openpgp::Cert;
use openpgp::cert::CertParser;
use openpgp::parse::Parse;
use sequoia_openpgp as openpgp;

use crate::tool::vendor::product::Signer;

/// What begins each certificate of an armored file.
const ARMOR: &str = "-----BEGIN PGP PUBLIC KEY BLOCK-----";

/// The vendor's certificate, if it is the one with the pinned fingerprint.
pub(in crate::tool) fn pinned(signer: Signer) -> Vec<Cert> {
    let mut certificates = certificates(signer.certificate);
    certificates.retain(|certificate| certificate.fingerprint().to_hex() == signer.fingerprint);
    certificates
}
/// All certificates in a file: binary, armored, or several armored ones one after the other.
pub(in crate::tool) fn certificates(bytes: &[u8]) -> Vec<Cert> {
    let parse = |bytes: &[u8]| -> Vec<Cert> {
        CertParser::from_bytes(bytes).into_iter().flatten().filter_map(Result::ok).collect()
    };
    match std::str::from_utf8(bytes) {
        Ok(text) if text.contains(ARMOR) => text
            .split(ARMOR)
            .skip(1)
            .flat_map(|block| parse(format!("{ARMOR}{block}").as_bytes()))
            .collect(),
        _ => parse(bytes),
    }
}
