//! Sends notifications over HTTP.

use std::path::{Path, PathBuf};
use std::time::Duration;

use butler_base::blocking::blocking;
use butler_base::error::is_about_certificate;
use butler_base::http::{self, Redirects, retry_after};
use reqwest::header::{CONNECTION, CONTENT_TYPE};
use reqwest::{RequestBuilder, StatusCode};
use secrecy::{ExposeSecret as _, SecretString};
use url::{Host, Url};

use super::message::Delivery;
use super::receiver::Receiver;
use super::{generic, slack, teams};
use crate::attempts::Secrets;
use crate::config::{NotificationFormat, SecretSource};

/// How long a receiver may take for its answer.
const TIMEOUT: Duration = Duration::from_secs(30);

/// How a try ended.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Answer {
    /// The receiver has the notification.
    Acknowledged,
    /// It will never take it.
    Refused(String),
    /// It did not take it now, and says perhaps when to try again.
    Failed(String, Option<Duration>),
}

/// Brings a notification to a receiver.
pub(super) trait Transport: Send + Sync + 'static {
    /// Tries once. The answer has no secret in it.
    fn send(&self, receiver: &Receiver, delivery: &Delivery)
    -> impl Future<Output = Answer> + Send;
}

/// Sends over HTTP. Each request has a client of its own, which leaves no address behind in the buffers of an idle
/// connection.
#[derive(Debug)]
pub(super) struct Http {
    pub(super) secrets: Secrets,
    pub(super) ca_bundle: Option<PathBuf>,
}

impl Transport for Http {
    async fn send(&self, receiver: &Receiver, delivery: &Delivery) -> Answer {
        let request = match self.request(receiver, delivery).await {
            Ok(request) => request,
            Err(why) => return Answer::Failed(why, None),
        };
        match request.timeout(TIMEOUT).send().await {
            Ok(answer) => of_status(answer.status(), retry_after(answer.headers())),
            Err(error) => Answer::Failed(describe(&error).to_owned(), None),
        }
    }
}

impl Http {
    async fn request(
        &self,
        receiver: &Receiver,
        delivery: &Delivery,
    ) -> Result<RequestBuilder, String> {
        let entry = &receiver.entry;
        let address = self.read(receiver, &entry.url_file).await?;
        let Address { url, is_loopback } = Address::of(&address)?;
        let build = if is_loopback { http::direct_client } else { http::client };
        let client = build(self.ca_bundle.as_deref(), Redirects::Refuse);
        let client = client.map_err(|error| butler_base::error::chain(&error))?;
        let mut request = client.post(url).header(CONTENT_TYPE, "application/json");
        if is_loopback {
            request = request.header(CONNECTION, "close");
        }
        let body = match entry.format {
            NotificationFormat::Slack => slack::body(delivery),
            NotificationFormat::Teams => teams::body(delivery),
            NotificationFormat::Generic => generic::body(delivery),
        };
        let body = body.to_string().into_bytes();
        if let Some(file) = &entry.secret_file {
            let key = self.read(receiver, file).await?;
            let signature = generic::signature(&key, &body);
            let signature = signature.ok_or("the file of `secret-file` is empty")?;
            request = request
                .header(generic::DELIVERY, &delivery.id)
                .header(generic::EVENT, delivery.notification.event.as_str())
                .header(generic::SIGNATURE, signature);
        }
        Ok(request.body(body))
    }

    /// Reads a file with a secret, each time: one that was rotated needs no restart.
    async fn read(&self, receiver: &Receiver, file: &Path) -> Result<SecretString, String> {
        let (secrets, source) = (self.secrets.clone(), SecretSource::File(file.to_owned()));
        let used_by = format!("the receiver `{}` of notifications", receiver.name);
        let read = blocking(move |_| secrets.read(&source, &used_by)).await;
        read.map_err(|error| butler_base::error::chain(&error))
    }
}

/// Where a receiver listens. Its URL is never printed.
struct Address {
    url: Url,
    is_loopback: bool,
}

impl Address {
    /// The error does not quote the address.
    fn of(text: &SecretString) -> Result<Self, &'static str> {
        let wrong = "the file of `url-file` must contain an https URL, or an http URL with a loopback address";
        let url = Url::parse(text.expose_secret().trim()).map_err(|_| wrong)?;
        let is_loopback = match url.host() {
            Some(Host::Domain(name)) => name.eq_ignore_ascii_case("localhost"),
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => address.to_canonical().is_loopback(),
            None => return Err(wrong),
        };
        match url.scheme() {
            "https" => Ok(Self { url, is_loopback }),
            "http" if is_loopback => Ok(Self { url, is_loopback }),
            _ => Err(wrong),
        }
    }
}

/// What an answer means. A redirect is not followed, and is tried again like other answers that a change at the
/// receiver, or of the file with its address, can repair.
fn of_status(status: StatusCode, asked: Option<Duration>) -> Answer {
    let why = format!("the receiver answered with status {}", status.as_u16());
    match status.as_u16() {
        200..=299 => Answer::Acknowledged,
        400 | 404 | 405 | 410 | 413 | 415 | 422 => Answer::Refused(why),
        429 | 503 => Answer::Failed(why, asked),
        _ => Answer::Failed(why, None),
    }
}

/// Why a request failed. The error itself can contain the address.
fn describe(error: &reqwest::Error) -> &'static str {
    if error.is_timeout() {
        "the receiver did not answer in time"
    } else if is_about_certificate(error) {
        "the certificate of the receiver is not trusted; check --ca-bundle (BUTLER_CA_BUNDLE)"
    } else if error.is_connect() {
        "cannot connect to the receiver"
    } else {
        "the connection to the receiver failed"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_https_and_loopback_are_addresses_and_errors_do_not_quote_them() {
        for (text, expected) in [
            ("https://hooks.slack.com/services/T/B/s3cret", Some(false)),
            ("  https://example.com/hook\n", Some(false)),
            ("https://localhost/hook", Some(true)),
            ("http://localhost:8080/hook", Some(true)),
            ("http://127.0.0.9:8080/hook", Some(true)),
            ("http://[::1]:8080/hook", Some(true)),
            ("http://[::ffff:127.0.0.1]/hook", Some(true)),
            ("http://example.com/s3cret", None),
            ("http://localhost.example.com/s3cret", None),
            ("http://169.254.169.254/s3cret", None),
            ("file:///s3cret", None),
            ("s3cret", None),
            ("", None),
        ] {
            match (Address::of(&text.into()), expected) {
                (Ok(address), Some(is_loopback)) => {
                    assert_eq!(address.is_loopback, is_loopback, "{text}");
                }
                (Err(error), None) => assert!(!error.contains("s3cret"), "{error}"),
                (found, _) => panic!("{text}: {}", found.is_ok()),
            }
        }
    }

    #[test]
    fn permanent_answers_are_refusals_and_waits_are_taken_from_two_of_the_others() {
        let asked = Some(Duration::from_secs(7));
        for code in 200..600_u16 {
            let answer = of_status(StatusCode::from_u16(code).unwrap(), asked);
            match code {
                200..=299 => assert_eq!(answer, Answer::Acknowledged, "{code}"),
                400 | 404 | 405 | 410 | 413 | 415 | 422 => {
                    assert!(matches!(answer, Answer::Refused(_)), "{code}");
                }
                429 | 503 => assert!(matches!(answer, Answer::Failed(_, wait) if wait == asked)),
                _ => assert!(matches!(answer, Answer::Failed(_, None)), "{code}"),
            }
        }
    }
}
