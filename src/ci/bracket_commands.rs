//! Commands in brackets, which several CI systems read anywhere in a line: `##[command]`, `##vso[command]` and
//! `##teamcity[message]`.

use std::borrow::Cow;

/// The part of a command after `##`, in lower case.
const PREFIXES: [&str; 3] = ["[", "vso[", "teamcity["];

/// Inserts a space after the first `#` of each command in `line`.
pub(super) fn disarm_bracket_commands(line: &str) -> Cow<'_, str> {
    let begins = |at: usize| {
        line[at..].strip_prefix("##").is_some_and(|rest| {
            let rest = rest.as_bytes();
            let has_prefix = |prefix: &&str| {
                let beginning = rest.get(..prefix.len());
                beginning.is_some_and(|it| it.eq_ignore_ascii_case(prefix.as_bytes()))
            };
            PREFIXES.iter().any(has_prefix)
        })
    };
    let found: Vec<usize> =
        memchr::memchr_iter(b'#', line.as_bytes()).filter(|at| begins(*at)).collect();
    if found.is_empty() {
        return Cow::Borrowed(line);
    }
    let mut disarmed = String::with_capacity(line.len() + found.len());
    let mut written = 0;
    for at in found {
        disarmed.push_str(&line[written..=at]);
        disarmed.push(' ');
        written = at + 1;
    }
    disarmed.push_str(&line[written..]);
    Cow::Owned(disarmed)
}
