//! Reads `.gitmodules`, as git does and libgit2 does not: without its includes (git-config(1), "Syntax").
//!
//! The author of the repository writes this file, so it is not trusted.

use std::iter::Peekable;
use std::path::Path;
use std::str::Chars;

use git2::{ObjectType, Oid, Repository, Tree};

/// The file in the root of a working tree.
pub(crate) const FILE: &str = ".gitmodules";

/// A setting of a submodule.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Setting {
    /// The name of the submodule.
    pub(crate) submodule: String,
    /// The name of the setting, in lower case.
    pub(crate) key: String,
    pub(crate) value: String,
}

/// A submodule of a commit.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Submodule {
    /// Its directory.
    pub(crate) path: String,
    /// Its address, as it is written. Empty if there is none.
    pub(crate) url: String,
    /// Whether git leaves it out: `update = none`.
    pub(crate) is_left_out: bool,
    /// Its commit.
    pub(crate) commit: Oid,
}

/// The submodules in `tree`. Git also ignores an entry of `.gitmodules` without a commit in the tree, and a commit
/// without an entry.
///
/// # Errors
/// If an object cannot be read, or the file is not valid.
pub(crate) fn submodules(
    repository: &Repository,
    tree: &Tree<'_>,
) -> Result<Vec<Submodule>, git2::Error> {
    let Some(file) = tree.get_name(FILE) else { return Ok(Vec::new()) };
    if file.kind() != Some(ObjectType::Blob) {
        return Ok(Vec::new());
    }
    let settings = settings(repository.find_blob(file.id())?.content())?;
    let setting = |submodule: &str, key: &str| {
        // The last one counts, as in git.
        let mut all = settings.iter().rev();
        let found = all.find(|it| it.submodule == submodule && it.key == key);
        found.map(|it| it.value.clone()).unwrap_or_default()
    };
    let mut found = Vec::new();
    for Setting { submodule, value, .. } in settings.iter().filter(|it| it.key == "path") {
        let Ok(entry) = tree.get_path(Path::new(value)) else { continue };
        if entry.kind() == Some(ObjectType::Commit) {
            found.push(Submodule {
                path: value.clone(),
                url: setting(submodule, "url"),
                is_left_out: setting(submodule, "update") == "none",
                commit: entry.id(),
            });
        }
    }
    Ok(found)
}

/// The settings of submodules in the text of a file, in its order.
///
/// # Errors
/// If a line is not valid.
pub(crate) fn settings(text: &[u8]) -> Result<Vec<Setting>, git2::Error> {
    let text = String::from_utf8_lossy(text).replace("\r\n", "\n");
    let mut parser =
        Parser { rest: text.trim_start_matches('\u{feff}').chars().peekable(), line: 1 };
    let (mut found, mut section) = (Vec::new(), None);
    while let Some(next) = parser.peek_token() {
        match next {
            '[' => section = Some(parser.header()?),
            '#' | ';' => parser.comment(),
            _ => {
                let (key, value) = parser.setting()?;
                match &section {
                    None => return Err(parser.wrong("a setting without a section")),
                    Some((name, Some(submodule))) if name == "submodule" => {
                        let submodule = submodule.clone();
                        found.push(Setting { submodule, key, value });
                    }
                    Some(_) => {}
                }
            }
        }
    }
    Ok(found)
}

struct Parser<'text> {
    rest: Peekable<Chars<'text>>,
    line: usize,
}

