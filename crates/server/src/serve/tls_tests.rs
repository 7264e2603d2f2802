use std::path::Path;

use openssl::asn1::Asn1Time;
use openssl::ec::{EcGroup, EcKey};
use openssl::hash::MessageDigest;
use openssl::nid::Nid;
use openssl::pkey::PKey;
use openssl::ssl::{SslConnector, SslMethod, SslVerifyMode};
use openssl::x509::{X509, X509NameBuilder};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};

use super::super::limits::{Limits, Places};
use super::*;

/// Writes a new certificate and its key.
fn write(directory: &Path) -> TlsFiles {
    let group = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1).unwrap();
    let key = PKey::from_ec_key(EcKey::generate(&group).unwrap()).unwrap();
    let mut name = X509NameBuilder::new().unwrap();
    name.append_entry_by_text("CN", "localhost").unwrap();
    let name = name.build();
    let mut builder = X509::builder().unwrap();
    builder.set_version(2).unwrap();
    builder.set_subject_name(&name).unwrap();
    builder.set_issuer_name(&name).unwrap();
    builder.set_not_before(&Asn1Time::days_from_now(0).unwrap()).unwrap();
    builder.set_not_after(&Asn1Time::days_from_now(2).unwrap()).unwrap();
    builder.set_pubkey(&key).unwrap();
    builder.sign(&key, MessageDigest::sha256()).unwrap();
    let files =
        TlsFiles { certificate: directory.join("cert.pem"), key: directory.join("key.pem") };
    std::fs::write(&files.certificate, builder.build().to_pem().unwrap()).unwrap();
    std::fs::write(&files.key, key.private_key_to_pem_pkcs8().unwrap()).unwrap();
    files
}

/// Gives a file a time of its own.
fn touch(path: &Path, seconds: u64) {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 + seconds);
    std::fs::File::options().append(true).open(path).unwrap().set_modified(time).unwrap();
}

/// The certificate that the server at `address` presents.
fn presented(address: SocketAddr) -> Vec<u8> {
    let mut connector = SslConnector::builder(SslMethod::tls_client()).unwrap();
    connector.set_verify(SslVerifyMode::NONE);
    let stream = std::net::TcpStream::connect(address).unwrap();
    let stream = connector.build().connect("localhost", stream).unwrap();
    stream.ssl().peer_certificate().unwrap().to_pem().unwrap()
}

/// A server whose connections end at once.
async fn serve(files: &TlsFiles) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let acceptor = accepting(files.clone(), Duration::ZERO).unwrap();
    let places = Places::new(Limits { all: 100, per_address: 100 }, &[]);
    let mut listener = TlsListener::new(LimitedListener::new(listener, places), acceptor);
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            listener.accept().await;
        }
    });
    address
}

async fn asked(address: SocketAddr) -> Vec<u8> {
    tokio::task::spawn_blocking(move || presented(address)).await.unwrap()
}

#[tokio::test]
async fn changed_certificate_is_presented_and_a_broken_pair_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let files = write(directory.path());
    let address = serve(&files).await;
    let read = || std::fs::read(&files.certificate).unwrap();
    let first = read();
    assert_eq!(asked(address).await, first);
    write(directory.path());
    touch(&files.certificate, 1);
    let second = read();
    assert_ne!(second, first);
    assert_eq!(asked(address).await, second);
    let key = std::fs::read(&files.key).unwrap();
    // Not PEM, no certificate, and the key of another certificate.
    for (seconds, wrong) in [(2, &b"none"[..]), (3, b""), (4, &key), (5, &first)] {
        std::fs::write(&files.certificate, wrong).unwrap();
        touch(&files.certificate, seconds);
        assert_eq!(asked(address).await, second, "{seconds}");
    }
    std::fs::remove_file(&files.certificate).unwrap();
    assert_eq!(asked(address).await, second);
    write(directory.path());
    touch(&files.certificate, 6);
    assert_eq!(asked(address).await, read());
}

#[tokio::test]
async fn server_does_not_start_with_a_pair_that_does_not_match() {
    let directory = tempfile::tempdir().unwrap();
    let files = write(directory.path());
    let other = tempfile::tempdir().unwrap();
    let mixed = TlsFiles { key: write(other.path()).key, ..files.clone() };
    let text = |files: TlsFiles| {
        let error = acceptor(files).err().unwrap();
        butler_base::error::chain(&error)
    };
    let error = text(mixed.clone());
    assert!(error.contains(mixed.key.to_str().unwrap()), "{error}");
    let swapped = TlsFiles { certificate: files.key.clone(), key: files.certificate };
    let error = text(swapped.clone());
    assert!(error.contains(swapped.certificate.to_str().unwrap()), "{error}");
    let missing = TlsFiles { key: directory.path().join("none"), ..write(directory.path()) };
    assert!(text(missing).contains("none"));
}

#[tokio::test]
async fn handshake_that_hangs_is_ended_and_does_not_block_others() {
    let directory = tempfile::tempdir().unwrap();
    let files = write(directory.path());
    let address = serve(&files).await;
    // They send nothing.
    let mut idle = Vec::new();
    for _ in 0..20 {
        idle.push(TcpStream::connect(address).await.unwrap());
    }
    // If handshakes waited for each other, this one would wait for all limits.
    let bound = Duration::from_mins(1);
    let other = tokio::time::timeout(bound, asked(address)).await.unwrap();
    assert_eq!(other, std::fs::read(&files.certificate).unwrap());
    // The clock moves on by itself from here on.
    tokio::time::pause();
    for mut stream in idle {
        assert_eq!(stream.read(&mut [0]).await.unwrap(), 0);
    }
}
