//! Addresses of stores in one spelling, without logins.

use std::fmt::Write;

use url::Url;

/// Domains of AWS. An endpoint there, such as a VPC endpoint, leads to the same buckets as all others.
const AWS_DOMAINS: [&str; 3] = [".amazonaws.com", ".amazonaws.com.cn", ".api.aws"];

/// Parameters of a query with such a word in their names are credentials.
const CREDENTIAL_WORDS: [&str; 7] = ["auth", "credential", "key", "pass", "secret", "sig", "token"];

/// Whether a host, in any case, belongs to AWS.
#[must_use]
pub fn is_aws_host(host: &str) -> bool {
    let host = host.to_ascii_lowercase();
    AWS_DOMAINS.iter().any(|domain| host.ends_with(domain))
}

/// The address of a server as `host:port` and its path. The scheme does not count; an address without one is `https`.
/// `None` if it is not an address.
pub(super) fn server(address: &str) -> Option<String> {
    let url = parse(address, "https")?;
    let mut server = format!("{}:{}", url.host_str()?, url.port_or_known_default()?);
    server.push_str(url.path().trim_end_matches('/'));
    Some(server)
}

/// The host of an address, in lower case.
pub(super) fn host(address: &str) -> Option<String> {
    Some(parse(address, "https")?.host_str()?.to_owned())
}

/// A URL in one spelling: no default port, no fragment, and no login, neither before the host nor in the query.
pub(super) fn public_url(address: &str) -> Option<String> {
    let mut url = Url::parse(address.trim()).ok().filter(Url::has_host)?;
    url.set_username("").ok()?;
    url.set_password(None).ok()?;
    url.set_fragment(None);
    let is_public = |name: &str| {
        let name = name.to_ascii_lowercase();
        !CREDENTIAL_WORDS.iter().any(|word| name.contains(word))
    };
    let query: Vec<(String, String)> = url
        .query_pairs()
        .filter(|(name, _)| is_public(name))
        .map(|(name, value)| (name.into_owned(), value.into_owned()))
        .collect();
    url.set_query(None);
    let mut text = url.to_string();
    for (index, (name, value)) in query.iter().enumerate() {
        let _ = write!(text, "{}{name}={value}", if index == 0 { '?' } else { '&' });
    }
    Some(text)
}

fn parse(address: &str, scheme: &str) -> Option<Url> {
    let address = address.trim();
    let url = if address.contains("://") {
        Url::parse(address)
    } else {
        Url::parse(&format!("{scheme}://{address}"))
    };
    url.ok().filter(Url::has_host)
}
