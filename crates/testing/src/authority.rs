//! A certificate authority for one test, for servers on 127.0.0.1 and localhost.

use std::path::{Path, PathBuf};

use openssl::asn1::Asn1Time;
use openssl::bn::{BigNum, MsbOption};
use openssl::hash::MessageDigest;
use openssl::pkey::{PKey, Private};
use openssl::rsa::Rsa;
use openssl::ssl::{SslAcceptor, SslMethod, SslVerifyMode};
use openssl::x509::extension::{BasicConstraints, KeyUsage, SubjectAlternativeName};
use openssl::x509::{X509, X509Builder, X509NameBuilder};

/// The authority's certificate in a file, and the TLS settings of a server with a certificate of
/// it.
pub struct Authority {
    directory: tempfile::TempDir,
    acceptor: SslAcceptor,
    mutual: SslAcceptor,
    key: PKey<Private>,
    certificate: X509,
    /// The certificate of the server and its key, in PEM.
    server: (Vec<u8>, Vec<u8>),
}

impl Authority {
    /// An authority with a key of its own.
    pub fn create() -> Self {
        Self::of(&["localhost"])
    }

    /// An authority with a certificate for a server with these names.
    pub fn of(hosts: &[&str]) -> Self {
        let (key, certificate) = authority();
        let (server_key, server_certificate) = server(&key, &certificate, hosts);
        Self::with_server(key, certificate, &server_key, &server_certificate)
    }

    /// An authority whose server uses the authority's own certificate, as `openssl req -x509`
    /// creates it.
    pub fn for_itself() -> Self {
        let key = PKey::from_rsa(Rsa::generate(2048).unwrap()).unwrap();
        let mut builder = builder("localhost", None, &key);
        builder.append_extension(BasicConstraints::new().critical().ca().build().unwrap()).unwrap();
        let names = SubjectAlternativeName::new()
            .dns("localhost")
            .ip("127.0.0.1")
            .build(&builder.x509v3_context(None, None))
            .unwrap();
        builder.append_extension(names).unwrap();
        builder.sign(&key, MessageDigest::sha256()).unwrap();
        let certificate = builder.build();
        Self::with_server(key.clone(), certificate.clone(), &key, &certificate)
    }

    fn with_server(
        key: PKey<Private>,
        certificate: X509,
        server_key: &PKey<Private>,
        server_certificate: &X509,
    ) -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("ca.pem"), certificate.to_pem().unwrap()).unwrap();
        let acceptor = || {
            let mut acceptor =
                SslAcceptor::mozilla_intermediate_v5(SslMethod::tls_server()).unwrap();
            acceptor.set_private_key(server_key).unwrap();
            acceptor.set_certificate(server_certificate).unwrap();
            acceptor
        };
        let mut mutual = acceptor();
        mutual.set_ca_file(directory.path().join("ca.pem")).unwrap();
        mutual.set_verify(SslVerifyMode::PEER | SslVerifyMode::FAIL_IF_NO_PEER_CERT);
        let (acceptor, mutual) = (acceptor().build(), mutual.build());
        let pem = server_key.private_key_to_pem_pkcs8().unwrap();
        let server = (server_certificate.to_pem().unwrap(), pem);
        Self { directory, acceptor, mutual, key, certificate, server }
    }

    /// TLS settings of a server that requires a client certificate of this authority.
    pub fn mutual_acceptor(&self) -> SslAcceptor {
        self.mutual.clone()
    }

    /// A client's certificate and its key, in PEM.
    pub fn client(&self, name: &str) -> (Vec<u8>, Vec<u8>) {
        let key = PKey::from_rsa(Rsa::generate(2048).unwrap()).unwrap();
        let mut builder = builder(name, Some(&self.certificate), &key);
        builder.sign(&self.key, MessageDigest::sha256()).unwrap();
        let key = key.private_key_to_pem_pkcs8().unwrap();
        (builder.build().to_pem().unwrap(), key)
    }

    /// The file with the authority's certificate, for `--ca-bundle`.
    pub fn bundle(&self) -> PathBuf {
        Path::join(self.directory.path(), "ca.pem")
    }

    /// The certificate of the server and its key, in PEM.
    pub fn server_pem(&self) -> (Vec<u8>, Vec<u8>) {
        self.server.clone()
    }

    /// Accepts TLS connections with a certificate of this authority.
    pub fn acceptor(&self) -> SslAcceptor {
        self.acceptor.clone()
    }
}

fn builder(name: &str, issuer: Option<&X509>, key: &PKey<Private>) -> X509Builder {
    let mut subject = X509NameBuilder::new().unwrap();
    subject.append_entry_by_text("CN", name).unwrap();
    let subject = subject.build();
    let mut serial = BigNum::new().unwrap();
    serial.rand(120, MsbOption::MAYBE_ZERO, false).unwrap();
    let mut builder = X509::builder().unwrap();
    builder.set_version(2).unwrap();
    builder.set_serial_number(&serial.to_asn1_integer().unwrap()).unwrap();
    builder.set_subject_name(&subject).unwrap();
    builder.set_issuer_name(issuer.map_or(&subject, |issuer| issuer.subject_name())).unwrap();
    builder.set_not_before(&Asn1Time::days_from_now(0).unwrap()).unwrap();
    builder.set_not_after(&Asn1Time::days_from_now(2).unwrap()).unwrap();
    builder.set_pubkey(key).unwrap();
    builder
}

fn authority() -> (PKey<Private>, X509) {
    let key = PKey::from_rsa(Rsa::generate(2048).unwrap()).unwrap();
    // OpenSSL finds an issuer by its name, so each authority needs a unique one.
    let mut number = BigNum::new().unwrap();
    number.rand(64, MsbOption::MAYBE_ZERO, false).unwrap();
    let name = format!("test authority {}", number.to_hex_str().unwrap());
    let mut builder = builder(&name, None, &key);
    builder.append_extension(BasicConstraints::new().critical().ca().build().unwrap()).unwrap();
    let usage = KeyUsage::new().critical().key_cert_sign().crl_sign().build().unwrap();
    builder.append_extension(usage).unwrap();
    builder.sign(&key, MessageDigest::sha256()).unwrap();
    (key, builder.build())
}

fn server(
    authority_key: &PKey<Private>,
    authority: &X509,
    hosts: &[&str],
) -> (PKey<Private>, X509) {
    let key = PKey::from_rsa(Rsa::generate(2048).unwrap()).unwrap();
    let mut builder = builder("localhost", Some(authority), &key);
    let mut names = SubjectAlternativeName::new();
    for host in hosts {
        names.dns(host);
    }
    let context = builder.x509v3_context(Some(authority), None);
    let names = names.ip("127.0.0.1").build(&context).unwrap();
    builder.append_extension(names).unwrap();
    builder.sign(authority_key, MessageDigest::sha256()).unwrap();
    (key, builder.build())
}
