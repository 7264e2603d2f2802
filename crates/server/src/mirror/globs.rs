//! Globs of paths. `*`, `?` and `[…]` match characters other than `/`, and `**` matches directories.

use std::fmt::Write as _;

use regex_automata::meta::Regex;

use super::below;

/// An invalid glob.
#[derive(Debug, thiserror::Error)]
#[error("`{glob}` is not a valid glob: {why}")]
pub struct InvalidGlob {
    glob: String,
    why: String,
}

/// Globs, of which one must match.
#[derive(Clone, Debug, Default)]
pub struct Globs(Option<Regex>);

impl Globs {
    /// Whether the set is empty.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Whether one of them matches all of `text`.
    #[must_use]
    pub fn is_match(&self, text: &str) -> bool {
        self.0.as_ref().is_some_and(|regex| regex.is_match(text))
    }
}

/// Compiles globs.
///
/// # Errors
/// If one is not valid.
pub fn globs<'a>(globs: impl IntoIterator<Item = &'a str>) -> Result<Globs, InvalidGlob> {
    let mut patterns = Vec::new();
    for glob in globs {
        let failed = |why: &str| InvalidGlob { glob: glob.to_owned(), why: why.to_owned() };
        let pattern = regex(glob).map_err(failed)?;
        // Each one alone, so that the error names it.
        Regex::new(&pattern).map_err(|_| failed("it is too large"))?;
        patterns.push(pattern);
    }
    if patterns.is_empty() {
        return Ok(Globs(None));
    }
    let failed =
        |_| InvalidGlob { glob: "…".to_owned(), why: "all globs are too large".to_owned() };
    Ok(Globs(Some(Regex::new_many(&patterns).map_err(failed)?)))
}

/// Whether the glob can match `directory`, or something below it.
#[must_use]
pub fn can_match_in(glob: &str, directory: &str) -> bool {
    let mut names = directory.split('/');
    for part in glob.split('/').filter(|part| !matches!(*part, "" | ".")) {
        // A part in braces can contain `/`.
        if part.contains("**") || part.contains(['{', '}']) {
            return true;
        }
        let Some(name) = names.next() else { return true };
        if !globs([part]).is_ok_and(|glob| glob.is_match(name)) {
            return false;
        }
    }
    names.next().is_none()
}

/// The regular expression of a glob.
fn regex(glob: &str) -> Result<String, &'static str> {
    let characters: Vec<char> = glob.chars().collect();
    let (mut regex, mut at, mut depth) = ("(?s)\\A(?:".to_owned(), 0, 0_usize);
    while let Some(&character) = characters.get(at) {
        let rest = &characters[at..];
        at += 1;
        match character {
            '*' if rest.get(1) == Some(&'*') && is_directories(&characters, at - 1) => {
                // `**/` is any number of directories, and a last `**` is anything.
                let (directories, length) =
                    if rest.get(2) == Some(&'/') { ("(?:[^/]+/)*", 3) } else { (".*", 2) };
                regex.push_str(directories);
                at += length - 1;
            }
            '*' => regex.push_str("[^/]*"),
            '?' => regex.push_str("[^/]"),
            '[' => at += class(&characters[at..], &mut regex)?,
            '{' => {
                depth += 1;
                regex.push_str("(?:");
            }
            '}' if depth == 0 => return Err("a `}` has no `{`"),
            '}' => {
                depth -= 1;
                regex.push(')');
            }
            ',' if depth > 0 => regex.push('|'),
            '\\' => {
                let escaped = characters.get(at).ok_or("it ends with `\\`")?;
                at += 1;
                push_literal(*escaped, &mut regex);
            }
            character => push_literal(character, &mut regex),
        }
    }
    if depth > 0 {
        return Err("a `{` has no `}`");
    }
    regex.push_str(")\\z");
    Ok(regex)
}

