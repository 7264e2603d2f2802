//! Finds a certificate error of TLS below the errors of other libraries, and describes it in words.
//!
//! Such an error is permanent, so callers do not retry.

use std::error::Error;
use std::io;
use std::time::{Duration, SystemTime};

use rustls::CertificateError;
use rustls::pki_types::UnixTime;

/// Whether `error` is that the server's certificate was rejected.
#[must_use]
pub fn is_about_certificate(error: &(dyn Error + 'static)) -> bool {
    let mut found = Some(error);
    while let Some(error) = found {
        if refusal(error).is_some() {
            return true;
        }
        found = error.source();
    }
    false
}

/// The message of one error, without its sources.
pub(super) fn message(error: &(dyn Error + 'static)) -> String {
    refusal(error).map_or_else(|| error.to_string(), in_words)
}

/// An I/O error displays the error that it wraps as itself, and not as its source.
fn refusal<'error>(error: &'error (dyn Error + 'static)) -> Option<&'error CertificateError> {
    if let Some(error) = error.downcast_ref::<io::Error>() {
        return refusal(error.get_ref()? as &'error (dyn Error + 'static));
    }
    match error.downcast_ref()? {
        rustls::Error::InvalidCertificate(refusal) => Some(refusal),
        _ => None,
    }
}

fn in_words(refusal: &CertificateError) -> String {
    match refusal {
        CertificateError::UnknownIssuer => {
            "the server's certificate was issued by an untrusted authority".to_owned()
        }
        CertificateError::ExpiredContext { not_after, .. } => {
            format!("the server's certificate expired at {}", date(*not_after))
        }
        CertificateError::NotValidYetContext { not_before, .. } => {
            format!("the server's certificate is not valid before {}", date(*not_before))
        }
        CertificateError::NotValidForNameContext { expected, .. } => {
            format!("the server's certificate is not for `{}`", expected.to_str())
        }
        CertificateError::Other(other) => {
            format!("the server's certificate is not accepted: {other}")
        }
        other => format!("the server's certificate is not accepted: {other}"),
    }
}

fn date(time: UnixTime) -> String {
    let time = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(time.as_secs()));
    time.map_or_else(|| "an unknown time".to_owned(), httpdate::fmt_http_date)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::chain;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot connect")]
    struct Connect(#[source] io::Error);

    fn connect(error: rustls::Error) -> Connect {
        Connect(io::Error::other(io::Error::new(io::ErrorKind::InvalidData, error)))
    }

    #[test]
    fn certificate_errors_are_described_in_words() {
        let (time, seconds) = (UnixTime::now(), |at| UnixTime::since_unix_epoch(at));
        let expired = CertificateError::ExpiredContext {
            time,
            not_after: seconds(Duration::from_secs(784_111_777)),
        };
        let name = CertificateError::NotValidForNameContext {
            expected: "git.example.com".try_into().unwrap(),
            presented: vec!["DnsName(\"localhost\")".to_owned()],
        };
        let said = "cannot connect: the server's certificate";
        for (refusal, words) in [
            (CertificateError::UnknownIssuer, "was issued by an untrusted authority"),
            (expired, "expired at Sun, 06 Nov 1994 08:49:37 GMT"),
            (name, "is not for `git.example.com`"),
            (CertificateError::BadSignature, "is not accepted: BadSignature"),
        ] {
            let error = connect(refusal.into());
            assert_eq!(chain(&error), format!("{said} {words}"));
            assert!(is_about_certificate(&error));
        }
    }

    #[test]
    fn other_errors_of_tls_are_not_about_certificates() {
        let error = connect(rustls::Error::DecryptError);
        assert!(!is_about_certificate(&error));
        assert_eq!(chain(&error), "cannot connect: cannot decrypt peer's message");
        assert!(!is_about_certificate(&io::Error::from(io::ErrorKind::TimedOut)));
    }
}
