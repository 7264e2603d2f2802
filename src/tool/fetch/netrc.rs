//! Reads `.netrc` files with logins by host.
//!
//! As curl reads it: words separated by white space, or in quotes; the first entry of a host
//! applies, or `default` for all other hosts; macros and comments are skipped.

use std::path::{Path, PathBuf};

use secrecy::{ExposeSecret, SecretString};

use crate::tool::fetch::login::{GivenLogin, Login};

/// The logins in a netrc file.
#[derive(Clone, Debug)]
pub struct Netrc {
    path: PathBuf,
    entries: Vec<NetrcEntry>,
}

#[derive(Clone, Debug, Default)]
struct NetrcEntry {
    /// `None` for `default`.
    host: Option<String>,
    user: String,
    password: SecretString,
}

impl Netrc {
    /// Parses the `text` of the file at `path`. Unknown words are skipped.
    #[must_use]
    pub fn parse(path: &Path, text: &str) -> Self {
        let mut entries: Vec<NetrcEntry> = Vec::new();
        let mut words = Words(text);
        while let Some(word) = words.next() {
            match word.as_str() {
                "machine" => {
                    let host = Some(words.next().unwrap_or_default());
                    entries.push(NetrcEntry { host, ..NetrcEntry::default() });
                }
                "default" => entries.push(NetrcEntry::default()),
                "macdef" => words.skip_macro(),
                "login" | "password" | "account" => {
                    let value = words.next().unwrap_or_default();
                    match (word.as_str(), entries.last_mut()) {
                        ("login", Some(entry)) => entry.user = value,
                        ("password", Some(entry)) => entry.password = value.into(),
                        _ => {}
                    }
                }
                _ => {}
            }
        }
        Self { path: path.to_owned(), entries }
    }

    /// The login for a host.
    pub(in crate::tool) fn login(&self, host: &str) -> Option<GivenLogin> {
        let of = |wanted: Option<&str>| {
            self.entries.iter().find(|entry| match (&entry.host, wanted) {
                (Some(known), Some(wanted)) => known.eq_ignore_ascii_case(wanted),
                (known, wanted) => known.is_none() && wanted.is_none(),
            })
        };
        let NetrcEntry { user, password, .. } = of(Some(host)).or_else(|| of(None))?.clone();
        // An entry can be about something else, or not be text.
        let is_text = |text: &str| !text.contains(char::REPLACEMENT_CHARACTER);
        let is_login = !user.is_empty() || !password.expose_secret().is_empty();
        if !(is_login && is_text(&user) && is_text(password.expose_secret())) {
            return None;
        }
        let by = format!("`{}`", self.path.display());
        Some(GivenLogin { login: Login::Basic { user, password }, by })
    }
}

/// The remaining words.
struct Words<'text>(&'text str);

impl Iterator for Words<'_> {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        loop {
            self.0 = self.0.trim_start();
            if !self.0.starts_with('#') {
                break;
            }
            self.0 = self.0.split_once('\n').map_or("", |(_, rest)| rest);
        }
        let quoted = self.0.starts_with('"');
        let mut word = String::new();
        let mut characters = self.0.char_indices().skip(usize::from(quoted));
        let end = loop {
            match characters.next() {
                None => break self.0.len(),
                Some((at, '"')) if quoted => break at + 1,
                Some((at, c)) if !quoted && c.is_whitespace() => break at,
                Some((_, '\\')) if quoted => word.extend(characters.next().map(|(_, c)| c)),
                Some((_, c)) => word.push(c),
            }
        };
        let is_there = end > 0;
        self.0 = &self.0[end..];
        is_there.then_some(word)
    }
}

impl Words<'_> {
    /// A macro ends with an empty line.
    fn skip_macro(&mut self) {
        let text = self.0;
        let ends = ["\n\n", "\n\r\n"].into_iter().filter_map(|end| text.find(end));
        self.0 = ends.min().map_or("", |end| &text[end..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login(text: &str, host: &str) -> Option<(String, String)> {
        let given = Netrc::parse(Path::new("/home/.netrc"), text).login(host)?;
        let Login::Basic { user, password } = given.login else { panic!("no user") };
        Some((user, password.expose_secret().to_owned()))
    }

    const TEXT: &str = "# ours\nmachine mirror.example login me password hunter2\n\
        machine other.example\n  password \"two \\\"words\\\"\"\n  login you # not a comment here\n\
        macdef init\n cd machine mirror.example\n login no\n\n\
        machine mirror.example login late password late\ndefault login anybody password guest\n";

    #[test]
    fn first_netrc_entry_of_a_host_is_used_else_the_default() {
        let pair = |user: &str, password: &str| Some((user.to_owned(), password.to_owned()));
        assert_eq!(login(TEXT, "mirror.example"), pair("me", "hunter2"));
        assert_eq!(login(TEXT, "MIRROR.example"), pair("me", "hunter2"));
        assert_eq!(login(TEXT, "other.example"), pair("you", "two \"words\""));
        assert_eq!(login(TEXT, "third.example"), pair("anybody", "guest"));
        assert_eq!(login("machine a login b password c", "third.example"), None);
    }

    #[test]
    fn broken_netrc_has_no_login() {
        for text in ["", "machine", "machine a login", "login b", "macdef x", "\"", "#", "\"a\\"] {
            assert!(login(text, "host").is_none(), "{text}");
        }
    }

    #[test]
    fn netrc_entry_without_a_login_is_ignored_and_crlf_is_accepted() {
        assert!(
            login("machine mirror.example account a default login b", "mirror.example").is_none()
        );
        let text = TEXT.replace('\n', "\r\n");
        for host in ["mirror.example", "other.example", "third.example"] {
            assert_eq!(login(&text, host), login(TEXT, host), "{host}");
        }
        let late = "macdef init\r\n login no\r\n\r\nmachine a login b password c\r\n";
        assert_eq!(login(late, "a"), Some(("b".to_owned(), "c".to_owned())));
        let broken = format!("machine a login b password {}", char::REPLACEMENT_CHARACTER);
        assert!(login(&broken, "a").is_none());
    }

    #[test]
    fn debug_output_of_netrc_has_no_password() {
        let netrc = Netrc::parse(Path::new("/home/.netrc"), TEXT);
        assert!(!format!("{netrc:?}").contains("hunter2"));
    }
}
