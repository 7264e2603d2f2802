//! The certificate of a server, from an authority that exists for this one signature.

use jiff::civil::Date;
use openssl::asn1::Asn1Time;
use openssl::bn::{BigNum, MsbOption};
use openssl::ec::{EcGroup, EcKey};
use openssl::error::ErrorStack;
use openssl::hash::MessageDigest;
use openssl::nid::Nid;
use openssl::pkey::{PKey, Private};
use openssl::x509::extension::{
    AuthorityKeyIdentifier, BasicConstraints, ExtendedKeyUsage, KeyUsage, SubjectAlternativeName,
    SubjectKeyIdentifier,
};
use openssl::x509::{X509, X509Builder, X509NameBuilder};
use secrecy::SecretString;

/// How many years a certificate is valid. Its renewal needs a person.
const YEARS: i16 = 10;

/// A certificate of a server, as PEM.
pub struct ServerCertificate {
    /// The authority that signed it. Its key does not exist any more.
    pub ca: String,
    /// The certificate.
    pub certificate: String,
    /// Its private key.
    pub key: SecretString,
    /// The day on which it ends.
    pub not_after: Date,
}

impl ServerCertificate {
    /// A new certificate for a server with these names and addresses, valid from `today`.
    ///
    /// # Errors
    /// If no key can be made, or a name cannot be in a certificate.
    pub fn new(hosts: &[String], today: Date) -> Result<Self, ErrorStack> {
        let not_after = today.saturating_add(jiff::Span::new().years(YEARS));
        let valid = (&*midnight(today)?, &*midnight(not_after)?);

        let authority_key = new_key()?;
        let mut authority = builder("butler-runner server authority", &authority_key, valid)?;
        authority.append_extension(BasicConstraints::new().critical().ca().pathlen(0).build()?)?;
        authority.append_extension(KeyUsage::new().critical().key_cert_sign().build()?)?;
        let identifier =
            SubjectKeyIdentifier::new().build(&authority.x509v3_context(None, None))?;
        authority.append_extension(identifier)?;
        authority.sign(&authority_key, MessageDigest::sha256())?;
        let authority = authority.build();

        let key = new_key()?;
        let mut server = builder("butler-runner server", &key, valid)?;
        server.set_issuer_name(authority.subject_name())?;
        let mut names = SubjectAlternativeName::new();
        for host in hosts {
            if host.parse::<std::net::IpAddr>().is_ok() {
                names.ip(host)
            } else {
                names.dns(host)
            };
        }
        let names = names.build(&server.x509v3_context(Some(&authority), None))?;
        server.append_extension(names)?;
        let context = server.x509v3_context(Some(&authority), None);
        let identifier = AuthorityKeyIdentifier::new().keyid(true).build(&context)?;
        server.append_extension(identifier)?;
        server.append_extension(BasicConstraints::new().critical().build()?)?;
        server.append_extension(KeyUsage::new().critical().digital_signature().build()?)?;
        server.append_extension(ExtendedKeyUsage::new().server_auth().build()?)?;
        server.sign(&authority_key, MessageDigest::sha256())?;
        Ok(Self {
            ca: text(&authority.to_pem()?),
            certificate: text(&server.build().to_pem()?),
            key: text(&key.private_key_to_pem_pkcs8()?).into(),
            not_after,
        })
    }
}

fn new_key() -> Result<PKey<Private>, ErrorStack> {
    let group = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1)?;
    PKey::from_ec_key(EcKey::generate(&group)?)
}

/// A certificate for this key that its own subject issues.
fn builder(
    name: &str,
    key: &PKey<Private>,
    (from, until): (&openssl::asn1::Asn1TimeRef, &openssl::asn1::Asn1TimeRef),
) -> Result<X509Builder, ErrorStack> {
    let mut subject = X509NameBuilder::new()?;
    subject.append_entry_by_nid(Nid::COMMONNAME, name)?;
    let subject = subject.build();
    let mut serial = BigNum::new()?;
    serial.rand(120, MsbOption::MAYBE_ZERO, false)?;
    let mut builder = X509::builder()?;
    // Version 3.
    builder.set_version(2)?;
    builder.set_serial_number(&*serial.to_asn1_integer()?)?;
    builder.set_subject_name(&subject)?;
    builder.set_issuer_name(&subject)?;
    builder.set_not_before(from)?;
    builder.set_not_after(until)?;
    builder.set_pubkey(key)?;
    Ok(builder)
}

/// The begin of a day.
fn midnight(day: Date) -> Result<Asn1Time, ErrorStack> {
    Asn1Time::from_str_x509(&day.strftime("%Y%m%d000000Z").to_string())
}

/// A PEM is text.
fn text(pem: &[u8]) -> String {
    String::from_utf8_lossy(pem).into_owned()
}
