//! The unit for systemd: what keeps attempts alive when the server is restarted.

use butler_runner::cli;

use super::project;

/// The settings of the section `[Service]`.
fn service() -> Vec<(String, String)> {
    let unit = std::fs::read_to_string(project("packaging/systemd/butler-runner.service")).unwrap();
    let (_, section) = unit.split_once("\n[Service]\n").unwrap();
    let (section, _) = section.split_once("\n[Install]\n").unwrap();
    let lines = section.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| line.split_once('=').unwrap_or_else(|| panic!("not a setting: {line}")))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

/// The only value of a setting.
fn value(name: &str) -> String {
    let mut values = service().into_iter().filter(|(known, _)| known == name);
    let (_, value) = values.next().unwrap_or_else(|| panic!("no {name}"));
    assert!(values.next().is_none(), "{name} twice");
    value
}

#[test]
fn unit_ends_the_server_only_and_keeps_what_attempts_need() {
    for (name, expected) in [
        ("KillMode", "process"),
        ("OOMPolicy", "continue"),
        ("Restart", "on-failure"),
        ("NoNewPrivileges", "yes"),
        ("ProtectSystem", "strict"),
        ("StateDirectory", "butler-runner"),
        ("StateDirectoryMode", "0700"),
        ("User", "butler-runner"),
    ] {
        assert_eq!(value(name), expected, "{name}");
    }
    // What would end attempts, take their files, hide them from the next server, or deny Landlock.
    for name in [
        "DynamicUser",
        "MemoryDenyWriteExecute",
        "PrivatePIDs",
        "PrivateTmp",
        "PrivateUsers",
        "ProcSubset",
        "RuntimeDirectory",
        "SystemCallFilter",
    ] {
        assert!(service().iter().all(|(known, _)| known != name), "{name}");
    }
    // Isolated attempts need a short path, which can be written under `ProtectSystem=strict`.
    let temporary = value("Environment").strip_prefix("TMPDIR=").unwrap().to_owned();
    assert!(temporary.len() <= 24, "{temporary}");
    assert!(value("ReadWritePaths").split(' ').any(|path| path == temporary), "{temporary}");
}

#[test]
fn command_of_the_unit_is_one_of_this_version() {
    let command = value("ExecStart");
    let words: Vec<&str> = command.split(' ').collect();
    cli::command().try_get_matches_from(&words).unwrap();
    assert_eq!(words[1], "serve");
    let data = words.iter().position(|word| *word == "--data").unwrap() + 1;
    assert_eq!(words[data], format!("/var/lib/{}", value("StateDirectory")));
}
