//! Reads `.gitmodules` without its includes.
//!
//! The author of the repository writes this file. libgit2 opens each file that an `include` in it names, which git
//! itself does not do: at the checkout, and when submodules are listed. So the file is parsed here (git-config(1),
//! "Syntax"). If it could contain an include, libgit2 checks out a text that contains settings of submodules only,
//! and the content of the commit is written when the submodules are there.

use std::fmt::Write as _;
use std::iter::Peekable;
use std::str::Chars;

use git2::{FileMode, Repository, Tree};

/// The file in the root of a working tree.
const FILE: &str = ".gitmodules";

/// A setting of a submodule.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Setting {
    /// The name of the submodule.
    pub(super) submodule: String,
    /// The name of the setting, in lower case.
    pub(super) key: String,
    pub(super) value: String,
}

/// The settings of submodules in the text of a file, in its order.
///
/// # Errors
/// If a line is not valid.
pub(super) fn settings(text: &[u8]) -> Result<Vec<Setting>, git2::Error> {
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

/// A text with these settings and nothing else.
fn text_of(settings: &[Setting]) -> String {
    let escaped = |text: &str| {
        let text = text.replace('\\', "\\\\").replace('"', "\\\"");
        text.replace('\n', "\\n").replace('\t', "\\t")
    };
    settings.iter().fold(String::new(), |mut text, Setting { submodule, key, value }| {
        let submodule = submodule.replace('\\', "\\\\").replace('"', "\\\"");
        // Writing to a string does not fail.
        let _ = writeln!(text, "[submodule \"{submodule}\"]\n\t{key} = \"{}\"", escaped(value));
        text
    })
}

/// The tree to check out instead of `tree`; `None` if that contains no file that could have an include.
///
/// # Errors
/// If the file is not valid, or the tree cannot be written.
pub(super) fn without_includes<'repository>(
    repository: &'repository Repository,
    tree: &Tree<'repository>,
) -> Result<Option<Tree<'repository>>, git2::Error> {
    let suspects = suspects(repository, tree)?;
    if suspects.is_empty() {
        return Ok(None);
    }
    let mut builder = repository.treebuilder(Some(tree))?;
    for (name, content) in suspects {
        let blob = repository.blob(text_of(&settings(&content)?).as_bytes())?;
        builder.insert(name, blob, FileMode::Blob.into())?;
    }
    repository.find_tree(builder.write()?).map(Some)
}

/// Writes the content of the commit into the working tree, if another one was checked out.
///
/// # Errors
/// If it cannot be written.
pub(super) fn restore(repository: &Repository) -> Result<(), git2::Error> {
    let tree = repository.head()?.peel_to_tree()?;
    let suspects = suspects(repository, &tree)?;
    let Some(directory) = repository.workdir().filter(|_| !suspects.is_empty()) else {
        return Ok(());
    };
    for (name, content) in suspects {
        let path = directory.join(name);
        let written = std::fs::remove_file(&path).and_then(|()| std::fs::write(&path, content));
        written.map_err(|error| git2::Error::from_str(&error.to_string()))?;
    }
    let mut index = repository.index()?;
    index.read_tree(&tree)?;
    index.write()
}

/// The files of `tree` that libgit2 could read as [`FILE`] on any file system, and that could have an include.
fn suspects(
    repository: &Repository,
    tree: &Tree<'_>,
) -> Result<Vec<(String, Vec<u8>)>, git2::Error> {
    let mut found = Vec::new();
    for entry in tree {
        // libgit2 refuses a link of this name.
        let is_file = [i32::from(FileMode::Blob), FileMode::BlobExecutable.into()];
        let Ok(name) = entry.name() else { continue };
        if name.eq_ignore_ascii_case(FILE) && is_file.contains(&entry.filemode()) {
            let content = repository.find_blob(entry.id())?.content().to_vec();
            // The name of a section cannot be written in another way.
            if content.to_ascii_lowercase().windows(7).any(|part| part == b"include") {
                found.push((name.to_owned(), content));
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

    #[test]
    fn written_settings_are_read_again_and_libgit2_reads_the_same() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config");
        let names = ["a", "a b", "a\"]\n[include]", "a\\", "x.y", "=#;"];
        let values = ["", "x", " x ", "a\"b", "a\\", "a # b ; c", "a\n[include]\npath = /x", "\ta"];
        for name in names {
            for value in values {
                let name = name.replace('\n', "");
                let setting = |key: &str| Setting {
                    submodule: name.clone(),
                    key: key.to_owned(),
                    value: value.to_owned(),
                };
                let all = vec![setting("path"), setting("url")];
                let text = text_of(&all);
                assert_eq!(settings(text.as_bytes()).unwrap(), all, "{text}");
                std::fs::write(&path, &text).unwrap();
                let config = git2::Config::open(&path).unwrap().snapshot().unwrap();
                let read = config.get_string(&format!("submodule.{name}.url")).unwrap();
                assert_eq!(read, value, "{text}");
            }
        }
    }
}
