//! The headers of each request to GitHub.

use reqwest::RequestBuilder;
use secrecy::{ExposeSecret, SecretString};

/// The API version of the requests; GitHub Enterprise Server supports it too.
const VERSION: &str = "2022-11-28";

/// Adds the login and the API version.
pub(super) fn with_headers(request: RequestBuilder, token: &SecretString) -> RequestBuilder {
    request
        .bearer_auth(token.expose_secret())
        .header(reqwest::header::ACCEPT, "application/vnd.github+json")
        .header("x-github-api-version", VERSION)
}
