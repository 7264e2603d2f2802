//! Reads the registry's responses: the meaning of a status, whether a report was accepted, and a limited
//! part of the body.
//!
//! A response counts only if it is from the API. A sign-in page, a captive portal or a proxy
//! answers `200` too, and stores nothing. Bodies may be compressed with gzip; limits count what they
//! are inflated to.

use std::io::{ErrorKind, Read};

use flate2::read::MultiGzDecoder;
use reqwest::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName};
use reqwest::{Response, StatusCode};
use serde::Deserialize;
use zeroize::Zeroizing;

use super::error::{Redirect, RegistryError};
use super::rest::asked_rest;

/// How much of an error's body is read: registries have been seen to answer with hundreds of KB of SQL.
const ERROR_BODY: usize = 16 * 1024;

/// The largest answer to a report. The API says `{"status":"ok"}`, and the number of lines.
const REPORT_ANSWER: usize = 64 * 1024;

/// How much of a body is inflated at a time.
const INFLATED: usize = 64 * 1024;

/// How much of an error's message is shown, in characters.
const ERROR_MESSAGE: usize = 300;

/// Whether the connection ended before a byte of the answer came, as it does when the server closes
/// an idle connection just as it is used again. The HTTP library says the first in its own words only.
pub(super) fn was_cut_off(error: &reqwest::Error) -> bool {
    if error.is_connect() || error.is_timeout() {
        return false;
    }
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        let kind = cause.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
        if matches!(kind, Some(ErrorKind::ConnectionReset | ErrorKind::BrokenPipe))
            || cause.to_string().contains("connection closed before message completed")
        {
            return true;
        }
        source = cause.source();
    }
    false
}

/// The URL is dropped from the error: it is in the message's own words, and shorter.
pub(super) fn unreachable(what: &str, source: reqwest::Error) -> RegistryError {
    RegistryError::Unreachable { what: what.to_owned(), source: source.without_url() }
}

pub(super) async fn accept(mut response: Response, what: &str) -> Result<Response, RegistryError> {
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    if status == StatusCode::CONFLICT {
        return Err(RegistryError::RunOver);
    }
    let redirect = response
        .headers()
        .get(reqwest::header::LOCATION)
        .filter(|_| status.is_redirection())
        .and_then(|location| response.url().join(location.to_str().ok()?).ok())
        .map(|location| {
            if location.origin() == response.url().origin() {
                Redirect::Within(location.path().to_owned())
            } else {
                Redirect::Away(location.origin().ascii_serialization())
            }
        });
    let body = read(&mut response, ERROR_BODY).await.ok().flatten().unwrap_or_default();
    Err(RegistryError::Refused {
        what: what.to_owned(),
        status,
        message: message(status, &body),
        retry_after: asked_rest(response.headers(), &body),
        redirect,
        odd_run_id: None,
    })
}

/// Reads the answer to a report that should have been stored.
///
/// # Errors
/// When the registry refuses the report, or the answer is not one of its API: a JSON object, or
/// nothing at all with 200 or 204.
pub(super) async fn accept_report(response: Response, what: &str) -> Result<(), RegistryError> {
    let mut response = accept(response, what).await?;
    let body = read(&mut response, REPORT_ANSWER)
        .await
        .map_err(|source| unreachable(what, source))?
        .ok_or_else(|| RegistryError::Answer { what: what.to_owned() })?;
    let is_api = if body.is_empty() {
        matches!(response.status(), StatusCode::OK | StatusCode::NO_CONTENT)
            && media_type(response.headers()).is_none_or(|media_type| is_json(&media_type))
    } else {
        serde_json::from_slice::<serde_json::Map<_, _>>(&body).is_ok()
    };
    if is_api { Ok(()) } else { Err(RegistryError::Answer { what: what.to_owned() }) }
}

/// The media type of a body, in lower case and without parameters.
fn media_type(headers: &HeaderMap) -> Option<String> {
    let value = lower_case(headers, &CONTENT_TYPE)?;
    Some(value.split(';').next().unwrap_or_default().trim().to_owned())
}

fn is_json(media_type: &str) -> bool {
    media_type == "application/json" || media_type.ends_with("+json")
}

fn lower_case(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let value = headers.get(name)?;
    Some(String::from_utf8_lossy(value.as_bytes()).trim().to_ascii_lowercase())
}

