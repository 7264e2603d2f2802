//! What attempts get from the server: their isolation, and their environment, which is built and not
//! inherited. No variable of the server reaches them that is not named here or in the configuration.

use std::ffi::OsString;
use std::path::Path;

use super::reader::Reader;
use super::setting::{
    CA_BUNDLE, CACHE_DIR, DATA, ISOLATION_READ, ISOLATION_USERS, ISOLATION_WRITE, MIRROR,
    PROVIDER_CACHE, SECRETS_DIR, SERVER_ISOLATION, SETTINGS_FILE, SIGNING_KEY, TOOL_TIMEOUT,
};
use super::{IsolationLevel, Kind, Setting, SettingsError, parse, variable};
use butler_base::paths::{is_in, leads_to};
use butler_base::platform::fs::PermissionsExt;
use butler_base::platform::{landlock, readable_paths, user_change_problem};
use butler_base::process;

/// What attempts inherit from the environment of the server, if it is set.
const INHERITED: [&str; 7] =
    ["PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR"];

/// The settings that attempts get too, as they are given.
pub const HANDED_ON: [&Setting; 3] = [&MIRROR, &TOOL_TIMEOUT, &ISOLATION_USERS];

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
/// If the machine cannot isolate modules, settings would let them use the directory `data`, or a user of
/// an attempt could not reach its files in it.
pub(super) fn isolation(reader: &Reader<'_>, data: &Path) -> Result<IsolationLevel, SettingsError> {
    let given = reader.parsed(&SERVER_ISOLATION, parse::isolation_level)?;
    let given = given.unwrap_or(IsolationLevel::Auto);
    // Otherwise, each attempt would fail.
    reader.parsed(&ISOLATION_USERS, parse::user_range)?;
    let level = decide(given, || landlock().is_some(), user_change_problem);
    let level = level.map_err(|problem| unusable(&SERVER_ISOLATION, problem))?;
    match level {
        IsolationLevel::Landlock => {
            check_system(data)?;
            check_paths(reader, data)?;
        }
        IsolationLevel::User => {
            check_entrance(data, &DATA, "the data directory")?;
            // Attempts keep temporary files there.
            check_entrance(reader.environment.temporary(), &SERVER_ISOLATION, "TMPDIR")?;
            check_paths(reader, data)?;
        }
        IsolationLevel::None | IsolationLevel::Auto => {}
    }
    Ok(level)
}

/// The level in force if `given` is asked for, or why there is none.
fn decide(
    given: IsolationLevel,
    has_landlock: impl FnOnce() -> bool,
    user_problem: impl FnOnce() -> Option<String>,
) -> Result<IsolationLevel, String> {
    if given == IsolationLevel::None {
        return Ok(given);
    }
    if given != IsolationLevel::User && has_landlock() {
        return Ok(IsolationLevel::Landlock);
    }
    let accept = "`--isolation none` accepts that modules can read the files of the server";
    let landlock = "this kernel does not have Landlock (Linux 5.13 or newer)";
    match given {
        IsolationLevel::Landlock => Err(format!("{landlock}; {accept}")),
        _ => match user_problem() {
            None => Ok(IsolationLevel::User),
            Some(problem) if given == IsolationLevel::User => Err(format!(
                "attempts cannot have users of their own: {problem}; start the server as root with the \
                 capabilities that it names, or use `--isolation landlock`"
            )),
            Some(problem) => Err(format!(
                "{landlock}, and attempts cannot have users of their own: {problem}; {accept}"
            )),
        },
    }
}

/// Checks that the users of attempts can reach the directory `path`, which is called `name`. Its own mode is for the
/// server.
fn check_entrance(path: &Path, setting: &'static Setting, name: &str) -> Result<(), SettingsError> {
    let real = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let is_closed = |path: &&Path| {
        std::fs::metadata(path).is_ok_and(|found| found.permissions().mode() & 0o001 == 0)
    };
    match real.ancestors().skip(1).find(is_closed) {
        None => Ok(()),
        Some(closed) => Err(unusable(
            setting,
            format!(
                "the users of attempts cannot reach {name} `{}`, because only some users can enter `{}`: choose \
                 another directory",
                path.display(),
                closed.display()
            ),
        )),
    }
}

/// Checks that the directory `data` is in no directory that each module can read.
fn check_system(data: &Path) -> Result<(), SettingsError> {
    let shown = data.display();
    match readable_paths().iter().find(|system| is_in(data, Path::new(system))) {
        None => Ok(()),
        Some(system) => Err(unusable(
            &DATA,
            format!(
                "the data directory `{shown}` is in `{system}`, which all modules can read: name another \
                 directory, or accept that with `--isolation none`"
            ),
        )),
    }
}

/// Checks that no setting gives modules the directory `data`.
fn check_paths(reader: &Reader<'_>, data: &Path) -> Result<(), SettingsError> {
    let shown = data.display();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_without_landlock_gives_attempts_users_of_their_own_or_does_not_start() {
        use IsolationLevel::{Auto, Landlock, None as Open, User};

        let decided = |level, has_landlock, problem: Option<&str>| {
            decide(level, || has_landlock, || problem.map(str::to_owned))
        };
        for (level, has_landlock, expected) in [
            (Open, false, Open),
            (Open, true, Open),
            (Landlock, true, Landlock),
            (User, true, User),
            (User, false, User),
            (Auto, true, Landlock),
            (Auto, false, User),
        ] {
            assert_eq!(decided(level, has_landlock, None), Ok(expected), "{level:?}");
        }
        assert_eq!(decided(Auto, true, Some("not root")), Ok(Landlock));
        for (level, texts) in [
            (Landlock, ["does not have Landlock", "--isolation none"]),
            (User, ["not root", "start the server as root"]),
            (Auto, ["does not have Landlock", "not root"]),
        ] {
            let problem = decided(level, false, Some("not root")).unwrap_err();
            assert!(texts.iter().all(|text| problem.contains(text)), "{problem}");
        }
    }

    #[test]
    fn data_directory_that_users_of_attempts_cannot_reach_is_refused() {
        let base = tempfile::tempdir().unwrap();
        let data = base.path().join("open/data");
        std::fs::create_dir_all(&data).unwrap();
        let set_mode = |path: &Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        set_mode(&data, 0o700);
        set_mode(base.path(), 0o711);
        let check = || check_entrance(&data, &DATA, "the data directory");
        assert!(check().is_ok());
        set_mode(base.path(), 0o700);
        let problem = check().unwrap_err().to_string();
        assert!(problem.contains(base.path().to_str().unwrap()), "{problem}");
    }
}
