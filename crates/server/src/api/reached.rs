//! How a request reached the server: from which client, and under which address.
//!
//! `X-Forwarded-For`, `-Proto` and `-Host` count only if a trusted proxy has sent the request.
//! Others could claim any address with them.

use std::net::{IpAddr, SocketAddr};

use axum::extract::{ConnectInfo, Request};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, header};
use ipnet::IpNet;
use url::{Origin, Url};

/// The other end of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Peer(pub SocketAddr);

/// How a request reached the server.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Reached {
    /// Who sent it; `None` if there is no connection.
    pub(crate) client: Option<IpAddr>,
    /// `http` or `https`.
    pub(super) scheme: &'static str,
    /// The name or address of the server in the request, with or without a port.
    pub(super) host: String,
}

impl Reached {
    /// How `request` reached a server that speaks TLS, or does not, behind proxies of these networks.
    pub(super) fn of(request: &Request, is_tls: bool, proxies: &[IpNet]) -> Self {
        let is_proxy = |address: &IpAddr| proxies.iter().any(|network| network.contains(address));
        let peer = request.extensions().get::<ConnectInfo<Peer>>();
        let peer = peer.map(|ConnectInfo(Peer(address))| address.ip().to_canonical());
        let headers = request.headers();
        let header = headers.get(header::HOST).and_then(|value| value.to_str().ok());
        let host = request.uri().authority().map(Authority::as_str).or(header).unwrap_or_default();
        let scheme = if is_tls { "https" } else { "http" };
        let direct = Self { client: peer, scheme, host: host.to_owned() };
        if !peer.as_ref().is_some_and(is_proxy) {
            return direct;
        }
        // A proxy appends to what it was sent, so the last value is its own.
        let last = |name| values(headers, name).pop();
        let client = values(headers, "x-forwarded-for")
            .into_iter()
            .rev()
            .map_while(|text| text.parse::<IpAddr>().ok())
            .map(|address| address.to_canonical())
            .find(|address| !is_proxy(address));
        Self {
            client: client.or(direct.client),
            scheme: match last("x-forwarded-proto") {
                Some("http") => "http",
                Some("https") => "https",
                _ => direct.scheme,
            },
            host: last("x-forwarded-host").map_or(direct.host, str::to_owned),
        }
    }

    /// The origin of the server in this request, if the host is valid.
    pub(super) fn origin(&self) -> Option<Origin> {
        Url::parse(&format!("{}://{}", self.scheme, self.host)).ok().map(|url| url.origin())
    }
}

/// The values of a header that is a list.
fn values<'a>(headers: &'a HeaderMap, name: &str) -> Vec<&'a str> {
    let lines = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    lines.flat_map(|line| line.split(',')).map(str::trim).collect()
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    fn reached(peer: &str, headers: &[(&str, &str)]) -> (String, &'static str, String) {
        let proxies = ["10.0.0.0/8", "::1/128"].map(|it| it.parse().unwrap()).to_vec();
        let mut request = Request::builder().uri("/").header("host", "direct:7373");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut request = request.body(Body::empty()).unwrap();
        let address = SocketAddr::new(peer.parse().unwrap(), 5000);
        request.extensions_mut().insert(ConnectInfo(Peer(address)));
        let Reached { client, scheme, host } = Reached::of(&request, false, &proxies);
        (client.unwrap().to_string(), scheme, host)
    }

    #[test]
    fn forwarded_headers_count_only_from_trusted_proxies() {
        let forwarded = [
            ("x-forwarded-for", "198.51.100.9, 192.0.2.7, 10.2.2.2"),
            ("x-forwarded-proto", "https"),
            ("x-forwarded-host", "evil.test, butler.example.com"),
        ];
        let believed = ("192.0.2.7".to_owned(), "https", "butler.example.com".to_owned());
        for peer in ["10.1.2.3", "::1", "::ffff:10.1.2.3"] {
            assert_eq!(reached(peer, &forwarded), believed, "{peer}");
        }
        for peer in ["192.0.2.1", "127.0.0.1", "11.0.0.1", "::2"] {
            let direct = (peer.to_owned(), "http", "direct:7373".to_owned());
            assert_eq!(reached(peer, &forwarded), direct, "{peer}");
        }
        // A list in several lines, an entry that is not an address, and only proxies.
        for (values, client) in [
            (&["192.0.2.7", "192.0.2.8"][..], "192.0.2.8"),
            (&["192.0.2.7, unknown, 10.2.2.2"], "10.1.2.3"),
            (&["10.2.2.2"], "10.1.2.3"),
            (&[], "10.1.2.3"),
        ] {
            let headers: Vec<_> = values.iter().map(|value| ("x-forwarded-for", *value)).collect();
            let direct = (client.to_owned(), "http", "direct:7373".to_owned());
            assert_eq!(reached("10.1.2.3", &headers), direct, "{values:?}");
        }
        assert_eq!(reached("10.1.2.3", &[("x-forwarded-proto", "gopher")]).1, "http");
    }
}
