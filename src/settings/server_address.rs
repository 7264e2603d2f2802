//! Where the server listens, and under which addresses it is reached.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use ipnet::IpNet;
use url::{Host, Url};

use super::reader::Reader;
use super::setting::{
    ALLOW_HTTP, ALLOWED_HOST, LISTEN, PUBLIC_URL, TLS_CERT, TLS_KEY, TRUSTED_PROXY,
};
use super::{SettingsError, parse};

/// Where the server listens, and how it is reached.
#[derive(Debug)]
pub struct ServerAddress {
    /// Where it listens.
    pub listen: SocketAddr,
    /// The address under which people reach it.
    pub public_url: Option<Url>,
    /// The host of `public_url` and further names, and addresses without brackets.
    pub hosts: Vec<String>,
    /// The proxies whose `X-Forwarded-*` count.
    pub trusted_proxies: Vec<IpNet>,
    /// The files of the certificate and of its key, if the server speaks TLS.
    pub tls: Option<(PathBuf, PathBuf)>,
}

impl ServerAddress {
    /// Reads and checks the settings. A server that makes one pass (`once`) does not listen.
    pub(super) fn resolve(reader: &Reader<'_>, once: bool) -> Result<Self, SettingsError> {
        let unusable = |problem| SettingsError::Unusable { setting: &LISTEN, problem };
        let given = reader.parsed(&LISTEN, listen)?;
        let listen = given.map_or_else(|| listen(LISTEN.default).map_err(unusable), Ok)?;
        let public_url = reader.parsed(&PUBLIC_URL, parse::web_url)?;
        let hosts = hosts(reader, public_url.as_ref())?;
        let trusted_proxies = reader.values(&TRUSTED_PROXY, network)?;
        let address = Self { listen, public_url, hosts, trusted_proxies, tls: tls(reader)? };
        if !once {
            check_encryption(reader, &address)?;
        }
        Ok(address)
    }
}

/// The files of the certificate and of its key: both or none.
fn tls(reader: &Reader<'_>) -> Result<Option<(PathBuf, PathBuf)>, SettingsError> {
    let certificate = reader.existing(&TLS_CERT, is_file)?;
    match (certificate, reader.existing(&TLS_KEY, is_file)?) {
        (None, None) => Ok(None),
        (Some(certificate), Some(key)) => Ok(Some((certificate, key))),
        (Some(_), None) => Err(SettingsError::Missing { setting: &TLS_KEY }),
        (None, Some(_)) => Err(SettingsError::Missing { setting: &TLS_CERT }),
    }
}

fn is_file(path: &Path) -> bool {
    path.exists() && !path.is_dir()
}

/// Refuses to listen beyond loopback without TLS, unless that is asked for or a proxy has TLS.
fn check_encryption(reader: &Reader<'_>, address: &ServerAddress) -> Result<(), SettingsError> {
    let listen = address.listen;
    let is_public = address.public_url.as_ref().is_some_and(|url| url.scheme() == "https");
    let is_encrypted = is_public || address.tls.is_some();
    if listen.ip().to_canonical().is_loopback() || is_encrypted || reader.switch(&ALLOW_HTTP)? {
        return Ok(());
    }
    let problem = format!(
        "other machines could reach `{listen}`, and tokens would cross the network unencrypted; \
         listen on a loopback address, give a certificate with `--tls-cert` and `--tls-key` or the \
         https address of a proxy with `--public-url`, or accept that with `--allow-http`"
    );
    Err(SettingsError::Unusable { setting: &LISTEN, problem })
}

/// The host of `public_url`, and those of `--allowed-host`.
fn hosts(reader: &Reader<'_>, public_url: Option<&Url>) -> Result<Vec<String>, SettingsError> {
    let mut hosts: Vec<String> = reader.values(&ALLOWED_HOST, host)?;
    hosts.extend(public_url.and_then(Url::host).map(|host| spelled(&host)));
    Ok(hosts)
}

/// A name or an address of a host. Names are in lower case, as a browser sends them.
fn host(text: &str) -> Result<String, String> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Ok(address.to_string());
    }
    // A pattern would match only itself.
    let host = if text.contains('*') { None } else { Host::parse(text).ok() };
    host.map(|host| spelled(&host)).ok_or_else(|| {
        let shown = parse::shown(text);
        format!("{shown} is not a name or an address; give it without scheme, port and wildcard")
    })
}

/// An address is without brackets.
pub(super) fn spelled(host: &Host<impl AsRef<str>>) -> String {
    match host {
        Host::Domain(name) => name.as_ref().to_owned(),
        Host::Ipv4(address) => address.to_string(),
        Host::Ipv6(address) => address.to_string(),
    }
}

fn listen(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| format!("`{text}` is not an address with a port"))
}

/// An address with the length of its network, or one address.
fn network(text: &str) -> Result<IpNet, String> {
    let network = text.parse().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
    network.map_err(|_| format!("{} is not an address or a network", parse::shown(text)))
}
