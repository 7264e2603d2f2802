//! Times in the headers of a response.

use std::time::{Duration, SystemTime};

use reqwest::header::{DATE, HeaderMap, HeaderName, RETRY_AFTER};

/// The delay of the header `Retry-After`, which is a number of seconds or a date (RFC 9110, section
/// 10.2.3).
pub fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let value = text(headers, RETRY_AFTER)?;
    let date = || httpdate::parse_http_date(value).ok();
    seconds(value).or_else(|| Some(date()?.duration_since(now(headers)).unwrap_or_default()))
}

/// The server's time from the header `Date`, because the clock of this machine may be wrong. Without
/// a valid header, the time of this machine.
pub fn now(headers: &HeaderMap) -> SystemTime {
    let date = text(headers, DATE).and_then(|date| httpdate::parse_http_date(date).ok());
    date.unwrap_or_else(SystemTime::now)
}

fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

/// Parses a number of seconds, which can have a fraction. A number that is too large becomes
/// [`Duration::MAX`].
#[must_use]
pub fn seconds(text: &str) -> Option<Duration> {
    let seconds: f64 = text.parse().ok().filter(|seconds: &f64| *seconds >= 0.0)?;
    Some(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
}
