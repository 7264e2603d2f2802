//! Logins for mirrors: the value of the `Authorization` header.
//!
//! A login belongs to one origin (scheme, host and port). It is never sent to another one, even
//! after a redirect, and never to a vendor's site.

use percent_encoding::percent_decode_str;
use reqwest::RequestBuilder;
use secrecy::{ExposeSecret, SecretString};
use url::{Origin, Url};

/// User name and password, or a token.
#[derive(Clone, Debug)]
pub enum Login {
    /// A user name and a password.
    Basic {
        /// The user name.
        user: String,
        /// The password.
        password: SecretString,
    },
    /// A token.
    Bearer(SecretString),
}

impl Login {
    /// The login in a URL, if it has one.
    pub(in crate::tool) fn of_url(url: &Url) -> Option<Self> {
        let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        if url.username().is_empty() && url.password().is_none() {
            return None;
        }
        let password = decoded(url.password().unwrap_or_default());
        Some(Self::Basic { user: decoded(url.username()), password: password.into() })
    }

    /// The secret part, for redaction.
    #[must_use]
    pub fn secret(&self) -> &SecretString {
        match self {
            Self::Basic { password: secret, .. } | Self::Bearer(secret) => secret,
        }
    }
}

/// A login and its source.
#[derive(Clone, Debug)]
pub struct GivenLogin {
    /// The login.
    pub login: Login,
    /// Its source, for messages: the name of a variable or of a file.
    pub by: String,
}

/// A login for one origin.
#[derive(Clone, Debug)]
pub(in crate::tool) struct Credentials {
    pub(in crate::tool) given: GivenLogin,
    pub(in crate::tool) origin: Origin,
}

impl Credentials {
    /// Adds them to a request, which must be to their origin.
    pub(in crate::tool) fn add_to(&self, request: RequestBuilder) -> RequestBuilder {
        match &self.given.login {
            Login::Basic { user, password } => {
                request.basic_auth(user, Some(password.expose_secret()))
            }
            Login::Bearer(token) => request.bearer_auth(token.expose_secret()),
        }
    }
}

/// `url` without user name and password, which are sent only in a header.
pub(in crate::tool) fn without_login(url: &Url) -> Url {
    let mut url = url.clone();
    // Both fail only for URLs that cannot have these parts.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url
}

/// `url` for messages: without user name, password and query.
#[must_use]
pub fn redacted(url: &Url) -> String {
    let mut url = without_login(url);
    url.set_query(None);
    url.set_fragment(None);
    url.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redacted_url_has_no_credentials() {
        let url = "https://user:password@mirror.example/a/b.zip?sig=secret#c".parse().unwrap();
        assert_eq!(redacted(&url), "https://mirror.example/a/b.zip");
    }

    #[test]
    fn login_in_a_url_is_decoded_and_taken_out() {
        let url = "https://us%40er:p%2Fw@mirror.example/a".parse().unwrap();
        let Some(Login::Basic { user, password }) = Login::of_url(&url) else { panic!() };
        assert_eq!((user.as_str(), password.expose_secret()), ("us@er", "p/w"));
        assert_eq!(without_login(&url).as_str(), "https://mirror.example/a");
        assert!(Login::of_url(&without_login(&url)).is_none());
    }

    #[test]
    fn debug_output_of_a_login_has_no_secret() {
        let login = Login::Bearer("hunter2".into());
        assert!(!format!("{login:?}").contains("hunter2"));
    }
}
