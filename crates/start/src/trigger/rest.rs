//! Rate limits of CI systems: which limit applies, and for how long.

use std::time::{Duration, SystemTime};

use reqwest::StatusCode;
use reqwest::header::HeaderMap;

use butler_base::http::{now, retry_after};

/// Where a secondary limit does not say how long (GitHub, "Best practices for using the REST API").
const UNSAID: Duration = Duration::from_mins(1);

/// The furthest moment that is shown.
const FAR: Duration = Duration::from_hours(24 * 366);

/// A rate limit that rejected a request. The request had no effect.
#[derive(Debug)]
pub(super) struct Limit {
    /// For how long.
    pub(super) rest: Duration,
    /// Until when, by the server's clock.
    pub(super) until: String,
    /// Which one it is.
    pub(super) which: &'static str,
}

/// The limit that this answer tells of, if it does.
pub(super) fn limit(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Option<Limit> {
    let is_empty = ["x-ratelimit-remaining", "ratelimit-remaining"]
        .iter()
        .any(|name| headers.get(*name).is_some_and(|value| value == "0"));
    // GitHub says of its secondary limits only in words that they are limits.
    let says_so = || {
        let text = String::from_utf8_lossy(&body[..body.len().min(4096)]).to_lowercase();
        text.contains("rate limit") || text.contains("abuse detection")
    };
    let asked = retry_after(headers);
    let limited = match status {
        StatusCode::TOO_MANY_REQUESTS => true,
        StatusCode::FORBIDDEN => is_empty || asked.is_some() || says_so(),
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
        // The second in which it ends is still part of it.
        Some(at.duration_since(now).unwrap_or_default() + Duration::from_secs(1))
    };
    let rest = asked.or_else(|| is_empty.then(by_clock).flatten()).unwrap_or(UNSAID);
    Some(Limit {
        rest,
        until: moment(now, rest),
        which: if is_empty { "request quota" } else { "burst limit" },
    })
}

/// `after` that time, as people read it: what is further away than anybody waits is only far away.
fn moment(time: SystemTime, after: Duration) -> String {
    let moment = time.checked_add(after.min(FAR)).unwrap_or(time);
    humantime::format_rfc3339_seconds(moment.max(SystemTime::UNIX_EPOCH)).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rest(status: u16, headers: &[(&str, &str)], body: &str) -> Option<u64> {
        let mut map = HeaderMap::new();
        map.insert("date", "Sat, 21 Nov 2026 17:00:00 GMT".parse().unwrap());
        for (name, value) in headers {
            let name: reqwest::header::HeaderName = name.parse().unwrap();
            map.insert(name, value.parse().unwrap());
        }
        let status = StatusCode::from_u16(status).unwrap();
        limit(status, &map, body.as_bytes()).map(|limit| limit.rest.as_secs())
    }

    #[test]
    fn each_way_of_saying_that_there_is_a_limit_is_understood() {
        // 17:00:30 by the server's clock, which counts.
        let reset = ("x-ratelimit-reset", "1795280430");
        let empty = ("x-ratelimit-remaining", "0");
        assert_eq!(rest(403, &[empty, reset], ""), Some(31));
        assert_eq!(
            rest(429, &[("ratelimit-remaining", "0"), ("ratelimit-reset", "1795280430")], ""),
            Some(31)
        );
        assert_eq!(rest(403, &[("retry-after", "7"), empty, reset], ""), Some(7));
        assert_eq!(rest(429, &[("x-ratelimit-remaining", "12"), reset], ""), Some(60));
        let words = r#"{"message": "You have exceeded a secondary rate limit."}"#;
        assert_eq!(rest(403, &[], words), Some(60));
        assert_eq!(rest(403, &[empty], ""), Some(60));
        assert_eq!(rest(429, &[("retry-after", "99999999999999999999")], ""), Some(u64::MAX));
    }

    #[test]
    fn a_refusal_is_no_limit() {
        let left = ("x-ratelimit-remaining", "4999");
        assert_eq!(rest(403, &[left], "Resource not accessible by integration"), None);
        assert_eq!(rest(404, &[("x-ratelimit-remaining", "0")], ""), None);
        assert_eq!(rest(503, &[("retry-after", "7")], ""), None);
    }
}
