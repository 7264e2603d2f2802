//! The delay that the registry requests before a retry: in a header, or in the body of its error.

use std::time::Duration;

use reqwest::header::HeaderMap;
use serde::Deserialize;
use serde_json::Value;

use butler_base::http::{retry_after, seconds};

/// The delay from `Retry-After`, in seconds or as a date (RFC 9110, section 10.2.3), or else from the
/// body of a rate limiter, in seconds (registry API, Errors).
pub(super) fn requested_delay(headers: &HeaderMap, body: &[u8]) -> Option<Duration> {
    retry_after(headers).or_else(|| in_body(body))
}

fn in_body(body: &[u8]) -> Option<Duration> {
    #[derive(Deserialize)]
    struct ErrorResponse {
        error: Details,
    }
    #[derive(Deserialize)]
    struct Details {
        #[serde(rename = "retryAfter")]
        retry_after: Value,
    }
    match serde_json::from_slice::<ErrorResponse>(body).ok()?.error.retry_after {
        Value::Number(number) => seconds(&number.to_string()),
        Value::String(text) => seconds(text.trim()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use reqwest::header::{DATE, HeaderName, RETRY_AFTER};

    use super::*;

    fn delay(headers: &[(HeaderName, &str)], body: &str) -> Option<Duration> {
        let headers =
            headers.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect();
        requested_delay(&headers, body.as_bytes())
    }

    #[test]
    fn retry_after_is_read_from_header_or_body() {
        let seven = Some(Duration::from_secs(7));
        assert_eq!(delay(&[(RETRY_AFTER, " 7 ")], ""), seven);
        assert_eq!(delay(&[], r#"{"error":{"code":"RATE_LIMITED","retryAfter":7}}"#), seven);
        assert_eq!(delay(&[], r#"{"error":{"code":"RATE_LIMITED","retryAfter":"7"}}"#), seven);
        let date = "Sat, 21 Nov 2026 17:00:07 GMT";
        let now = (DATE, "Sat, 21 Nov 2026 17:00:00 GMT");
        assert_eq!(delay(&[(RETRY_AFTER, date), now.clone()], ""), seven);
        let past = "Sat, 21 Nov 2026 16:00:00 GMT";
        assert_eq!(delay(&[(RETRY_AFTER, past), now], ""), Some(Duration::ZERO));
        let header_first = delay(&[(RETRY_AFTER, "7")], r#"{"error":{"retryAfter":9}}"#);
        assert_eq!(header_first, seven);
        let soon = SystemTime::now() + Duration::from_hours(1);
        let by_own_clock = delay(&[(RETRY_AFTER, &httpdate::fmt_http_date(soon))], "").unwrap();
        assert!(by_own_clock > Duration::from_secs(3500), "{by_own_clock:?}");
    }

    #[test]
    fn invalid_retry_after_is_ignored() {
        for value in ["", "soon", "-1", "NaN", "Sat, 99 Nov"] {
            assert_eq!(delay(&[(RETRY_AFTER, value)], ""), None, "{value}");
        }
        for body in ["", "{}", r#"{"error":"x"}"#, r#"{"error":{"retryAfter":null}}"#] {
            assert_eq!(delay(&[], body), None, "{body}");
        }
        assert_eq!(delay(&[(RETRY_AFTER, "99999999999999999999999")], ""), Some(Duration::MAX));
    }
}
