//! Reads the registry's responses: the meaning of a status, whether a report was accepted, and a limited
//! part of the body.
//!
//! A response counts only if it is from the API. A sign-in page, a captive portal or a proxy
//! returns `200` too, and stores nothing. Bodies may be compressed with gzip; limits apply to the
//! decompressed size.

use std::io::ErrorKind;

use reqwest::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName};
use reqwest::{Response, StatusCode};
use serde::Deserialize;

use super::error::{Redirect, RegistryError};
use super::requested_delay::requested_delay;
use butler_base::http::decompress;

/// How much of an error's body is read, in bytes: some registries return hundreds of KB of SQL.
const MAX_ERROR_BODY: usize = 16 * 1024;

/// The largest accepted response to a report, in bytes. The API returns `{"status":"ok"}` and the number
/// of lines.
const MAX_REPORT_RESPONSE: usize = 64 * 1024;

/// How much of an error's message is shown, in characters.
const ERROR_MESSAGE: usize = 300;

/// Whether the connection ended before the first byte of the response, as when the server closes an
/// idle connection while it is used again. The HTTP library reports that only in its message.
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

/// Drops the URL from the error: the message names the operation.
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
    let body = read(&mut response, MAX_ERROR_BODY).await.ok().flatten().unwrap_or_default();
    Err(RegistryError::Refused {
        what: what.to_owned(),
        status,
        message: message(status, &body),
        retry_after: requested_delay(response.headers(), &body),
        redirect,
        odd_run_id: None,
    })
}

/// Checks that the registry stored a report.
///
/// # Errors
/// When the registry refuses the report, or the response is not from its API: that sends a JSON object,
/// or no body with 200 or 204.
pub(super) async fn accept_report(response: Response, what: &str) -> Result<(), RegistryError> {
    let mut response = accept(response, what).await?;
    let body = read(&mut response, MAX_REPORT_RESPONSE)
        .await
        .map_err(|source| unreachable(what, source))?
        .ok_or_else(|| RegistryError::UnknownFormat { what: what.to_owned() })?;
    let is_api = if body.is_empty() {
        matches!(response.status(), StatusCode::OK | StatusCode::NO_CONTENT)
            && media_type(response.headers()).is_none_or(|media_type| is_json(&media_type))
    } else {
        serde_json::from_slice::<serde_json::Map<_, _>>(&body).is_ok()
    };
    if is_api { Ok(()) } else { Err(RegistryError::UnknownFormat { what: what.to_owned() }) }
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

/// Reads a body, and decompresses it if it is compressed with gzip. `None` if it is longer than `limit`
/// bytes, or compressed in another way.
pub(super) async fn read(
    response: &mut Response,
    limit: usize,
) -> Result<Option<Vec<u8>>, reqwest::Error> {
    let announced = response.content_length().and_then(|length| usize::try_from(length).ok());
    let mut body = Vec::with_capacity(announced.unwrap_or(64 * 1024).min(limit));
    while let Some(chunk) = response.chunk().await? {
        if body.len() + chunk.len() > limit {
            return Ok(None);
        }
        body.extend_from_slice(&chunk);
    }
    // No coding is requested, but the API may use gzip.
    Ok(match lower_case(response.headers(), &CONTENT_ENCODING).as_deref() {
        None | Some("" | "identity") => Some(body),
        Some("gzip" | "x-gzip") => decompress(&body, limit).ok(),
        Some(_) => None,
    })
}

/// The message of an error body, in one line. The API sends `{"error":{"message","code"}}`.
fn message(status: StatusCode, body: &[u8]) -> String {
    #[derive(Deserialize)]
    struct ErrorResponse {
        error: Details,
    }
    #[derive(Deserialize)]
    struct Details {
        message: Option<String>,
        code: Option<String>,
    }
    let text = match serde_json::from_slice::<ErrorResponse>(body) {
        // Database errors can quote values of plans or outputs, which are not redacted.
        Ok(ErrorResponse { error: Details { code: Some(code), .. } })
            if status.is_server_error() =>
        {
            code
        }
        Ok(ErrorResponse { error: Details { message, code } }) => {
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
    fn message_of_a_server_error_is_not_shown() {
        let body = br#"{"error":{"message":"insert (hunter22) failed","code":"INTERNAL"}}"#;
        assert_eq!(message(StatusCode::INTERNAL_SERVER_ERROR, body), ": INTERNAL");
        assert_eq!(message(StatusCode::BAD_GATEWAY, b"insert (hunter22) failed"), "");
    }

    #[test]
    fn error_body_is_shown_as_one_short_line() {
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
