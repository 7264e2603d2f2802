//! Classifies requests without an answer: a temporary outage, or a permanent error of the connection.

use std::error::Error;

use http::Uri;
use kube::client::AuthError;
use openssl::ssl;

use super::error::ClusterError;

/// What OpenSSL says where the other side hung up in the middle: a server that restarts does.
const CUT_OFF: &str = "unexpected eof while reading";
/// How resolvers say that they do not know for now: glibc's words, musl's, and macOS'.
const FOR_NOW: [&str; 3] = ["Temporary failure", "Try again", "try again"];

/// What became of a request to `server` that was not answered.
pub(super) fn of(error: &kube::Error, server: &str) -> ClusterError {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(this) = cause {
        if let Some(lasting) = lasting(this, server) {
            return lasting;
        }
        cause = this.source();
    }
    ClusterError::Silent { server: server.to_owned(), why: why(error) }
}

/// Why a client could not be made of a configuration.
pub(super) fn of_set_up(error: kube::Error, server: &str) -> ClusterError {
    match &error {
        kube::Error::Auth(problem) => login(problem, server),
        // Its own message quotes the address, which may hold a login.
        kube::Error::ProxyProtocolUnsupported { proxy_url }
        | kube::Error::ProxyProtocolDisabled { proxy_url, .. } => ClusterError::ProxyProtocol {
            scheme: proxy_url.scheme_str().unwrap_or_default().to_owned(),
        },
        _ => ClusterError::SetUp { server: server.to_owned(), source: Box::new(error) },
    }
}

/// What never passes, where this cause is such.
fn lasting(cause: &(dyn Error + 'static), server: &str) -> Option<ClusterError> {
    if let Some(problem) = cause.downcast_ref() {
        return Some(login(problem, server));
    }
    let message = cause.to_string();
    if message == "dns error" {
        let why = cause.source().map(ToString::to_string).unwrap_or_default();
        if FOR_NOW.iter().any(|words| why.contains(words)) {
            return None;
        }
        let host = server.parse::<Uri>().ok().and_then(|uri| uri.host().map(ToOwned::to_owned));
        let host = host.unwrap_or_else(|| server.to_owned());
        return Some(ClusterError::UnknownHost { host, why });
    }
    if message.contains("proxy authorization required") {
        return Some(ClusterError::ProxyLogin { server: server.to_owned() });
    }
    let of_tls = cause.source().and_then(|source| source.downcast_ref::<ssl::Error>())?;
    let reasons: Vec<_> =
        of_tls.ssl_error()?.errors().iter().filter_map(openssl::error::Error::reason).collect();
    if reasons.is_empty() || reasons.contains(&CUT_OFF) {
        return None;
    }
    // What is wrong with the certificate stands at the end of the message around it.
    let verdict = message.strip_prefix(&of_tls.to_string()).unwrap_or_default();
    let why = format!("{}{verdict}", reasons.join(", "));
    Some(ClusterError::Tls { server: server.to_owned(), why })
}

/// Why a login cannot be had, without what a helper program printed: that is a token, or part of one.
pub(super) fn login(problem: &AuthError, server: &str) -> ClusterError {
    let why = match problem {
        AuthError::AuthExecRun { cmd, out } => {
            let said = String::from_utf8_lossy(&out.stderr);
            let said = said.trim().lines().next_back().unwrap_or_default();
            let said = if said.is_empty() { String::new() } else { format!(": {said}") };
            format!("its helper program `{cmd}` failed with {}{said}", out.status)
        }
        AuthError::AuthExecParse(_) | AuthError::ParseTokenKey(_) => {
            "what its helper program printed cannot be read".to_owned()
        }
        other => butler_base::error::chain(other),
    };
    ClusterError::Login { server: server.to_owned(), why }
}

/// The causes alone, without what the library calls its own layers.
fn why(error: &kube::Error) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut cause = error.source();
    while let Some(this) = cause {
        let message = this.to_string();
        let is_layer = message.starts_with("client error (");
        if !is_layer && !parts.iter().any(|part| part.contains(&message)) {
            parts.push(message);
        }
        cause = this.source();
    }
    if parts.is_empty() { error.to_string() } else { parts.join(": ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{0}")]
    struct Layer(&'static str, #[source] Box<dyn Error + Send + Sync>);

    fn said(layers: &[&'static str], innermost: &str) -> ClusterError {
        let inner: Box<dyn Error + Send + Sync> = innermost.into();
        let layers = layers.iter().rev();
        let error = layers.fold(inner, |inner, layer| Box::new(Layer(layer, inner)));
        of(&kube::Error::Service(error), "https://cluster.example.com:6443")
    }

    #[test]
    fn resolver_that_does_not_know_for_now_is_asked_again() {
        let of_dns = |why: &str| said(&["client error (Connect)", "dns error"], why);
        let prefix = "failed to lookup address information: ";
        for for_now in ["Temporary failure in name resolution", "Try again"] {
            let error = of_dns(&format!("{prefix}{for_now}"));
            assert!(error.is_undecided(), "{error}");
        }
        for never in ["Name or service not known", "Name does not resolve"] {
            let error = of_dns(&format!("{prefix}{never}"));
            assert!(!error.is_undecided() && error.to_string().contains("`cluster.example.com`"));
        }
    }

    #[test]
    fn proxy_of_a_kind_that_is_not_known_is_named_without_its_login() {
        let proxy_url = Box::new("socks5://user:hunter2@proxy.example.com".parse().unwrap());
        let error = kube::Error::ProxyProtocolDisabled { proxy_url, protocol_feature: "socks5" };
        let said = butler_base::error::chain(&of_set_up(error, "https://cluster.example.com"));
        assert_eq!(said, "a proxy with `socks5://` is not supported");
    }

    #[test]
    fn layers_of_the_library_are_no_causes() {
        let error = said(
            &["client error (Connect)", "tcp connect error"],
            "Connection refused (os error 111)",
        );
        assert_eq!(
            error.to_string(),
            "the cluster at `https://cluster.example.com:6443` does not answer: tcp connect error: Connection refused (os error 111)"
        );
    }
}
