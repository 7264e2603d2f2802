//! Which database a connection string of PostgreSQL leads to.

use std::collections::BTreeMap;

use percent_encoding::percent_decode_str;
use url::Url;

/// The database as `host:port/name`, without a login; `None` if the string leaves the host or the name to the
/// environment, or names several hosts.
pub(super) fn database(connection: &str) -> Option<String> {
    let parameters = match connection.split_once("://") {
        Some(("postgres" | "postgresql", _)) => of_url(connection)?,
        Some(_) | None => of_pairs(connection)?,
    };
    let value = |name: &str| parameters.get(name).filter(|value| !value.is_empty());
    let host = value("host").or_else(|| value("hostaddr"))?.to_ascii_lowercase();
    // The driver connects to a database with the name of the user if none is given.
    let name = value("dbname").or_else(|| value("user"))?;
    let port = value("port").map_or("5432", String::as_str);
    if host.contains(',') || port.contains(',') {
        return None;
    }
    Some(format!("{host}:{port}/{name}"))
}

fn of_url(url: &str) -> Option<BTreeMap<String, String>> {
    let url = Url::parse(url).ok()?;
    let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    let mut parameters: BTreeMap<_, _> =
        url.query_pairs().map(|(name, value)| (name.into_owned(), value.into_owned())).collect();
    for (name, value) in [
        ("host", url.host_str().map(decoded)),
        ("port", url.port().map(|port| port.to_string())),
        ("dbname", Some(decoded(url.path().trim_start_matches('/')))),
        ("user", Some(decoded(url.username()))),
    ] {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            parameters.entry(name.to_owned()).or_insert(value);
        }
    }
    Some(parameters)
}

/// Parses `host=db dbname='a b'`: values are quoted with `'`, and `\` escapes a character.
fn of_pairs(text: &str) -> Option<BTreeMap<String, String>> {
    let mut parameters = BTreeMap::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let (name, value) = rest.split_once('=')?;
        let mut characters = value.trim_start().chars();
        let mut parsed = String::new();
        let is_quoted = characters.as_str().starts_with('\'');
        if is_quoted {
            characters.next();
        }
        loop {
            match characters.next() {
                None if is_quoted => return None,
                None => break,
                Some('\'') if is_quoted => break,
                Some(character) if !is_quoted && character.is_whitespace() => break,
                Some('\\') => parsed.extend(characters.next()),
                Some(character) => parsed.push(character),
            }
        }
        parameters.insert(name.trim().to_owned(), parsed);
        rest = characters.as_str().trim_start();
    }
    Some(parameters)
}
