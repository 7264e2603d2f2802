//! Splits a secret of several lines into the texts that are searched for.
//!
//! The log consists of lines, so each line of a value is a secret of its own. But the lines `users:` and
//! `kind: Config` are in every kubeconfig, and a log without its `users` cannot be read: an ordinary line
//! is only a secret together with a line beside it.

use super::joined::joined;

/// The shortest value, or line of a value, that is masked, in bytes. Masking a value such as `a`
/// would make the log unreadable. Escaped forms are longer than the value; base64 has its own limit.
pub(super) const SHORTEST: usize = 4;

/// The longest ordinary word, in bytes, and the most parts that it can have.
const LONGEST_WORD: usize = 24;
const MOST_PARTS: usize = 3;

/// Parts of keys whose value is a secret, even if it is a word.
const SECRET_KEYS: [&str; 9] =
    ["auth", "cert", "cred", "key", "pass", "pin", "pwd", "secret", "token"];

/// The texts of one value.
#[derive(Debug, Default, Eq, PartialEq)]
pub(in crate::secret) struct Lines<'value> {
    /// Lines that are secrets of their own.
    pub(in crate::secret) own: Vec<&'value str>,
    /// Ordinary lines, each with the line before or behind it, joined by a space.
    pub(in crate::secret) pairs: Vec<String>,
}

impl<'value> Lines<'value> {
    /// The lines of `value` that are long enough. The only line of a value is never ordinary.
    pub(in crate::secret) fn of(value: &'value str) -> Self {
        let lines: Vec<&str> =
            value.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let mut found = Self::default();
        let mut last_pair = None;
        for (index, line) in lines.iter().enumerate().filter(|(_, line)| line.len() >= SHORTEST) {
            if lines.len() == 1 || !is_ordinary(line) {
                found.own.push(line);
                continue;
            }
            let is_long = |line: &&str| line.len() >= SHORTEST;
            let before = lines[..index].iter().rposition(is_long);
            let behind = lines[index + 1..].iter().position(is_long).map(|at| index + 1 + at);
            if let Some(before) = before.filter(|before| last_pair != Some((*before, index))) {
                found.pairs.push(joined(&lines[before..=index].join("\n")));
            }
            if let Some(behind) = behind {
                found.pairs.push(joined(&lines[index..=behind].join("\n")));
                last_pair = Some((index, behind));
            }
            if before.is_none() && behind.is_none() {
                found.own.push(line);
            }
        }
        found
    }
}

/// The lines of `value` that are secrets of their own. An ordinary line of several is not.
#[must_use]
pub fn secret_lines(value: &str) -> Vec<&str> {
    Lines::of(value).own
}

/// Whether `line` is a word or a key, or a key with a word: `users:`, `kind: Config`, `"type": "x",`.
fn is_ordinary(line: &str) -> bool {
    let line = line.trim_start_matches(['-', ' ']);
    let line = line.strip_prefix("export ").unwrap_or(line);
    let bare = |text: &str| text.trim_matches(is_decoration).to_owned();
    let Some((key, value)) = line.split_once([':', '=']) else {
        return bare(line).is_empty() || is_ordinary_word(&bare(line));
    };
    // Without a space, `name:word` is a login. What ends with `=` is base64.
    let is_assigned = match line.as_bytes()[key.len()] {
        b':' => value.is_empty() || value.starts_with([' ', '"']),
        _ => !bare(value).is_empty(),
    };
    let (key, value) = (bare(key), bare(value));
    let lower = key.to_ascii_lowercase();
    let is_open = value.is_empty() || !SECRET_KEYS.iter().any(|part| lower.contains(part));
    is_assigned
        && is_ordinary_word(&key)
        && is_open
        && (value.is_empty() || is_ordinary_word(&value))
}

fn is_decoration(c: char) -> bool {
    !c.is_alphanumeric() && !matches!(c, '+' | '_' | '@' | '#' | '$' | '%' | '!' | '*' | '\\')
}

/// Whether `word` is a word of letters, such as `Config`, `us-east`, `apps/v1` or `ServiceAccount`.
#[must_use]
pub fn is_ordinary_word(word: &str) -> bool {
    let mut parts = 0;
    let is_version = |part: &str| {
        let digits = part.strip_prefix('v').unwrap_or_default();
        digits.starts_with(|c: char| c.is_ascii_digit()) && digits.len() <= 8
    };
    let are_words = word.split(['-', '_', '.', '/']).all(|part| {
        parts += 1 + humps(part);
        is_version(part) || part.len() > 1 && part.bytes().all(|byte| byte.is_ascii_alphabetic())
    });
    are_words && parts <= MOST_PARTS && word.len() <= LONGEST_WORD
}

/// How often a capital follows a small letter in `part`.
fn humps(part: &str) -> usize {
    part.as_bytes()
        .windows(2)
        .filter(|pair| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase())
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_lines_are_words_and_keys_with_words() {
        for line in [
            "users",
            "users:",
            "kind: Config",
            "apiVersion: v1",
            "apiVersion: apps/v1beta1",
            "- name: prod",
            "current-context: eu-prod",
            "preferences: {}",
            "\"type\": \"service_account\",",
            "DB_USER=app",
            "export DEBUG=true",
            "[default]",
            "</note>",
            "done",
            "type = \"string\"",
            "token:",
            "- context:",
            "kind: ServiceAccount",
            "---------",
        ] {
            assert!(is_ordinary(line), "{line}");
        }
        for line in [
            "hunter2",
            "correct horse",
            "password: hunter",
            "token = word",
            "client-key: abcd",
            "exit 1",
            "server: https://10.0.0.1:6443",
            "pin: 4711",
            "12345678",
            "-----BEGIN PRIVATE KEY-----",
            "AbCdEfGhIj",
            "horse-battery-staple-x",
            "certificate-authority-data: LS0tLS1CRUdJTiBDRVJU",
            "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7",
            "user: me@example.com",
            "p@ssword",
            "pass word!",
            "abcdefghijklmnopqrstuvwxyz",
            "admin:hunter",
            "postgres:word",
            "abcdefgh==",
            "k3J9x2Lm/q=",
            "x9Kd82hJ: word",
        ] {
            assert!(!is_ordinary(line), "{line}");
        }
    }

    #[test]
    fn ordinary_line_needs_a_line_beside_it() {
        let lines =
            Lines::of("apiVersion: v1\nusers:\n- name: prod\n  }\n  user:\n    token: hunter2\n");
        assert_eq!(lines.own, ["token: hunter2"]);
        assert_eq!(
            lines.pairs,
            [
                "apiVersion: v1 users:",
                "users: - name: prod",
                "- name: prod } user:",
                "user: token: hunter2",
            ]
        );
        assert_eq!(Lines::of("users"), Lines { own: vec!["users"], pairs: Vec::new() });
        assert_eq!(Lines::of("\n users \n"), Lines { own: vec!["users"], pairs: Vec::new() });
        assert_eq!(Lines::of("users\n}\n"), Lines { own: vec!["users"], pairs: Vec::new() });
        assert_eq!(Lines::of("abc\n"), Lines::default());
        let two = Lines::of("alpha\nbravo");
        assert_eq!(Lines::of("one: two\nadmin:hunter").own, ["admin:hunter"]);
        assert_eq!((two.own, two.pairs), (Vec::new(), vec!["alpha bravo".to_owned()]));
    }
}
