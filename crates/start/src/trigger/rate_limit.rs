//! Rate limits in responses of CI systems: which limit applies, and for how long.

use std::time::{Duration, SystemTime};

use reqwest::StatusCode;
use reqwest::header::HeaderMap;

use butler_base::http::{now, retry_after};

/// The wait for a limit without a stated duration (GitHub, "Best practices for using the REST API").
const DEFAULT_WAIT: Duration = Duration::from_mins(1);

/// The longest wait for which a time is computed; longer ones are shown as this one.
const LONGEST_SHOWN: Duration = Duration::from_hours(24 * 366);

/// A rate limit that rejected a request. The request had no effect.
#[derive(Debug)]
pub(super) struct RateLimit {
    /// The time until the limit ends.
    pub(super) wait: Duration,
    /// The end of the limit by the server's clock (RFC 3339).
    pub(super) until: String,
    /// The kind of limit, for messages.
    pub(super) which: &'static str,
}

/// The limit that a response reports, if it reports one.
pub(super) fn parse_rate_limit(
    status: StatusCode,
    headers: &HeaderMap,
    body: &[u8],
) -> Option<RateLimit> {
    let is_empty = ["x-ratelimit-remaining", "ratelimit-remaining"]
        .iter()
        .any(|name| headers.get(*name).is_some_and(|value| value == "0"));
    // GitHub reports its secondary limits only in the text of the message.
    let is_in_message = || {
        let text = String::from_utf8_lossy(&body[..body.len().min(4096)]).to_lowercase();
        text.contains("rate limit") || text.contains("abuse detection")
    };
    let requested = retry_after(headers);
    let limited = match status {
        StatusCode::TOO_MANY_REQUESTS => true,
        StatusCode::FORBIDDEN => is_empty || requested.is_some() || is_in_message(),
        _ => false,
    };
    if !limited {
        return None;
    }
    let now = now(headers);
    let by_clock = || {
        let reset = ["x-ratelimit-reset", "ratelimit-reset"].iter().find_map(|it| headers.get(*it));
        let reset: u64 = reset?.to_str().ok()?.trim().parse().ok()?;
        let at = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(reset))?;
        // The limit includes the second in which it ends.
        Some(at.duration_since(now).unwrap_or_default() + Duration::from_secs(1))
    };
    let wait = requested.or_else(|| is_empty.then(by_clock).flatten()).unwrap_or(DEFAULT_WAIT);
    Some(RateLimit {
        wait,
        until: end_time(now, wait),
        which: if is_empty { "request quota" } else { "burst limit" },
    })
}

/// `time` plus `wait`, as RFC 3339. A wait longer than [`LONGEST_SHOWN`] is cut.
fn end_time(time: SystemTime, wait: Duration) -> String {
    let moment = time.checked_add(wait.min(LONGEST_SHOWN)).unwrap_or(time);
    humantime::format_rfc3339_seconds(moment.max(SystemTime::UNIX_EPOCH)).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(status: u16, headers: &[(&str, &str)], body: &str) -> Option<u64> {
        let mut map = HeaderMap::new();
        map.insert("date", "Sat, 21 Nov 2026 17:00:00 GMT".parse().unwrap());
        for (name, value) in headers {
            let name: reqwest::header::HeaderName = name.parse().unwrap();
            map.insert(name, value.parse().unwrap());
        }
        let status = StatusCode::from_u16(status).unwrap();
        parse_rate_limit(status, &map, body.as_bytes()).map(|limit| limit.wait.as_secs())
    }

    #[test]
    fn rate_limit_is_read_from_headers_and_from_the_message() {
        // 17:00:30 by the server's clock, which counts.
        let reset = ("x-ratelimit-reset", "1795280430");
        let empty = ("x-ratelimit-remaining", "0");
        assert_eq!(wait(403, &[empty, reset], ""), Some(31));
        assert_eq!(
            wait(429, &[("ratelimit-remaining", "0"), ("ratelimit-reset", "1795280430")], ""),
            Some(31)
        );
        assert_eq!(wait(403, &[("retry-after", "7"), empty, reset], ""), Some(7));
        assert_eq!(wait(429, &[("x-ratelimit-remaining", "12"), reset], ""), Some(60));
        let words = r#"{"message": "You have exceeded a secondary rate limit."}"#;
        assert_eq!(wait(403, &[], words), Some(60));
        assert_eq!(wait(403, &[empty], ""), Some(60));
        assert_eq!(wait(429, &[("retry-after", "99999999999999999999")], ""), Some(u64::MAX));
    }

    #[test]
    fn other_refusals_are_not_rate_limits() {
        let left = ("x-ratelimit-remaining", "4999");
        assert_eq!(wait(403, &[left], "Resource not accessible by integration"), None);
        assert_eq!(wait(404, &[("x-ratelimit-remaining", "0")], ""), None);
        assert_eq!(wait(503, &[("retry-after", "7")], ""), None);
    }
}
