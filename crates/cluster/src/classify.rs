//! Classifies requests without a response: a temporary outage, or a permanent error of the connection.

use std::error::Error;

use http::Uri;
use kube::client::AuthError;
use openssl::ssl;

use crate::error::ClusterError;

/// OpenSSL's error if the server closes the connection, as a restarting server does.
const CUT_OFF: &str = "unexpected eof while reading";
/// The messages of resolvers for a temporary failure: glibc, musl and macOS.
const TEMPORARY_DNS_ERRORS: [&str; 3] = ["Temporary failure", "Try again", "try again"];

/// Classifies the error of a request to `server` that got no response.
pub(crate) fn classify_request_error(error: &kube::Error, server: &str) -> ClusterError {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(this) = cause {
        if let Some(permanent) = permanent_error(this, server) {
            return permanent;
        }
        cause = this.source();
    }
    ClusterError::NoResponse { server: server.to_owned(), why: describe_causes(error) }
}

/// Classifies the error of creating a client.
pub(crate) fn classify_setup_error(error: kube::Error, server: &str) -> ClusterError {
    match &error {
        kube::Error::Auth(problem) => login_error(problem, server),
        // The library's message quotes the address, which may contain a login.
        kube::Error::ProxyProtocolUnsupported { proxy_url }
        | kube::Error::ProxyProtocolDisabled { proxy_url, .. } => ClusterError::ProxyProtocol {
            scheme: proxy_url.scheme_str().unwrap_or_default().to_owned(),
        },
        _ => ClusterError::Client { server: server.to_owned(), source: Box::new(error) },
    }
}

/// The permanent error that `cause` is, if any.
fn permanent_error(cause: &(dyn Error + 'static), server: &str) -> Option<ClusterError> {
    if let Some(problem) = cause.downcast_ref() {
        return Some(login_error(problem, server));
    }
    let message = cause.to_string();
    if message == "dns error" {
        let why = cause.source().map(ToString::to_string).unwrap_or_default();
        if TEMPORARY_DNS_ERRORS.iter().any(|words| why.contains(words)) {
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
    // The problem of the certificate is at the end of the outer error's message.
    let verdict = message.strip_prefix(&of_tls.to_string()).unwrap_or_default();
    let why = format!("{}{verdict}", reasons.join(", "));
    Some(ClusterError::Tls { server: server.to_owned(), why })
}

/// The error of a login. It does not contain the standard output of a helper program, which may be a token.
fn login_error(problem: &AuthError, server: &str) -> ClusterError {
    let why = match problem {
        AuthError::AuthExecRun { cmd, out } => {
            let message = String::from_utf8_lossy(&out.stderr);
            let message = message.trim().lines().next_back().unwrap_or_default();
            let message = if message.is_empty() { String::new() } else { format!(": {message}") };
            format!("its helper program `{cmd}` failed with {}{message}", out.status)
        }
        AuthError::AuthExecParse(_) | AuthError::ParseTokenKey(_) => {
            "what its helper program printed cannot be read".to_owned()
        }
        other => butler_base::error::chain(other),
    };
    ClusterError::Login { server: server.to_owned(), why }
}

/// The causes without the names of the library's layers.
fn describe_causes(error: &kube::Error) -> String {
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

    fn error_of(layers: &[&'static str], innermost: &str) -> ClusterError {
        let inner: Box<dyn Error + Send + Sync> = innermost.into();
        let layers = layers.iter().rev();
        let error = layers.fold(inner, |inner, layer| Box::new(Layer(layer, inner)));
        classify_request_error(&kube::Error::Service(error), "https://cluster.example.com:6443")
    }

    #[test]
    fn temporary_dns_failure_is_retried_and_unknown_host_is_not() {
        let of_dns = |why: &str| error_of(&["client error (Connect)", "dns error"], why);
        let prefix = "failed to lookup address information: ";
        for for_now in ["Temporary failure in name resolution", "Try again"] {
            let error = of_dns(&format!("{prefix}{for_now}"));
            assert!(error.is_outcome_unknown(), "{error}");
        }
        for never in ["Name or service not known", "Name does not resolve"] {
            let error = of_dns(&format!("{prefix}{never}"));
            assert!(
                !error.is_outcome_unknown() && error.to_string().contains("`cluster.example.com`")
            );
        }
    }

    #[test]
    fn unsupported_proxy_is_reported_without_its_login() {
        let proxy_url = Box::new("socks5://user:hunter2@proxy.example.com".parse().unwrap());
        let error = kube::Error::ProxyProtocolDisabled { proxy_url, protocol_feature: "socks5" };
        let message =
            butler_base::error::chain(&classify_setup_error(error, "https://cluster.example.com"));
        assert_eq!(message, "a proxy with `socks5://` is not supported");
    }

    #[test]
    fn error_message_omits_the_layers_of_the_library() {
        let error = error_of(
            &["client error (Connect)", "tcp connect error"],
            "Connection refused (os error 111)",
        );
        assert_eq!(
            error.to_string(),
            "the cluster at `https://cluster.example.com:6443` does not answer: tcp connect error: Connection refused (os error 111)"
        );
    }
}
