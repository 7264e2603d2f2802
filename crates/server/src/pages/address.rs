//! Addresses of pages, below the path of the public URL.

use std::fmt::Write as _;

/// Appends `text` as one part of a path.
fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b'-' | b'~' => {
                encoded.push(char::from(byte));
            }
            byte => {
                let _ = write!(encoded, "%{byte:02X}");
            }
        }
    }
    encoded
}

/// The page of a run.
pub(super) fn of_run(base: &str, id: &str) -> String {
    format!("{base}/runs/{}", encode(id))
}

/// `path` with a query of these parameters.
pub(super) fn with_query(path: &str, pairs: &[(&str, &str)]) -> String {
    if pairs.is_empty() {
        return path.to_owned();
    }
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    query.extend_pairs(pairs);
    format!("{path}?{}", query.finish())
}

/// Whether `address` is a path of this server: a browser that is sent there, below the path of the public URL,
/// stays here.
pub(super) fn is_local(address: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_graphic() && byte != b'\\';
    let path = address.split(['?', '#']).next().unwrap_or_default();
    // Browsers decode dots before they resolve a path.
    let leads_up = |part: &str| part.to_ascii_lowercase().replace("%2e", ".") == "..";
    address.starts_with('/')
        && !address.starts_with("//")
        && address.bytes().all(is_plain)
        && !path.split('/').any(leads_up)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_on_this_server_are_local() {
        for (address, expected) in [
            ("/", true),
            ("/layers/a?x=1#log", true),
            ("", false),
            ("layers", false),
            ("//evil.test", false),
            ("/\\evil.test", false),
            ("/\t/evil.test", false),
            ("https://evil.test", false),
            ("/ä", false),
            ("/../other", false),
            ("/layers/..", false),
            ("/%2E%2e/other", false),
            ("/.%2e/other", false),
            ("/layers/..a?x=/../y", true),
        ] {
            assert_eq!(is_local(address), expected, "{address}");
        }
        assert_eq!(of_run("/b", "a/b ?"), "/b/runs/a%2Fb%20%3F");
    }
}
