//! Verifies the certificates of servers. The trusted certificates are read when the first server
//! presents its own, so that a client that only uses HTTP never reads them.

use std::sync::{Arc, OnceLock};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, OtherError, SignatureScheme};

use super::roots::{Location, Presented, Roots, of_system};

/// The system does not have trusted certificates.
#[derive(Debug, thiserror::Error)]
#[error("the system has no trusted certificates to verify it with")]
struct NothingTrusted;

/// Trusts the system's certificates and those of a bundle.
#[derive(Debug)]
pub(super) struct Verifier {
    bundle: Vec<CertificateDer<'static>>,
    algorithms: WebPkiSupportedAlgorithms,
    /// The certificates of the bundle and of the system's file.
    first: OnceLock<Roots>,
    /// The certificates of the system's directories, for issuers that `first` does not contain.
    more: OnceLock<Roots>,
}

impl Verifier {
    pub(super) fn new(
        bundle: Vec<CertificateDer<'static>>,
        algorithms: WebPkiSupportedAlgorithms,
    ) -> Self {
        Self { bundle, algorithms, first: OnceLock::new(), more: OnceLock::new() }
    }

    fn first(&self, now: UnixTime) -> &Roots {
        self.first.get_or_init(|| {
            let mut certificates = of_system(Location::File);
            certificates.extend_from_slice(&self.bundle);
            Roots::new(certificates, now, &self.algorithms)
        })
    }

    fn more(&self, now: UnixTime) -> &Roots {
        self.more
            .get_or_init(|| Roots::new(of_system(Location::Directories), now, &self.algorithms))
    }

    fn check_trust(&self, presented: Presented<'_>) -> Result<(), Error> {
        let (first, now) = (self.first(presented.now), presented.now);
        first.check_trust(presented).or_else(|error| {
            let more = self.more(now);
            if first.is_empty() && more.is_empty() {
                return Err(CertificateError::Other(OtherError(Arc::new(NothingTrusted))).into());
            }
            more.check_trust(presented).map_err(|_| error)
        })
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let parsed = &ParsedCertificate::try_from(certificate)?;
        let algorithms = &self.algorithms;
        self.check_trust(Presented { certificate, parsed, intermediates, now, algorithms })?;
        verify_server_name(parsed, name)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

#[cfg(test)]
#[path = "verifier_tests.rs"]
mod tests;
