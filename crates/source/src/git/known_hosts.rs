//! The `known_hosts` files of the user and the system (ssh(1)).

use std::path::{Path, PathBuf};

/// The files for all users of a machine.
const OF_SYSTEM: [&str; 2] = ["/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2"];

/// The files of a user, relative to the home directory.
const OF_USER: [&str; 2] = [".ssh/known_hosts", ".ssh/known_hosts2"];

/// The lines of all these files that can be read.
pub(super) fn read_all(home: Option<&Path>) -> String {
    let of_user = home.into_iter().flat_map(|home| OF_USER.map(|name| home.join(name)));
    let files = of_user.chain(OF_SYSTEM.map(PathBuf::from));
    let texts = files.filter_map(|file| std::fs::read(file).ok());
    texts.map(|bytes| String::from_utf8_lossy(&bytes).into_owned() + "\n").collect()
}

/// The lines that revoke a key.
pub(super) fn revocations(lines: &str) -> impl Iterator<Item = &str> {
    lines.lines().map(str::trim).filter(|line| line.starts_with("@revoked"))
}
