//! Parsers for the values of the flags of `generate` and of the Kubernetes commands.

use std::time::Duration;

use url::Url;

/// Parses `1.2.3`, or `v1.2.3` as in tags.
pub(in crate::cli) fn version(text: &str) -> Result<semver::Version, String> {
    let version = text.strip_prefix('v').unwrap_or(text);
    version.parse().map_err(|error: semver::Error| error.to_string())
}

pub(in crate::cli) fn https(text: &str) -> Result<Url, String> {
    let url: Url = text.parse().map_err(|_| "not a valid URL".to_owned())?;
    if url.scheme() != "https" {
        return Err("must begin with https://".to_owned());
    }
    without_login(url)
}

pub(in crate::cli) fn endpoint(text: &str) -> Result<Url, String> {
    let url: Url = text.parse().map_err(|_| "not a valid URL".to_owned())?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err("must begin with https:// or http://".to_owned());
    }
    without_login(url)
}

fn without_login(url: Url) -> Result<Url, String> {
    if url.username().is_empty() && url.password().is_none() {
        Ok(url)
    } else {
        Err("must not contain a user name or password, because the file would show it".to_owned())
    }
}

pub(in crate::cli) fn sha256(text: &str) -> Result<String, String> {
    let is_digest = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let digest = is_digest.then(|| text.to_ascii_lowercase());
    digest.ok_or_else(|| "must be 64 hexadecimal digits".to_owned())
}

pub(in crate::cli) fn digest(text: &str) -> Result<String, String> {
    let digest = text.strip_prefix("sha256:").map(sha256);
    let digest = digest.unwrap_or_else(|| Err("must begin with sha256:".to_owned()))?;
    Ok(format!("sha256:{digest}"))
}

/// Parses the name of an image without a tag or a digest, which are separate flags.
pub(in crate::cli) fn image(text: &str) -> Result<String, String> {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/:".contains(&byte);
    let last = text.rsplit('/').next().unwrap_or_default();
    if text.is_empty() || !text.bytes().all(is_name) || last.contains(':') {
        return Err("must be the name of an image without a tag or a digest".to_owned());
    }
    Ok(text.to_owned())
}

pub(in crate::cli) fn text(text: &str) -> Result<String, String> {
    if text.trim().is_empty() { Err("it is empty".to_owned()) } else { Ok(text.to_owned()) }
}

pub(in crate::cli) fn timeout(text: &str) -> Result<Duration, String> {
    let timeout = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if timeout.is_zero() { Err("it is zero".to_owned()) } else { Ok(timeout) }
}