/// Whether the `**` at a place is a whole component.
fn is_directories(characters: &[char], at: usize) -> bool {
    let before = at.checked_sub(1).and_then(|before| characters.get(before));
    let after = characters.get(at + 2);
    matches!(before, None | Some('/' | '{' | ',')) && matches!(after, None | Some('/' | '}' | ','))
}

/// Adds the class after a `[`. Returns its length, with the `]`.
fn class(characters: &[char], regex: &mut String) -> Result<usize, &'static str> {
    let mut at = 0;
    let is_negated = matches!(characters.first(), Some('!' | '^'));
    regex.push_str(if is_negated { "[^/" } else { "[" });
    at += usize::from(is_negated);
    let begin = at;
    loop {
        let next = *characters.get(at).ok_or("a `[` has no `]`")?;
        at += 1;
        match next {
            ']' if at - 1 > begin => break,
            '[' if characters.get(at) == Some(&':') => {
                return Err("classes such as `[:alpha:]` are not supported; write `[a-z]`");
            }
            '/' => return Err("a `[…]` never matches `/`"),
            '\\' => {
                let escaped = *characters.get(at).ok_or("a `[` has no `]`")?;
                at += 1;
                push_literal(escaped, regex);
            }
            first => {
                push_literal(first, regex);
                let last = characters.get(at + 1).filter(|last| **last != ']');
                if let (Some('-'), Some(&last)) = (characters.get(at), last) {
                    if last < first {
                        return Err("a range in `[…]` is empty");
                    }
                    if (first..=last).contains(&'/') {
                        return Err("a `[…]` never matches `/`");
                    }
                    regex.push('-');
                    push_literal(last, regex);
                    at += 2;
                }
            }
        }
    }
    regex.push(']');
    Ok(at)
}

fn push_literal(character: char, regex: &mut String) {
    // Everything that has a meaning in a regular expression is in this form only itself.
    let _ = write!(regex, "\\x{{{:X}}}", u32::from(character));
}

