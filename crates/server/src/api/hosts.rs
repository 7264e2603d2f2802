//! The names under which the server is reached.
//!
//! A page of another site can make a browser send requests to this server under a name of that
//! site (DNS rebinding). Such a name is refused before anything else is looked at.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header;
use axum::http::uri::Authority;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::error::ApiError;

/// The names and addresses under which the server is reached.
#[derive(Clone, Debug)]
pub struct Hosts {
    listen: IpAddr,
    names: Vec<String>,
}

impl Hosts {
    /// Loopback, the address that the server listens on, and `names`: names of hosts, and addresses
    /// without brackets.
    #[must_use]
    pub const fn new(listen: IpAddr, names: Vec<String>) -> Self {
        Self { listen, names }
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

/// Refuses a request for another host.
pub(super) async fn check_host(
    State(hosts): State<Arc<Hosts>>,
    request: Request,
    next: Next,
) -> Response {
    let header = request.headers().get(header::HOST).and_then(|value| value.to_str().ok());
    let host = request.uri().authority().map(Authority::as_str).or(header).unwrap_or_default();
    if hosts.allow(host) {
        return next.run(request).await;
    }
    ApiError::misdirected(host).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_answers_only_under_its_own_names() {
        let names = ["Butler.example.com", "fd00::7"].map(str::to_owned).to_vec();
        let one = Hosts::new([192, 0, 2, 7].into(), names);
        let all = Hosts::new([0, 0, 0, 0].into(), Vec::new());
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
