//! The address of a database: `postgres://USER@HOST/DATABASE`.

use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use butler_base::http;
use secrecy::{ExposeSecret, SecretString};
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};
use tokio_postgres_rustls::MakeRustlsConnect;
use url::form_urlencoded;

use super::error::with_causes;
use crate::store::{StoreError, StoreResult};

/// How long a host may take to answer.
const CONNECT: Duration = Duration::from_secs(5);

/// How long the database works on one statement, or waits for the next one of a transaction. A server that is cut
/// off keeps others from writing for as long.
const STATEMENT: &str = "30s";

/// How long sent data may stay without an acknowledgement.
const UNACKNOWLEDGED: Duration = Duration::from_secs(20);

/// The address of a PostgreSQL database, as users write it. It can contain a password, so it prints without.
#[derive(Clone)]
pub struct PostgresAddress {
    text: SecretString,
    shown: String,
    config: Config,
}

impl fmt::Display for PostgresAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.shown)
    }
}

impl fmt::Debug for PostgresAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "PostgresAddress({self})")
    }
}

/// The text is not the address of a PostgreSQL database. The message does not contain it.
#[derive(Debug, thiserror::Error)]
#[error("not an address of a PostgreSQL database ({0}); write `postgres://USER@HOST/DATABASE`")]
pub struct AddressError(String);

impl FromStr for PostgresAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let failed = |why: &dyn std::error::Error| AddressError(with_causes(why));
        // `Url` knows one host with one port only.
        let scheme = text.split_once("://");
        let scheme = scheme.filter(|(scheme, _)| scheme.chars().all(char::is_alphanumeric));
        let Some((scheme, rest)) = scheme else {
            return Err(AddressError("it has no scheme".to_owned()));
        };
        if !matches!(scheme, "postgres" | "postgresql") {
            return Err(AddressError(format!("its scheme is `{scheme}`")));
        }
        // Certificates are always verified, so these modes ask for no more than `require`.
        let accepted = ["sslmode=verify-full", "sslmode=verify-ca"]
            .iter()
            .fold(text.to_owned(), |text, mode| text.replace(mode, "sslmode=require"));
        let mut config: Config = accepted.parse().map_err(|error| failed(&error))?;
        if config.get_hosts().is_empty() {
            return Err(AddressError("it has no host".to_owned()));
        }
        let query = rest.split_once('?').map_or("", |(_, query)| query);
        let says_mode = form_urlencoded::parse(query.as_bytes()).any(|(name, _)| name == "sslmode");
        if !says_mode && !config.get_hosts().iter().all(is_local) {
            config.ssl_mode(SslMode::Require);
        }
        let options = config.get_options().unwrap_or_default().to_owned();
        config
            .options(format!(
                "-c statement_timeout={STATEMENT} \
                 -c idle_in_transaction_session_timeout={STATEMENT} {options}"
            ))
            .target_session_attrs(TargetSessionAttrs::ReadWrite)
            .keepalives_idle(UNACKNOWLEDGED)
            .tcp_user_timeout(UNACKNOWLEDGED);
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT);
        }
        if config.get_application_name().is_none() {
            config.application_name("butler-runner");
        }
        Ok(Self { text: text.into(), shown: shown(&config), config })
    }
}

/// The address without its password and parameters.
fn shown(config: &Config) -> String {
    let user = config.get_user().map(|user| format!("{user}@")).unwrap_or_default();
    let hosts = config.get_hosts().iter().enumerate().map(|(index, host)| {
        let ports = config.get_ports();
        let port = ports.get(index).or_else(|| ports.first()).copied().unwrap_or(5432);
        format!("{}:{port}", tcp_name(host).unwrap_or("local-socket"))
    });
    let database = config.get_dbname().unwrap_or_default();
    format!("postgres://{user}{}/{database}", hosts.collect::<Vec<_>>().join(","))
}

/// The name of a host that is not a socket of this machine.
fn tcp_name(host: &Host) -> Option<&str> {
    // The other kind exists only on systems with Unix sockets.
    if let Host::Tcp(name) = host { Some(name) } else { None }
}

/// Whether nothing leaves this machine.
fn is_local(host: &Host) -> bool {
    tcp_name(host).is_none_or(|name| {
        name == "localhost" || name.parse::<std::net::IpAddr>().is_ok_and(|it| it.is_loopback())
    })
}

impl PostgresAddress {
    /// The address with its password.
    #[must_use]
    pub const fn secret(&self) -> &SecretString {
        &self.text
    }

    /// The address with this password, in place of one that it contains.
    #[must_use]
    pub fn with_password(mut self, password: &SecretString) -> Self {
        self.config.password(password.expose_secret());
        self
    }

    /// How it is connected to.
    pub(super) const fn config(&self) -> &Config {
        &self.config
    }

    /// TLS with the system's certificates and those in the bundle.
    pub(super) fn tls(&self, ca_bundle: Option<&Path>) -> StoreResult<MakeRustlsConnect> {
        let config = http::tls_config(ca_bundle, &[]).map_err(|error| self.failed(&error))?;
        Ok(MakeRustlsConnect::new(config))
    }

    /// It cannot be used because of this.
    pub(super) fn failed(&self, why: &(dyn std::error::Error + 'static)) -> StoreError {
        StoreError::Connect { address: self.to_string(), why: with_causes(why) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> PostgresAddress {
        text.parse().unwrap()
    }

    #[test]
    fn address_prints_without_its_password() {
        let address = address("postgres://ana:hunter2@db.example.com/butler?sslmode=verify-full");
        let printed = format!("{address} {address:?}");
        assert!(!printed.contains("hunter2"), "{printed}");
        assert_eq!(address.to_string(), "postgres://ana@db.example.com:5432/butler");
        for wrong in [
            "postgres://ana:hunter2@[/butler",
            "mysql://ana:hunter2@db",
            "ana:hunter2@db://butler",
            "postgres://a:hunter2@h/b?x=hunter2",
        ] {
            let error = wrong.parse::<PostgresAddress>().unwrap_err().to_string();
            assert!(!error.contains("hunter2"), "{error}");
            assert!(error.contains("write `postgres://USER@HOST/DATABASE`"), "{error}");
        }
    }

    #[test]
    fn address_can_have_several_hosts_with_ports() {
        let address = address("postgres://ana@db-1:5433,db-2:5434/butler");
        assert_eq!(address.config().get_ports(), [5433, 5434]);
        assert_eq!(address.to_string(), "postgres://ana@db-1:5433,db-2:5434/butler");
    }

    #[test]
    fn other_machines_are_reached_over_tls_unless_the_address_says_otherwise() {
        for (text, mode) in [
            ("postgres://db.example.com/butler", SslMode::Require),
            ("postgres://localhost,db.example.com/butler", SslMode::Require),
            ("postgres://db.example.com/butler?sslmode=disable", SslMode::Disable),
            ("postgres://butler@postgres.database.svc/butler", SslMode::Require),
            ("postgres://butler:p@postgres.database.svc/butler?sslmode=disable", SslMode::Disable),
            ("postgres://db.example.com/butler?sslmode=verify-ca", SslMode::Require),
            ("postgres://127.0.0.1:5433/butler", SslMode::Prefer),
        ] {
            assert_eq!(address(text).config().get_ssl_mode(), mode, "{text}");
        }
    }
}
