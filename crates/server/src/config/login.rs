//! Addresses without logins.

use url::Url;

/// The address of a repository without name and password. The name of an SSH login is not secret.
#[must_use]
pub fn without_login(address: &str) -> String {
    let Ok(mut url) = Url::parse(address) else { return address.to_owned() };
    // A URL without a host has no login.
    let _ = url.set_password(None);
    if url.scheme() != "ssh" {
        let _ = url.set_username("");
    }
    url.into()
}
