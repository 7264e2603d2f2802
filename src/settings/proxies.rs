//! Warnings about variables for proxies. The HTTP library ignores some values silently, and requests then do not use
//! the intended proxy.

use hyper_util::client::proxy::matcher::Matcher;

use super::Environment;

/// One warning for each value without an effect.
pub(super) fn proxy_warnings(environment: &Environment) -> Vec<String> {
    let both = |upper: &'static str| [upper.to_owned(), upper.to_ascii_lowercase()];
    let value = |name: String| {
        let value = environment.value(&name)?.to_str()?.trim().to_owned();
        (!value.is_empty()).then_some((name, value))
    };
    let proxies: Vec<_> = ["HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY"]
        .into_iter()
        .flat_map(both)
        .filter_map(value)
        .collect();
    if proxies.is_empty() {
        return Vec::new();
    }
    let unreadable = proxies.into_iter().filter(|(_, value)| !is_proxy(value));
    // The URL of a proxy can contain a password, so no warning contains it.
    let mut warnings: Vec<_> = unreadable
        .map(|(name, _)| format!("{name} is not a usable proxy URL: requests bypass it"))
        .collect();
    if let Some((name, value)) = both("NO_PROXY").into_iter().find_map(value) {
        let entries = || value.split(',').map(str::trim);
        if entries().any(|entry| entry == "*") {
            warnings.push(format!(
                "`*` in {name} only matches host names: add `0.0.0.0/0,::/0` for addresses"
            ));
        }
        warnings.extend(
            entries()
                .filter(|entry| has_port(entry))
                .map(|entry| format!("`{entry}` in {name} has no effect: remove the port")),
        );
    }
    warnings
}

/// Whether the HTTP library accepts the value.
fn is_proxy(value: &str) -> bool {
    let anywhere = http::Uri::from_static("http://site.example/");
    Matcher::builder().all(value.to_owned()).build().intercept(&anywhere).is_some()
}

/// Whether an entry is `host:port`. An IPv6 address has several colons.
fn has_port(entry: &str) -> bool {
    entry.rsplit_once(':').is_some_and(|(host, port)| {
        (!host.contains(':') || host.ends_with(']'))
            && !port.is_empty()
            && port.bytes().all(|digit| digit.is_ascii_digit())
    })
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn warnings(variables: &[(&str, &str)]) -> Vec<String> {
        let variables = variables.iter().map(|(name, value)| (name.into(), value.into()));
        super::proxy_warnings(&Environment::new(variables.collect(), PathBuf::new()))
    }

    #[test]
    fn values_without_an_effect_lead_to_warnings() {
        let proxy = ("https_proxy", "http://user:hunter2@proxy.example:3128");
        for (variable, value, warned) in [
            ("HTTP_PROXY", "garbage://user:hunter2@x", Some("HTTP_PROXY is not a usable proxy")),
            ("all_proxy", "garbage://x", Some("all_proxy is not a usable proxy")),
            ("HTTP_PROXY", "proxy.example:3128", None),
            ("NO_PROXY", "*", Some("`*` in NO_PROXY")),
            ("no_proxy", "a.example, b.example:443", Some("`b.example:443` in no_proxy")),
            ("NO_PROXY", "[::1]:80", Some("`[::1]:80` in NO_PROXY")),
            ("NO_PROXY", "a.example,.b.example,10.0.0.0/8,::1,fe80::/10", None),
        ] {
            let found = warnings(&[proxy, (variable, value)]);
            assert_eq!(found.len(), usize::from(warned.is_some()), "{value}: {found:?}");
            assert!(found.iter().all(|line| line.starts_with(warned.unwrap())), "{found:?}");
            assert!(!found.concat().contains("hunter2"), "{found:?}");
        }
        assert!(warnings(&[("NO_PROXY", "*")]).is_empty(), "no proxy is set");
    }
}