/// Reads a body into memory that is zeroed when it is dropped, inflated where it is compressed. None
/// when it is longer than `limit`, or compressed in a way that cannot be read.
pub(super) async fn read(
    response: &mut Response,
    limit: usize,
) -> Result<Option<Zeroizing<Vec<u8>>>, reqwest::Error> {
    let announced = response.content_length().and_then(|length| usize::try_from(length).ok());
    let mut body = Zeroizing::new(Vec::with_capacity(announced.unwrap_or(64 * 1024).min(limit)));
    while let Some(chunk) = response.chunk().await? {
        if body.len() + chunk.len() > limit {
            return Ok(None);
        }
        body.extend_from_slice(&chunk);
    }
    // No other coding is ever asked for; gzip is what the API may use unasked.
    Ok(match lower_case(response.headers(), &CONTENT_ENCODING).as_deref() {
        None | Some("" | "identity") => Some(body),
        Some("gzip" | "x-gzip") => inflated(&body, limit),
        Some(_) => None,
    })
}

/// What `compressed` holds; none where it is damaged, cut off, or longer than `limit`.
fn inflated(compressed: &[u8], limit: usize) -> Option<Zeroizing<Vec<u8>>> {
    let mut body = Zeroizing::new(Vec::with_capacity(INFLATED.min(limit)));
    if compressed.is_empty() {
        return Some(body);
    }
    let mut decoder = MultiGzDecoder::new(compressed);
    let mut chunk = Zeroizing::new(vec![0; INFLATED]);
    loop {
        let length = decoder.read(&mut chunk).ok()?;
        if length == 0 {
            return Some(body);
        }
        if body.len() + length > limit {
            return None;
        }
        body.extend_from_slice(&chunk[..length]);
    }
}

/// `{"error":{"message","code"}}` in one line; nothing where there is nothing to say.
fn message(status: StatusCode, body: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Answer {
        error: Details,
    }
    #[derive(Deserialize)]
    struct Details {
        message: Option<String>,
        code: Option<String>,
    }
    let text = match serde_json::from_slice::<Answer>(body) {
        // Database errors can quote values of plans or outputs, which are not redacted.
        Ok(Answer { error: Details { code: Some(code), .. } }) if status.is_server_error() => code,
        Ok(Answer { error: Details { message, code } }) => {
            [code, message].into_iter().flatten().collect::<Vec<_>>().join(": ")
        }
        Err(_) if status.is_server_error() => String::new(),
        Err(_) => String::from_utf8_lossy(body).into_owned(),
    };
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match text.char_indices().nth(ERROR_MESSAGE) {
        _ if text.is_empty() => String::new(),
        None => format!(": {text}"),
        Some((end, _)) => format!(": {} …", &text[..end]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_is_inflated_up_to_the_limit_and_read_whole_or_not_at_all() {
        use std::io::Write;
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(&vec![b'x'; 1_000_000]).unwrap();
        let bomb = encoder.finish().unwrap();
        assert!(bomb.len() < 2000, "{} bytes", bomb.len());
        assert_eq!(inflated(&bomb, 1_000_000).unwrap().len(), 1_000_000);
        assert!(inflated(&bomb, 999_999).is_none());
        assert!(inflated(&bomb[..bomb.len() - 1], 1_000_000).is_none());
        assert!(inflated(b"{}", 1_000_000).is_none());
        assert!(inflated(b"", 1_000_000).unwrap().is_empty());
    }

    #[test]
    fn what_a_failing_database_quotes_is_not_repeated() {
        let body = br#"{"error":{"message":"insert (hunter22) failed","code":"INTERNAL"}}"#;
        assert_eq!(message(StatusCode::INTERNAL_SERVER_ERROR, body), ": INTERNAL");
        assert_eq!(message(StatusCode::BAD_GATEWAY, b"insert (hunter22) failed"), "");
    }

    #[test]
    fn error_bodies_become_one_short_line() {
        assert_eq!(
            message(
                StatusCode::NOT_FOUND,
                br#"{"error":{"message":"Run not\nfound","code":"RUN_NOT_FOUND"}}"#
            ),
            ": RUN_NOT_FOUND: Run not found"
        );
        assert_eq!(message(StatusCode::NOT_FOUND, b""), "");
        assert!(message(StatusCode::NOT_FOUND, "ü".repeat(100_000).as_bytes()).len() < 1000);
    }
}
