//! Selects the trusted ssh host keys, by OpenSSH's rules for `known_hosts` (sshd(8)).
//!
//! libgit2 reads `known_hosts` in the home directory, requests a kind of key that it finds there from
//! the server, and refuses others. It supports neither patterns nor markers, so the lines of one host
//! are selected here and written in the simplest form.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha1::Sha1;

use super::super::failure::FetchError;
use super::super::task::Access;
use super::super::url::RepositoryUrl;

/// The file for all users of a machine.
const SYSTEM_FILE: &str = "/etc/ssh/ssh_known_hosts";

/// Prepares the scratch home directory for a connection to `url`. Returns whether any key of this
/// host is known.
///
/// The lines of the run take precedence if they name this host; otherwise the files of the user and the
/// system apply.
///
/// # Errors
/// When the file cannot be written.
pub(super) fn write_known_hosts(access: &Access, url: &RepositoryUrl) -> Result<bool, FetchError> {
    let mut keys =
        trusted_keys(access.known_hosts.as_deref().unwrap_or_default(), &url.host, url.port);
    if keys.is_empty() {
        let user = access.home.as_ref().map(|home| home.join(".ssh/known_hosts"));
        let text: String = user
            .iter()
            .map(std::path::PathBuf::as_path)
            .chain([Path::new(SYSTEM_FILE)])
            .filter_map(|file| std::fs::read(file).ok())
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned() + "\n")
            .collect();
        keys = trusted_keys(&text, &url.host, url.port);
    }
    let name = lookup_name(&url.host, url.port);
    let lines: Vec<String> = keys.iter().map(|key| format!("{name} {key}\n")).collect();
    let directory = access.scratch_home.join(".ssh");
    std::fs::create_dir_all(&directory)
        .and_then(|()| std::fs::write(directory.join("known_hosts"), lines.concat()))
        .map_err(|error| FetchError::Git {
            act: format!("write known_hosts in `{}`", directory.display()),
            reason: error.to_string(),
        })?;
    Ok(!keys.is_empty())
}

/// The keys (type and base64) that `text` trusts for a host; revoked ones are left out.
fn trusted_keys<'text>(text: &'text str, host: &str, port: u16) -> Vec<String> {
    let name = lookup_name(host, port);
    let mut keys: Vec<(&'text str, &'text str)> = Vec::new();
    let mut revoked: Vec<&'text str> = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
        let mut fields = line.split_whitespace();
        let Some(mut hosts) = fields.next() else { continue };
        let marker = hosts.starts_with('@').then_some(hosts);
        if marker.is_some() {
            let Some(next) = fields.next() else { continue };
            hosts = next;
        }
        let (Some(kind), Some(key)) = (fields.next(), fields.next()) else { continue };
        if !matches(hosts, &name) {
            continue;
        }
        match marker {
            None => keys.push((kind, key)),
            Some("@revoked") => revoked.push(key),
            // libgit2 cannot check certificates that an authority signed.
            Some(_) => {}
        }
    }
    keys.retain(|(_, key)| !revoked.contains(key));
    keys.into_iter().map(|(kind, key)| format!("{kind} {key}")).collect()
}

/// The name under which a host is looked up.
fn lookup_name(host: &str, port: u16) -> String {
    if port == 22 { host.to_owned() } else { format!("[{host}]:{port}") }
}

/// Whether the first field of a line applies to `name`.
fn matches(hosts: &str, name: &str) -> bool {
    if let Some(hashed) = hosts.strip_prefix("|1|") {
        return hashed_matches(hashed, name).unwrap_or(false);
    }
    let mut found = false;
    for pattern in hosts.split(',') {
        match pattern.strip_prefix('!') {
            Some(pattern) if wildcard_matches(pattern, name) => return false,
            Some(_) => {}
            None => found |= wildcard_matches(pattern, name),
        }
    }
    found
}

/// `salt|hash`, both base64: HMAC-SHA1 of the name.
fn hashed_matches(hashed: &str, name: &str) -> Option<bool> {
    let (salt, hash) = hashed.split_once('|')?;
    let mut mac = Hmac::<Sha1>::new_from_slice(&STANDARD.decode(salt).ok()?).ok()?;
    mac.update(name.as_bytes());
    Some(mac.verify_slice(&STANDARD.decode(hash).ok()?).is_ok())
}

/// `*` matches any characters, `?` matches one; the match ignores case.
fn wildcard_matches(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let (mut at, mut position, mut star) = (0, 0, None);
    while position < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, position));
                at += 1;
            }
            Some(byte) if *byte == b'?' || byte.eq_ignore_ascii_case(&name[position]) => {
                at += 1;
                position += 1;
            }
            _ => {
                let Some((star_at, taken)) = star else { return false };
                star = Some((star_at, taken + 1));
                at = star_at + 1;
                position = taken + 1;
            }
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_hosts_lines_match_as_in_openssh() {
        let name = "git.example.com";
        assert!(matches("git.example.com,10.0.0.1", name));
        assert!(matches("*.example.com", name));
        assert!(matches("GIT.example.co?", name));
        assert!(!matches("*.example.com,!git.*", name));
        assert!(!matches("git.example.com", "[git.example.com]:2222"));
        assert!(matches("[git.example.com]:2222", "[git.example.com]:2222"));
        assert!(!matches("example.com", name));
        assert!(!matches("|1|nonsense", name));
    }

    /// Made by `ssh-keygen -H` for `git.example.com`.
    const HASHED: &str = "|1|zRunAj3+jrS2HTyTA7UV6sE8W18=|O6/Tk7iMzFc9ADSrY8pRSCmxUcQ= ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEUO";

    #[test]
    fn hashed_names_are_recognised() {
        assert_eq!(
            trusted_keys(HASHED, "git.example.com", 22),
            ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEUO"]
        );
        assert_eq!(trusted_keys(HASHED, "git.example.org", 22), [""; 0]);
    }

    #[test]
    fn revoked_keys_and_authorities_are_not_trusted_keys() {
        let text = "# comment\n\nh ssh-rsa AAAA comment\nh ssh-ed25519 BBBB\n@revoked * ssh-rsa AAAA\n\
                    @cert-authority h ssh-rsa CCCC\nh\n";
        assert_eq!(trusted_keys(text, "h", 22), ["ssh-ed25519 BBBB"]);
    }
}
