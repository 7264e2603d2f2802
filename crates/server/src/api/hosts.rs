//! The names under which the server is reached.
//!
//! A page of another site can make a browser send requests to this server under a name of that
//! site (DNS rebinding). Such a name is refused before anything else is looked at. A change that a
//! page of another origin asks for is refused too.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header;
use axum::http::uri::Authority;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use ipnet::IpNet;
use url::Url;

use super::error::ApiError;
use super::reached::Reached;

/// The names and addresses under which the server is reached.
#[derive(Clone, Debug)]
pub struct Hosts {
    /// The address that the server listens on.
    pub listen: IpAddr,
    /// Further names of hosts, and addresses without brackets.
    pub names: Vec<String>,
    /// The address under which people reach the server.
    pub public_url: Option<Url>,
    /// The proxies whose `X-Forwarded-*` count.
    pub trusted_proxies: Vec<IpNet>,
    /// Whether the server speaks TLS itself.
    pub is_tls: bool,
}

impl Hosts {
    /// Loopback, and the address that the server listens on.
    #[must_use]
    pub const fn new(listen: IpAddr) -> Self {
        Self {
            listen,
            names: Vec::new(),
            public_url: None,
            trusted_proxies: Vec::new(),
            is_tls: false,
        }
    }

    /// The path below which browsers reach the server: empty, or like `/butler`.
    pub(crate) fn base(&self) -> &str {
        self.public_url.as_ref().map(|url| url.path().trim_end_matches('/')).unwrap_or_default()
    }

    /// Whether the browser that sends a request speaks TLS, with this server or with a proxy. A proxy does not
    /// always tell: the public URL does.
    pub(super) fn is_secure(&self, reached: &Reached) -> bool {
        let is_https = |url: &Url| url.scheme() == "https";
        reached.scheme == "https" || self.public_url.as_ref().is_some_and(is_https)
    }

    /// Whether a browser that shows a page with the origin `given` may change something.
    fn is_own_origin(&self, given: &str, reached: &Reached) -> bool {
        let public = self.public_url.as_ref().map(Url::origin);
        let own = public.or_else(|| reached.origin());
        let given = Url::parse(given).ok().map(|url| url.origin());
        own.is_some_and(|own| own.is_tuple() && given == Some(own))
    }

    /// Whether the server is reached under `host`: a name or an address, with or without a port.
    fn allow(&self, host: &str) -> bool {
        let Ok(authority) = host.parse::<Authority>() else { return false };
        let host = authority.host();
        let host = host.strip_suffix('.').unwrap_or(host);
        let host = host.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(host);
        let is = |name: &String| name.eq_ignore_ascii_case(host);
        match host.parse::<IpAddr>() {
            // A server that listens on all addresses is reached under each of them. Rebinding needs
            // a name.
            Ok(address) => {
                let address = address.to_canonical();
                let is_name = |name: &String| name.parse() == Ok(address);
                self.listen.is_unspecified()
                    || address.is_loopback()
                    || address == self.listen.to_canonical()
                    || self.names.iter().any(is_name)
            }
            Err(_) => host.eq_ignore_ascii_case("localhost") || self.names.iter().any(is),
        }
    }
}

/// Refuses a request for another host, and a change that a page of another origin asks for. Other
/// layers get the client's address.
pub(super) async fn check_address(
    State(hosts): State<Arc<Hosts>>,
    mut request: Request,
    next: Next,
) -> Response {
    // A proxy and this server could read different ones (RFC 9112, section 3.2).
    if request.headers().get_all(header::HOST).iter().count() > 1 {
        return ApiError::bad_request("a request has one header `Host`").into_response();
    }
    let reached = Reached::of(&request, hosts.is_tls, &hosts.trusted_proxies);
    if !hosts.allow(&reached.host) {
        return ApiError::misdirected(&reached.host).into_response();
    }
    // Browsers send the origin with each change; other programs send none.
    if !request.method().is_safe()
        && let Some(origin) = request.headers().get(header::ORIGIN)
    {
        let origin = String::from_utf8_lossy(origin.as_bytes());
        if !hosts.is_own_origin(&origin, &reached) {
            return ApiError::other_origin(&origin).into_response();
        }
    }
    request.extensions_mut().insert(reached);
    next.run(request).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_answers_only_under_its_own_names() {
        let names = ["Butler.example.com", "fd00::7"].map(str::to_owned).to_vec();
        let one = Hosts { names, ..Hosts::new([192, 0, 2, 7].into()) };
        let all = Hosts::new([0, 0, 0, 0].into());
        for (host, by_one, by_all) in [
            ("localhost:7373", true, true),
            ("LOCALHOST", true, true),
            ("localhost.", true, true),
            ("127.0.0.1:7373", true, true),
            ("127.8.0.1", true, true),
            ("[::1]:7373", true, true),
            ("[::ffff:127.0.0.1]", true, true),
            ("192.0.2.7:7373", true, true),
            ("192.0.2.8", false, true),
            ("butler.example.com", true, false),
            ("butler.example.com:8443", true, false),
            ("BUTLER.example.com.", true, false),
            ("[fd00::7]:80", true, true),
            ("[fd00::8]", false, true),
            ("evil.example.com", false, false),
            ("xbutler.example.com", false, false),
            ("butler.example.com.evil.test", false, false),
            ("localhost.evil.test", false, false),
            ("127.0.0.1.evil.test", false, false),
            ("evil.test/localhost", false, false),
            ("", false, false),
        ] {
            assert_eq!(one.allow(host), by_one, "{host}");
            assert_eq!(all.allow(host), by_all, "{host}");
        }
    }
}
