//! What attempts get from the server: their isolation, and their environment, which is built and not
//! inherited. No variable of the server reaches them that is not named here or in the configuration.

use std::ffi::OsString;
use std::path::Path;

use super::reader::Reader;
use super::setting::{
    CA_BUNDLE, CACHE_DIR, DATA, ISOLATION_READ, ISOLATION_WRITE, MIRROR, PROVIDER_CACHE,
    SECRETS_DIR, SERVER_ISOLATION, SETTINGS_FILE, SIGNING_KEY, TOOL_TIMEOUT,
};
use super::{IsolationLevel, Kind, Setting, SettingsError, parse, variable};
use butler_base::paths::{is_in, leads_to};
use butler_base::platform::{landlock, readable_paths};
use butler_base::process;

/// What attempts inherit from the environment of the server, if it is set.
const INHERITED: [&str; 7] =
    ["PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR"];

/// The settings that attempts get too, as they are given.
pub const HANDED_ON: [&Setting; 2] = [&MIRROR, &TOOL_TIMEOUT];

/// The paths that attempts get too. They are made absolute, because attempts have a directory of
/// their own.
pub const PATHS_HANDED_ON: [&Setting; 8] = [
    &CACHE_DIR,
    &PROVIDER_CACHE,
    &CA_BUNDLE,
    &SETTINGS_FILE,
    &SECRETS_DIR,
    &SIGNING_KEY,
    &ISOLATION_READ,
    &ISOLATION_WRITE,
];

/// The hosts of the listener to which attempts report. A proxy has another loopback interface.
const LOOPBACK: [&str; 2] = ["127.0.0.1", "localhost"];

/// The level for attempts. The server has secrets that no module may read, so it does not start
/// without isolation unless that is asked for.
///
/// # Errors
/// If the kernel cannot isolate modules, or settings would let them use the directory `data`.
pub(super) fn isolation(reader: &Reader<'_>, data: &Path) -> Result<IsolationLevel, SettingsError> {
    let given = reader.parsed(&SERVER_ISOLATION, parse::isolation_level)?;
    match given.unwrap_or(IsolationLevel::Auto) {
        IsolationLevel::None => Ok(IsolationLevel::None),
        IsolationLevel::Auto | IsolationLevel::Landlock if landlock().is_some() => {
            check_data(reader, data)?;
            Ok(IsolationLevel::Landlock)
        }
        IsolationLevel::Auto | IsolationLevel::Landlock => Err(unusable(
            &SERVER_ISOLATION,
            "this kernel does not have Landlock (Linux 5.13 or newer), so modules could read the \
             files of the server; `--isolation none` accepts that"
                .to_owned(),
        )),
    }
}

/// Checks that no module can use the directory `data`.
fn check_data(reader: &Reader<'_>, data: &Path) -> Result<(), SettingsError> {
    let shown = data.display();
    if let Some(system) = readable_paths().iter().find(|system| is_in(data, Path::new(system))) {
        let problem = format!(
            "the data directory `{shown}` is in `{system}`, which all modules can read: name another \
             directory, or accept that with `--isolation none`"
        );
        return Err(unusable(&DATA, problem));
    }
    for setting in [&ISOLATION_READ, &ISOLATION_WRITE] {
        if let Some(path) = reader.paths(setting)?.iter().find(|path| leads_to(path, data)) {
            let problem = format!(
                "`{}` is in the data directory `{shown}` or contains it, whose files no module can use",
                path.display()
            );
            return Err(unusable(setting, problem));
        }
    }
    Ok(())
}

/// The environment of attempts, which is built and not inherited.
pub(super) fn environment(
    reader: &Reader<'_>,
    isolation: IsolationLevel,
) -> Result<process::Environment, SettingsError> {
    let mut attempts = process::Environment::default();
    for name in INHERITED.iter().chain(&variable::NETWORK) {
        if let Some(value) = reader.environment.value(name) {
            attempts.set(name, value);
        }
    }
    for (name, other) in [("NO_PROXY", "no_proxy"), ("no_proxy", "NO_PROXY")] {
        // Programs read one of them, and the other one only if the first is not set.
        let given = reader.environment.value(name).or_else(|| reader.environment.value(other));
        attempts.set(name, with_loopback(given.map(ToOwned::to_owned).unwrap_or_default()));
    }
    for setting in HANDED_ON {
        let given = reader.arguments.value(setting).or_else(|| reader.variable(setting));
        if let (Some(value), Some(name)) = (given, setting.variables.first()) {
            attempts.set(name, value);
        }
    }
    for setting in PATHS_HANDED_ON {
        let paths = match setting.kind {
            Kind::Paths(_) => reader.paths(setting)?,
            _ => reader.path(setting)?.into_iter().collect(),
        };
        let joined = std::env::join_paths(paths)
            .map_err(|error| unusable(setting, format!("a path has a separator in it: {error}")))?;
        if let (false, Some(name)) = (joined.is_empty(), setting.variables.first()) {
            attempts.set(name, joined);
        }
    }
    if let Some(name) = SERVER_ISOLATION.variables.first() {
        attempts.set(name, isolation.name());
    }
    // Each attempt has a directory of its own in it.
    let temporary = std::path::absolute(reader.environment.temporary());
    attempts.set(variable::TMPDIR.name, temporary.unwrap_or_else(|_| "/tmp".into()));
    Ok(attempts)
}

/// A list of hosts that are not reached through a proxy, with those of this machine.
fn with_loopback(mut hosts: OsString) -> OsString {
    for host in LOOPBACK {
        if !hosts.is_empty() {
            hosts.push(",");
        }
        hosts.push(host);
    }
    hosts
}

fn unusable(setting: &'static Setting, problem: String) -> SettingsError {
    SettingsError::Unusable { setting, problem }
}
