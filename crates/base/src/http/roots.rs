//! The trusted certificates: the system's, and those of `--ca-bundle`.
//!
//! Reading the system's certificates takes longer than a request, so they are read when a server
//! presents a certificate. The directories, which contain many small files, are read only if the
//! system's single file does not contain the issuer. Unreadable certificates of the system are
//! skipped. In the bundle, which the user selects, they are an error.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, Error, RootCertStore};
use rustls_native_certs::{CertificateResult, load_certs_from_paths};

use crate::platform::has_keychain;

/// A location of the system's certificates.
#[derive(Clone, Copy, Debug)]
pub(super) enum Location {
    /// The single file that contains all certificates, or the keychain.
    File,
    /// Directories that contain one file for each certificate.
    Directories,
}

/// Trusted certificates.
#[derive(Debug)]
pub(super) struct Roots {
    /// The certificates that can sign others.
    authorities: RootCertStore,
    /// All trusted certificates. A server is also trusted if it presents one of these.
    named: Vec<CertificateDer<'static>>,
}

/// The certificates that a server presented, and the time and algorithms of the verification.
#[derive(Clone, Copy)]
pub(super) struct Presented<'chain> {
    pub(super) certificate: &'chain CertificateDer<'chain>,
    pub(super) parsed: &'chain ParsedCertificate<'chain>,
    pub(super) intermediates: &'chain [CertificateDer<'chain>],
    pub(super) now: UnixTime,
    pub(super) algorithms: &'chain WebPkiSupportedAlgorithms,
}

/// Whether a certificate can sign others.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum CertificatePurpose {
    /// The certificate of a certificate authority, which signs others.
    Authority,
    /// The certificate of a server, which must not sign others.
    Server,
}

impl Roots {
    /// Separates authorities from the certificates of servers, because the key of a server must not
    /// sign certificates of other servers. Omits certificates that are not valid `now`.
    pub(super) fn new(
        certificates: Vec<CertificateDer<'static>>,
        now: UnixTime,
        algorithms: &WebPkiSupportedAlgorithms,
    ) -> Self {
        let mut roots = Self { authorities: RootCertStore::empty(), named: Vec::new() };
        for certificate in certificates {
            // Version 1 lacks the extension that identifies authorities, and was used for them.
            let purpose = ParsedCertificate::try_from(&certificate)
                .map_or(Ok(CertificatePurpose::Authority), |it| {
                    certificate_purpose(&it, now, algorithms)
                });
            let is_usable = match purpose {
                Ok(CertificatePurpose::Authority) => {
                    roots.authorities.add(certificate.clone()).is_ok()
                }
                Ok(CertificatePurpose::Server) => true,
                Err(_) => false,
            };
            if is_usable {
                roots.named.push(certificate);
            }
        }
        roots
    }

    pub(super) fn is_empty(&self) -> bool {
        self.named.is_empty()
    }

    /// Verifies that the certificate of a server is valid now, and is trusted or signed by a trusted
    /// authority. Does not verify the name.
    ///
    /// # Errors
    /// If the certificate is not valid or not trusted.
    pub(super) fn check_trust(&self, presented: Presented<'_>) -> Result<(), Error> {
        let Presented { certificate, parsed, intermediates, now, algorithms } = presented;
        let purpose = certificate_purpose(parsed, now, algorithms)?;
        if self.named.contains(certificate) {
            return Ok(());
        }
        if purpose == CertificatePurpose::Authority {
            // The library would report a violated constraint. The user can only fix the unknown
            // issuer.
            return Err(CertificateError::UnknownIssuer.into());
        }
        verify_server_cert_signed_by_trust_anchor(
            parsed,
            &self.authorities,
            intermediates,
            now,
            algorithms.all,
        )
    }
}

/// The purpose of `certificate`, if it is valid now.
///
/// Derives it from the error of a verification without authorities: the library first checks the
/// time, then whether the certificate is an authority, then the issuer.
fn certificate_purpose(
    certificate: &ParsedCertificate<'_>,
    now: UnixTime,
    algorithms: &WebPkiSupportedAlgorithms,
) -> Result<CertificatePurpose, Error> {
    let no_roots = RootCertStore::empty();
    match verify_server_cert_signed_by_trust_anchor(
        certificate,
        &no_roots,
        &[],
        now,
        algorithms.all,
    ) {
        Err(Error::InvalidCertificate(CertificateError::Other(_))) => {
            Ok(CertificatePurpose::Authority)
        }
        Ok(()) | Err(Error::InvalidCertificate(CertificateError::UnknownIssuer)) => {
            Ok(CertificatePurpose::Server)
        }
        Err(error) => Err(error),
    }
}

/// The certificates in a bundle; empty if one of them is not usable.
pub(super) fn in_bundle(pem: &[u8]) -> Vec<CertificateDer<'static>> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let is_usable = |certificate: &CertificateDer<'_>| {
        RootCertStore::empty().add(CertificateDer::from(certificate.as_ref())).is_ok()
    };
    found.ok().filter(|all| all.iter().all(is_usable)).unwrap_or_default()
}

/// Reads the system's certificates at `location`. `SSL_CERT_FILE` and `SSL_CERT_DIR` replace the
/// locations of the system.
pub(super) fn of_system(location: Location) -> Vec<CertificateDer<'static>> {
    let (file, directories) = (given("SSL_CERT_FILE"), given("SSL_CERT_DIR"));
    let is_given = file.is_some() || directories.is_some();
    let found = match location {
        Location::File if is_given => file.map(|file| in_file(Path::new(&file))),
        Location::File if has_keychain() => Some(rustls_native_certs::load_native_certs()),
        Location::File => openssl_probe::probe().cert_file.as_deref().map(in_file),
        Location::Directories if is_given => {
            directories.map(|all| in_directories(std::env::split_paths(&all)))
        }
        Location::Directories => {
            Some(in_directories(openssl_probe::candidate_cert_dirs().map(Path::to_owned)))
        }
    };
    let CertificateResult { certs, errors, .. } = found.unwrap_or_default();
    for error in errors {
        if is_given {
            tracing::warn!(%error, "cannot read a certificate of SSL_CERT_FILE or SSL_CERT_DIR");
        } else {
            tracing::debug!(%error, "cannot read a certificate of the system");
        }
    }
    tracing::debug!(?location, certificates = certs.len(), "read the system's certificates");
    certs
}

fn in_file(file: &Path) -> CertificateResult {
    load_certs_from_paths(Some(file), None)
}

fn in_directories(directories: impl Iterator<Item = PathBuf>) -> CertificateResult {
    let mut found = CertificateResult::default();
    for directory in directories {
        let CertificateResult { certs, errors, .. } = load_certs_from_paths(None, Some(&directory));
        found.certs.extend(certs);
        found.errors.extend(errors);
    }
    found
}

#[expect(clippy::disallowed_methods, reason = "OpenSSL's standard variables, not settings")]
fn given(variable: &str) -> Option<OsString> {
    std::env::var_os(variable).filter(|value| !value.is_empty())
}
