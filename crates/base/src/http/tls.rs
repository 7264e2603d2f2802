//! The TLS configuration of all clients: versions 1.2 and 1.3, HTTP/2 if the server supports it,
//! and certificates that are read on demand ([`super::verifier`]).
//!
//! Clients with the same bundle share one configuration, and therefore the certificates.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use rustls::ClientConfig;
use rustls::client::Resumption;
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;

use super::error::HttpError;
use super::roots::{Location, in_bundle, of_system};
use super::verifier::Verifier;

/// The last configuration, with the content of its CA bundle. If the file has changed since, a new
/// configuration is built.
static LAST: Mutex<Option<(Option<Vec<u8>>, ClientConfig)>> = Mutex::new(None);

/// A configuration that trusts the system's certificates and those in the bundle.
pub(super) fn config(ca_bundle: Option<&Path>) -> Result<ClientConfig, HttpError> {
    let bundle = ca_bundle.map(read_bundle).transpose()?;
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((known, config)) = &*last
        && *known == bundle
    {
        return Ok(config.clone());
    }
    let trusted = match (ca_bundle, &bundle) {
        (Some(path), Some(pem)) => certificates(path, pem)?,
        _ => Vec::new(),
    };
    let config = trusting(trusted).map_err(HttpError::Tls)?;
    *last = Some((bundle, config.clone()));
    Ok(config)
}

fn trusting(bundle: Vec<CertificateDer<'static>>) -> Result<ClientConfig, rustls::Error> {
    let provider = ring::default_provider();
    let verifier = Verifier::new(bundle, provider.signature_verification_algorithms);
    let mut config = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    // The stored state of a TLS 1.2 session can decrypt the session. The library stores it even if
    // resumption is disabled for TLS 1.2 only, so resumption is disabled for all versions.
    config.resumption = Resumption::disabled();
    Ok(config)
}

/// The configuration for another protocol than HTTP. `protocols` is what ALPN offers.
///
/// # Errors
/// If the bundle cannot be read or does not contain a certificate.
pub fn tls_config(
    ca_bundle: Option<&Path>,
    protocols: &[&[u8]],
) -> Result<ClientConfig, HttpError> {
    let mut config = config(ca_bundle)?;
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    Ok(config)
}

/// Checks a CA bundle without reading the system's certificates.
///
/// # Errors
/// If it cannot be read or does not contain a certificate.
pub fn check_bundle(path: &Path) -> Result<(), HttpError> {
    certificates(path, &read_bundle(path)?).map(drop)
}

/// Whether the system has trusted certificates. Reads them.
#[must_use]
pub fn has_system_certificates() -> bool {
    [Location::File, Location::Directories]
        .into_iter()
        .any(|location| !of_system(location).is_empty())
}

fn read_bundle(path: &Path) -> Result<Vec<u8>, HttpError> {
    std::fs::read(path).map_err(|source| HttpError::ReadBundle { path: path.to_owned(), source })
}

fn certificates(path: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, HttpError> {
    let certificates = in_bundle(pem);
    if certificates.is_empty() {
        return Err(HttpError::EmptyBundle { path: path.to_owned() });
    }
    Ok(certificates)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use openssl::ssl::{AlpnError, SslAcceptor, SslMethod, SslVersion, select_next_proto};
    use rustls::{ClientConnection, ProtocolVersion, Stream};

    use super::*;
    use crate::http::test_certificates::{Pair, SERVER};

    /// The TLS version and protocol of a connection to a server that supports only `version` and the
    /// ALPN list `protocol`, and whether a second connection resumes the session.
    fn agreed(version: SslVersion, protocol: &'static [u8]) -> Result<Agreed, String> {
        let server = Pair::new(SERVER, None);
        let mut acceptor = SslAcceptor::mozilla_intermediate_v5(SslMethod::tls_server()).unwrap();
        acceptor.set_certificate(&server.0).unwrap();
        acceptor.set_private_key(&server.1).unwrap();
        // OpenSSL's own security level must not reject the connection.
        acceptor.set_security_level(0);
        acceptor.set_min_proto_version(Some(version)).unwrap();
        acceptor.set_max_proto_version(Some(version)).unwrap();
        acceptor.set_alpn_select_callback(move |_, offered| {
            select_next_proto(protocol, offered).ok_or(AlpnError::NOACK)
        });
        let (acceptor, listener) = (acceptor.build(), TcpListener::bind("127.0.0.1:0").unwrap());
        let address = listener.local_addr().unwrap();
        let answers = std::thread::spawn(move || {
            [(); 2].map(|()| {
                let stream = listener.accept().unwrap().0;
                let Ok(mut stream) = acceptor.accept(stream) else { return false };
                stream.write_all(b"!").unwrap();
                stream.shutdown().unwrap();
                stream.ssl().session_reused()
            })
        });
        let bundle = CertificateDer::from(server.0.to_der().unwrap());
        let config = Arc::new(trusting(vec![bundle]).unwrap());
        let asked = [(); 2].map(|()| {
            let name = "localhost".try_into().unwrap();
            let mut connection = ClientConnection::new(config.clone(), name).unwrap();
            let mut stream = TcpStream::connect(address).unwrap();
            let mut text = String::new();
            let read = Stream::new(&mut connection, &mut stream).read_to_string(&mut text);
            read.map_err(|error| error.to_string())?;
            assert_eq!(text, "!");
            let protocol = connection.alpn_protocol().map(<[u8]>::to_vec);
            Ok((connection.protocol_version().unwrap(), protocol))
        });
        let [_, is_resumed] = answers.join().unwrap();
        let [_, second] = asked;
        second.map(|(version, protocol)| (version, protocol, is_resumed))
    }

    type Agreed = (ProtocolVersion, Option<Vec<u8>>, bool);

    #[test]
    fn tls_1_2_and_1_3_with_http_1_and_2_are_supported_without_session_resumption() {
        let (http2, http1) = (Some(b"h2".to_vec()), Some(b"http/1.1".to_vec()));
        let newer = agreed(SslVersion::TLS1_3, b"\x02h2\x08http/1.1").unwrap();
        assert_eq!(newer, (ProtocolVersion::TLSv1_3, http2, false));
        let older = agreed(SslVersion::TLS1_2, b"\x08http/1.1").unwrap();
        assert_eq!(older, (ProtocolVersion::TLSv1_2, http1, false));
        let error = agreed(SslVersion::TLS1_1, b"\x08http/1.1").unwrap_err();
        assert!(error.contains("ProtocolVersion"), "{error}");
    }
}
