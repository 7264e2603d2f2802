//! Creates certificates for tests.

use openssl::asn1::{Asn1Integer, Asn1Time};
use openssl::bn::BigNum;
use openssl::ec::{EcGroup, EcKey};
use openssl::hash::MessageDigest;
use openssl::nid::Nid;
use openssl::pkey::{PKey, Private};
use openssl::x509::extension::{BasicConstraints, SubjectAlternativeName};
use openssl::x509::{X509, X509NameBuilder};
use rustls::pki_types::UnixTime;

/// A certificate and its key.
pub(super) struct Pair(pub(super) X509, pub(super) PKey<Private>);

/// The properties of a certificate.
#[derive(Clone, Copy)]
pub(super) struct Properties {
    pub(super) name: &'static str,
    /// Whether it may sign others; none for a certificate of version 1, which lacks this field.
    pub(super) is_authority: Option<bool>,
    /// The expiry, in days from now.
    pub(super) ends: i64,
}

pub(super) const AUTHORITY: Properties =
    Properties { name: "an authority", is_authority: Some(true), ends: 2 };
pub(super) const SERVER: Properties =
    Properties { name: "localhost", is_authority: Some(false), ends: 2 };
/// A self-signed certificate of a server that may sign others, as `openssl req -x509` creates it.
pub(super) const BOTH: Properties = Properties { is_authority: Some(true), ..SERVER };

impl Pair {
    pub(super) fn new(properties: Properties, issuer: Option<&Self>) -> Self {
        let group = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1).unwrap();
        let key = PKey::from_ec_key(EcKey::generate(&group).unwrap()).unwrap();
        Self::with_key(key, properties, issuer)
    }

    pub(super) fn with_key(
        key: PKey<Private>,
        properties: Properties,
        issuer: Option<&Self>,
    ) -> Self {
        let mut subject = X509NameBuilder::new().unwrap();
        subject.append_entry_by_text("CN", properties.name).unwrap();
        let subject = subject.build();
        let mut builder = X509::builder().unwrap();
        let serial = Asn1Integer::from_bn(&BigNum::from_u32(fastrand::u32(1..)).unwrap()).unwrap();
        builder.set_serial_number(&serial).unwrap();
        builder.set_subject_name(&subject).unwrap();
        builder.set_issuer_name(issuer.map_or(&subject, |it| it.0.subject_name())).unwrap();
        let day = 24 * 60 * 60;
        let now = i64::try_from(UnixTime::now().as_secs()).unwrap();
        builder.set_not_before(&Asn1Time::from_unix(now - 9 * day).unwrap()).unwrap();
        builder.set_not_after(&Asn1Time::from_unix(now + properties.ends * day).unwrap()).unwrap();
        builder.set_pubkey(&key).unwrap();
        if let Some(is_authority) = properties.is_authority {
            builder.set_version(2).unwrap();
            let mut constraints = BasicConstraints::new();
            if is_authority {
                constraints.ca();
            }
            builder.append_extension(constraints.critical().build().unwrap()).unwrap();
            let mut names = SubjectAlternativeName::new();
            let names =
                names.dns(properties.name).build(&builder.x509v3_context(None, None)).unwrap();
            builder.append_extension(names).unwrap();
        }
        let signer = issuer.map_or(&key, |it| &it.1);
        builder.sign(signer, MessageDigest::sha256()).unwrap();
        Self(builder.build(), key)
    }
}