/// What to write instead of a trigger that can match nothing; `None` if it can match a file.
#[must_use]
pub fn never_matches(glob: &str) -> Option<String> {
    if let Some(rest) = glob.strip_prefix('!') {
        return Some(format!(
            "`{glob}` matches nothing, because files cannot be excluded; write globs that match less \
             than `{rest}`"
        ));
    }
    let mut parts = Vec::new();
    for part in glob.split('/') {
        match part {
            ".." if parts.pop().is_none() => {
                return Some(format!(
                    "`{glob}` matches nothing, because it leads out of the repository"
                ));
            }
            "" | "." | ".." => {}
            part => parts.push(part),
        }
    }
    let mut right = parts.join("/");
    if matches!(glob.rsplit('/').next(), Some("" | "." | "..")) && parts.last() != Some(&"**") {
        right = below(&right, "**");
    }
    (right != glob).then(|| {
        format!(
            "`{glob}` matches nothing, because paths of files begin at the root of the repository, without \
             `./` and `/`, and do not end with `/`; write `{right}`"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn glob_can_match_in_a_directory_that_it_leads_to_or_through() {
        for (glob, expected) in [
            ("vendor/lib", true),
            ("vendor/lib/x/*.tf", true),
            ("vendor/*/x", true),
            ("*/lib", true),
            ("**/*.md", true),
            ("vendor/**", true),
            ("ven{dor/lib,x}/y", true),
            ("./vendor/lib/x", true),
            ("*", false),
            ("vendor", false),
            ("vendor/other/**", false),
            ("envs/**", false),
        ] {
            assert_eq!(can_match_in(glob, "vendor/lib"), expected, "{glob}");
        }
    }

    #[test]
    fn globs_match_whole_paths() {
        for (glob, matching, others) in [
            ("a/*", vec!["a/b", "a/.c"], vec!["a", "a/b/c", "xa/b"]),
            ("a/**", vec!["a/b", "a/b/c"], vec!["a", "ab/c"]),
            ("**/a", vec!["a", "b/a", "b/c/a"], vec!["ba", "b/ca"]),
            ("a/**/b", vec!["a/b", "a/x/b", "a/x/y/b"], vec!["ab", "a/xb"]),
            ("**", vec!["a", "a/b"], vec![]),
            ("a**b", vec!["ab", "axb"], vec!["a/b"]),
            ("envs/app{,-eu}", vec!["envs/app", "envs/app-eu"], vec!["envs/app-us"]),
            ("{a,b/**}", vec!["a", "b/c"], vec!["b", "a/c"]),
            ("{a{b,c},d}", vec!["ab", "ac", "d"], vec!["a", "b"]),
            ("a?c", vec!["abc", "aüc"], vec!["ac", "a/c", "abbc"]),
            ("a[bü]c", vec!["abc", "aüc"], vec!["a/c", "axc"]),
            ("a[!b]c", vec!["axc", "aüc"], vec!["a/c", "abc"]),
            ("a[^b-d]c", vec!["axc"], vec!["a/c", "acc"]),
            ("a[]x]c", vec!["a]c", "axc"], vec!["abc"]),
            ("a[x-]c", vec!["a-c", "axc"], vec!["abc"]),
            ("a[&&b^~]c", vec!["a&c", "a^c", "a~c"], vec!["axc"]),
            ("a,b", vec!["a,b"], vec!["a"]),
            ("a\\*b", vec!["a*b"], vec!["axb"]),
            ("a.b+(c)|$", vec!["a.b+(c)|$"], vec!["axb+(c)|$"]),
            ("ä b", vec!["ä b"], vec!["a b"]),
        ] {
            let compiled = globs([glob]).unwrap();
            for path in matching {
                assert!(compiled.is_match(path), "{glob} {path}");
            }
            for path in others {
                assert!(!compiled.is_match(path), "{glob} {path}");
            }
        }
        let both = globs(["a", "b"]).unwrap();
        assert_eq!(["a", "b", "c"].map(|path| both.is_match(path)), [true, true, false]);
        assert!(globs([]).unwrap().is_empty() && !globs([]).unwrap().is_match(""));
    }

    #[test]
    fn invalid_glob_is_named() {
        for (glob, why) in [
            ("a{b", "a `{` has no `}`"),
            ("a}b", "a `}` has no `{`"),
            ("a[b", "a `[` has no `]`"),
            ("a[", "a `[` has no `]`"),
            ("a\\", "it ends with `\\`"),
            ("a[[:alpha:]]", "classes such as `[:alpha:]` are not supported; write `[a-z]`"),
            ("a[![:digit:]]", "classes such as `[:alpha:]` are not supported; write `[a-z]`"),
            ("a[b/]", "a `[…]` never matches `/`"),
            ("a[+-9]", "a `[…]` never matches `/`"),
            ("a[z-a]", "a range in `[…]` is empty"),
        ] {
            let error = globs(["x", glob]).unwrap_err().to_string();
            assert_eq!(error, format!("`{glob}` is not a valid glob: {why}"));
        }
    }

    #[test]
    fn globs_that_match_no_file_have_a_right_form() {
        for (glob, right) in [
            ("./x/**", "write `x/**`"),
            ("/x/**", "write `x/**`"),
            ("x/", "write `x/**`"),
            ("x/.", "write `x/**`"),
            ("x//y", "write `x/y`"),
            ("a/../x", "write `x`"),
            ("./x/**/", "write `x/**`"),
            (".", "write `**`"),
            ("/", "write `**`"),
            ("", "write `**`"),
            ("!x", "files cannot be excluded"),
            ("../x", "it leads out of the repository"),
        ] {
            let message = never_matches(glob).unwrap();
            assert!(message.contains(right), "{message}");
        }
        for glob in ["x", "x/**", "**", "*.tf", ".github/**", "x/..y", "[!a]", "a!"] {
            assert_eq!(never_matches(glob), None, "{glob}");
        }
    }
}
