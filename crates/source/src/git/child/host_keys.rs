//! Selects the trusted ssh host keys, by OpenSSH's rules for `known_hosts` (sshd(8)).
//!
//! libgit2 reads `known_hosts` in the home directory, requests a kind of key that it finds there from
//! the server, and refuses others. It supports neither patterns nor markers, so the lines of one host
//! are selected here and written in the simplest form.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha1::Sha1;
use sha2::{Digest as _, Sha256};

use super::super::failure::FetchError;
use super::super::known_hosts::read_all;
use super::super::task::Access;
use super::super::url::RepositoryUrl;

/// A summary of the entries of a host in `known_hosts`.
#[derive(Debug, Default)]
pub(super) struct KnownHost {
    /// Whether any key of the host is trusted.
    pub(super) has_key: bool,
    /// The fingerprints (SHA-256, base64) of the keys that are revoked for it.
    pub(super) revoked: Vec<String>,
}

/// Prepares the scratch home directory for a connection to `url`.
///
/// If the run has lines, only these are trusted; otherwise, those of the user and of the system are. A key that any of
/// these sources revokes is not trusted.
///
/// # Errors
/// When the file cannot be written.
pub(super) fn write_known_hosts(
    access: &Access,
    url: &RepositoryUrl,
) -> Result<KnownHost, FetchError> {
    let of_files = read_all(access.home.as_deref());
    let keys = host_keys(access.known_hosts.as_deref(), &of_files, &url.host, url.port);
    let name = lookup_name(&url.host, url.port);
    let lines: Vec<String> = keys.trusted.iter().map(|key| format!("{name} {key}\n")).collect();
    let directory = access.scratch_home.join(".ssh");
    std::fs::create_dir_all(&directory)
        .and_then(|()| std::fs::write(directory.join("known_hosts"), lines.concat()))
        .map_err(|error| FetchError::Git {
            act: format!("write known_hosts in `{}`", directory.display()),
            reason: error.to_string(),
        })?;
    let revoked = keys.revoked.iter().filter_map(|key| STANDARD.decode(key).ok());
    let revoked = revoked.map(|key| STANDARD_NO_PAD.encode(Sha256::digest(key))).collect();
    Ok(KnownHost { has_key: !keys.trusted.is_empty(), revoked })
}

/// The keys of a host.
#[derive(Debug, Default)]
struct HostKeys {
    /// Type and base64.
    trusted: Vec<String>,
    /// Base64.
    revoked: Vec<String>,
}

/// The keys of a host in the lines of the run; if the run has none, in those of the files.
fn host_keys(of_run: Option<&str>, of_files: &str, host: &str, port: u16) -> HostKeys {
    let name = lookup_name(host, port);
    let text = of_run.unwrap_or(of_files);
    let mut trusted = keys(text, &name, None);
    // Lines without a port count for the kinds of keys that the lines with this port do not have.
    if name != host {
        let kinds: Vec<&str> = trusted.iter().map(|(kind, _)| *kind).collect();
        let more = keys(text, host, None);
        trusted.extend(more.into_iter().filter(|(kind, _)| !kinds.contains(kind)));
    }
    let mut revoked = Vec::new();
    for text in [of_run.unwrap_or_default(), of_files] {
        for name in [name.as_str(), host] {
            revoked.extend(keys(text, name, Some("@revoked")).into_iter().map(|(_, key)| key));
        }
    }
    trusted.retain(|(_, key)| !revoked.contains(key));
    HostKeys {
        trusted: trusted.into_iter().map(|(kind, key)| format!("{kind} {key}")).collect(),
        revoked: revoked.into_iter().map(str::to_owned).collect(),
    }
}

/// The keys (type and base64) of the lines of `text` with this marker that are about `name`. libgit2 cannot check
/// certificates that an authority signed (`@cert-authority`).
fn keys<'text>(
    text: &'text str,
    name: &str,
    marker: Option<&str>,
) -> Vec<(&'text str, &'text str)> {
    let mut keys = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
        let mut fields = line.split_whitespace().peekable();
        let found = fields.next_if(|field| field.starts_with('@'));
        if let (Some(hosts), Some(kind), Some(key)) = (fields.next(), fields.next(), fields.next())
            && found == marker
            && matches(hosts, name)
        {
            keys.push((kind, key));
        }
    }
    keys
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
        let trusted = |host, port| host_keys(None, HASHED, host, port).trusted;
        let key = ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEUO"];
        assert_eq!(trusted("git.example.com", 22), key);
        assert_eq!(trusted("git.example.com", 2222), key);
        assert_eq!(trusted("git.example.org", 22), [""; 0]);
    }

    #[test]
    fn revoked_keys_and_authorities_are_not_trusted_keys() {
        let text = "# comment\n\nh ssh-rsa AAAA comment\nh ssh-ed25519 BBBB\n@revoked * ssh-rsa AAAA\n\
                    @cert-authority h ssh-rsa CCCC\nh\n";
        assert_eq!(host_keys(None, text, "h", 22).trusted, ["ssh-ed25519 BBBB"]);
    }

    #[test]
    fn lines_of_the_run_are_the_only_ones_and_each_file_can_revoke() {
        let key = |host: &str, kind: &str, key: &str| format!("{host} {kind} {key}\n");
        let (own, other) = (key("h", "ssh-ed25519", "AAAA"), key("h", "ssh-ed25519", "BBBB"));
        let revoked = key("@revoked h", "ssh-ed25519", "AAAA");
        let elsewhere = key("other", "ssh-ed25519", "CCCC");
        for (of_run, of_files, expected) in [
            (None, other.clone(), &["ssh-ed25519 BBBB"][..]),
            (Some(own.clone()), other.clone(), &["ssh-ed25519 AAAA"]),
            // Also if they do not name the host, or there are none.
            (Some(elsewhere.clone()), other.clone(), &[]),
            (Some(String::new()), other.clone(), &[]),
            (Some(own.clone()), revoked.clone(), &[]),
            (Some(own.clone() + &revoked), other.clone(), &[]),
            (None, own.clone() + &other + &revoked, &["ssh-ed25519 BBBB"]),
            (Some(revoked), own.clone(), &[]),
        ] {
            let found = host_keys(of_run.as_deref(), &of_files, "h", 22);
            assert_eq!(found.trusted, expected, "{of_run:?} {of_files}");
        }
    }

    #[test]
    fn lines_without_a_port_count_for_kinds_that_the_port_does_not_have() {
        let (plain, rsa) = ("h ssh-ed25519 AAAA\n", "h ssh-rsa RRRR\n");
        let (port, revoked) = ("[h]:2222 ssh-ed25519 BBBB\n", "@revoked h ssh-ed25519 AAAA\n");
        let star = "* ssh-ed25519 SSSS\n";
        for (text, port, expected) in [
            (plain.to_owned(), 2222, &["ssh-ed25519 AAAA"][..]),
            (format!("{plain}{port}"), 2222, &["ssh-ed25519 BBBB"]),
            (format!("{plain}{port}"), 22, &["ssh-ed25519 AAAA"]),
            (format!("{rsa}{port}"), 2222, &["ssh-ed25519 BBBB", "ssh-rsa RRRR"]),
            (port.to_owned(), 22, &[]),
            (port.to_owned(), 2223, &[]),
            (format!("{plain}{revoked}"), 2222, &[]),
            (format!("{plain}{star}"), 2222, &["ssh-ed25519 SSSS"]),
        ] {
            assert_eq!(host_keys(None, &text, "h", port).trusted, expected, "{text} {port}");
        }
    }
}
