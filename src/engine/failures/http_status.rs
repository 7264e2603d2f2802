//! Finds the HTTP status in the text of an error.
//!
//! A number counts only if the words around it say that it is a status: errors also contain ports, sizes and
//! line numbers.

use memchr::memmem;

/// Words in front of a status, in lower case.
const BEFORE: [&str; 17] = [
    "status",
    "statuscode",
    "httpcode",
    "httpstatus",
    "httpstatuscode",
    "responsecode",
    "code",
    "http",
    "error",
    "response",
    "returned",
    "responded",
    "received",
    "got",
    "answered",
    "failed",
    "failure",
];

/// Reason phrases behind a status, as far as they are needed to recognise it.
const AFTER: [&str; 21] = [
    "bad request",
    "unauthorized",
    "forbidden",
    "not found",
    "method not allowed",
    "conflict",
    "precondition failed",
    "unprocessable",
    "proxy",
    "request timeout",
    "request time-out",
    "too many",
    "internal",
    "bad gateway",
    "gateway",
    "service",
    "backend",
    "slow down",
    "temporarily",
    "bad credentials",
    "origin",
];

/// The first status of an error in `text`, which is in lower case.
pub(super) fn http_status(text: &str) -> Option<u16> {
    let bytes = text.as_bytes();
    let starts = (0..bytes.len().saturating_sub(2)).filter(|&at| {
        matches!(bytes[at], b'4' | b'5')
            && bytes[at + 1..at + 3].iter().all(u8::is_ascii_digit)
            && !at.checked_sub(1).is_some_and(|at| is_part_of_a_word(bytes[at]))
            && !bytes.get(at + 3).is_some_and(|byte| is_part_of_a_word(*byte))
    });
    starts
        .filter(|&at| is_status(&text[..at], &text[at + 3..]))
        .find_map(|at| text[at..at + 3].parse().ok())
}

/// Whether `byte` next to a number makes it a part of something else: a name, a version, an address.
const fn is_part_of_a_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'/') || !byte.is_ascii()
}

fn is_status(before: &str, after: &str) -> bool {
    // `401 No ticket`, `[GET /dashboards/{uid}][403] Forbidden`, `(403): Forbidden`.
    let is_first = before.is_empty() && after.starts_with([' ', ':', '-']);
    let is_bracketed = before.ends_with("][") && after.starts_with(']');
    if is_first || is_bracketed || before.ends_with('(') && after.starts_with("):") {
        return true;
    }
    let after = after.trim_start_matches([' ', ':', '-', '(', '"', ')']);
    if AFTER.iter().any(|phrase| after.starts_with(phrase)) {
        return true;
    }
    // A port follows its host directly, a status follows the address as a word of its own.
    let token = before.trim_end().rsplit(' ').next().unwrap_or_default();
    if before.ends_with(' ')
        && token.ends_with(':')
        && memmem::find(token.as_bytes(), b"://").is_some()
    {
        return true;
    }
    // `HTTP/1.1 503`.
    if before.ends_with(' ') && token.starts_with("http/") {
        return true;
    }
    let words = before.rsplit(|letter: char| !letter.is_ascii_alphabetic());
    let mut words = words.filter(|word| !word.is_empty());
    // `code: 403`, `error (status 503)`, `returned a 502`.
    let is_close = |distance: usize| {
        before.len() < distance || {
            let from = before.floor_char_boundary(before.len() - distance);
            before[from..].contains(|letter: char| letter.is_ascii_alphabetic())
        }
    };
    let close: Vec<_> = if is_close(4) { words.by_ref().take(2).collect() } else { Vec::new() };
    match close.as_slice() {
        [word, ..] if BEFORE.contains(word) => true,
        ["a" | "an" | "with" | "was" | "is", word] => BEFORE.contains(word),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_is_found_in_the_words_of_each_library() {
        for (text, status) in [
            ("https response error statuscode: 403, requestid: 1", Some(403)),
            ("failure sending request: statuscode=429 -- original", Some(429)),
            ("status=403 code=\"authorizationfailed\"", Some(403)),
            ("googleapi: error 403: x does not have access", Some(403)),
            ("{ \"error\": { \"code\": 503, \"message\"", Some(503)),
            ("{\"code\":401,\"message\"", Some(401)),
            ("unexpected http response code 500", Some(500)),
            ("bad response code: 502", Some(502)),
            ("failed to request discovery document: 503 service unavailable", Some(503)),
            ("get https://api.github.com/repos/a/b: 401 bad credentials []", Some(401)),
            ("post https://host:8443/api: 422 validation failed", Some(422)),
            ("unexpected response code: 500 (no cluster leader)", Some(500)),
            ("the server responded with 504", Some(504)),
            ("api returned a 429", Some(429)),
            ("status: 401; code: notauthenticated", Some(401)),
            ("401 no ticket", Some(401)),
            ("[get /dashboards/uid/{uid}][404] not found", Some(404)),
            ("failed to create a key (403): {}", Some(403)),
            ("http/1.1 502", Some(502)),
            ("500", None),
            ("dial tcp 10.0.0.1:443: connect: connection refused", None),
            ("could not read 500 bytes", None),
            ("on main.tf line 404", None),
            ("exited with 128: cloning", None),
            ("vpc-500 in us-west-403 of 1.2.500", None),
            ("host 10.0.0.500 and https://host:500/x", None),
            ("", None),
        ] {
            assert_eq!(http_status(text), status, "{text}");
        }
    }
}