impl Parser<'_> {
    fn next(&mut self) -> Option<char> {
        let next = self.rest.next();
        self.line += usize::from(next == Some('\n'));
        next
    }

    fn wrong(&self, what: &str) -> git2::Error {
        git2::Error::from_str(&format!("{what} in line {}", self.line))
    }

    /// The first character that is not white space.
    fn peek_token(&mut self) -> Option<char> {
        while self.rest.peek().is_some_and(|next| next.is_whitespace()) {
            self.next();
        }
        self.rest.peek().copied()
    }

    fn skip_blanks(&mut self) {
        while self.rest.next_if(|next| matches!(next, ' ' | '\t')).is_some() {}
    }

    fn comment(&mut self) {
        while self.rest.peek().is_some_and(|next| *next != '\n') {
            self.next();
        }
    }

    /// `[section]`, `[section "subsection"]` or `[section.subsection]`.
    fn header(&mut self) -> Result<(String, Option<String>), git2::Error> {
        self.next();
        let mut name = String::new();
        loop {
            match self.next() {
                Some(']') => break,
                Some(' ' | '\t') => {
                    self.skip_blanks();
                    let subsection = self.subsection()?;
                    return Ok((name.to_ascii_lowercase(), Some(subsection)));
                }
                Some(next) if next.is_ascii_alphanumeric() || "-.".contains(next) => {
                    name.push(next);
                }
                _ => return Err(self.wrong("a section that is not valid")),
            }
        }
        let name = name.to_ascii_lowercase();
        Ok(match name.split_once('.') {
            Some((name, subsection)) => (name.to_owned(), Some(subsection.to_owned())),
            None => (name, None),
        })
    }

    fn subsection(&mut self) -> Result<String, git2::Error> {
        let mut name = String::new();
        if self.next() != Some('"') {
            return Err(self.wrong("a section that is not valid"));
        }
        loop {
            match self.next() {
                Some('"') => break,
                Some('\\') => name.extend(self.next()),
                None | Some('\n') => return Err(self.wrong("a section without an end")),
                Some(next) => name.push(next),
            }
        }
        if self.next() != Some(']') {
            return Err(self.wrong("a section without an end"));
        }
        Ok(name)
    }

    /// `key = value`, or `key`, which means `true`.
    fn setting(&mut self) -> Result<(String, String), git2::Error> {
        let mut key = String::new();
        while let Some(next) = self.rest.next_if(|it| it.is_ascii_alphanumeric() || *it == '-') {
            key.push(next.to_ascii_lowercase());
        }
        if !key.starts_with(|first: char| first.is_ascii_alphabetic()) {
            return Err(self.wrong("a setting that is not valid"));
        }
        self.skip_blanks();
        match self.rest.peek() {
            Some('=') => {
                self.next();
                Ok((key, self.value()?))
            }
            None | Some('\n' | '#' | ';') => Ok((key, "true".to_owned())),
            Some(_) => Err(self.wrong("a setting that is not valid")),
        }
    }

    /// A value up to the end of its line, without the blanks around it.
    fn value(&mut self) -> Result<String, git2::Error> {
        self.skip_blanks();
        let (mut value, mut kept, mut is_quoted) = (String::new(), 0, false);
        loop {
            match self.next() {
                None | Some('\n') if !is_quoted => break,
                None | Some('\n') => return Err(self.wrong("a value without an end")),
                Some('#' | ';') if !is_quoted => {
                    self.comment();
                    break;
                }
                Some('"') => is_quoted = !is_quoted,
                Some('\\') => match self.next() {
                    // The value goes on in the next line.
                    Some('\n') => continue,
                    Some('n') => value.push('\n'),
                    Some('t') => value.push('\t'),
                    Some('b') => {
                        value.pop();
                    }
                    Some(next @ ('"' | '\\')) => value.push(next),
                    _ => return Err(self.wrong("an escape that is not valid")),
                },
                Some(next) => {
                    value.push(next);
                    if !is_quoted && next.is_whitespace() {
                        continue;
                    }
                }
            }
            kept = value.len();
        }
        value.truncate(kept);
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Result<Vec<(String, String, String)>, String> {
        let settings = settings(text.as_bytes()).map_err(|error| error.message().to_owned())?;
        Ok(settings.into_iter().map(|it| (it.submodule, it.key, it.value)).collect())
    }

    #[test]
    fn settings_are_those_that_git_reads() {
        for (text, expected) in [
            ("", vec![]),
            (
                "[submodule \"a\"]\n\tpath = x\n\turl = ../b\n",
                vec![("a", "path", "x"), ("a", "url", "../b")],
            ),
            ("[Submodule \"A b\"]\r\nPATH=x y \r\n", vec![("A b", "path", "x y")]),
            ("[submodule.Old]\npath = x", vec![("old", "path", "x")]),
            (
                "[submodule \"a\\\"\\\\b\"] path = \"x # y\" ; no\n",
                vec![("a\"\\b", "path", "x # y")],
            ),
            ("[submodule \"a\"]\npath = x\\\n  y # no\n", vec![("a", "path", "x  y")]),
            ("[submodule \"a\"]\nurl = \"a\\tb\\n\\\\\"c\n", vec![("a", "url", "a\tb\n\\c")]),
            ("[submodule \"a\"]\nshallow\n", vec![("a", "shallow", "true")]),
            (
                "[core]\nbare = true\n[submodule \"a\"] path=x [core] path=y\n",
                vec![("a", "path", "x [core] path=y")],
            ),
            ("# [submodule \"a\"]\n; path = x\n[include]\npath = /etc/passwd\n", vec![]),
            (
                "[includeIf \"gitdir:/\"]\npath = /x\n[submodule \"a\"]\npath = x",
                vec![("a", "path", "x")],
            ),
            ("[submodule \"a\"]\npath = x\n[include] path = /dev/zero", vec![("a", "path", "x")]),
        ] {
            let found = found(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            let found: Vec<_> = found.iter().map(|(a, b, c)| (&**a, &**b, &**c)).collect();
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn text_that_is_not_valid_is_refused_with_its_line() {
        for (text, expected) in [
            ("path = x", "a setting without a section in line 1"),
            ("[submodule \"a\"]\n\n[sub", "a section that is not valid in line 3"),
            ("[submodule \"a\n\"]", "a section without an end in line 2"),
            ("[submodule \"a\"]\npath = \"x\n", "a value without an end in line 3"),
            ("[submodule \"a\"]\npath = \\x\n", "an escape that is not valid in line 2"),
            ("[submodule \"a\"]\n= x\n", "a setting that is not valid in line 2"),
        ] {
            assert_eq!(found(text).unwrap_err(), expected, "{text}");
        }
    }
}
