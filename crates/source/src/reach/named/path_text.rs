//! Texts that can be paths, with parts that are known only when the tool runs.

use super::reference::Start;

/// The characters of a glob of Terraform's `fileset`. The path in front of the first one is literal.
const GLOB: [char; 5] = ['*', '?', '[', '{', '\\'];

/// A part of a text.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Part {
    /// These characters.
    Text(String),
    /// The path of a directory.
    Directory(Start),
    /// Any text without `..`, such as a name that `fileset` found.
    Name,
    /// The path of a file that a provider writes, so it is not in the commit.
    Written,
    /// Any text.
    Unknown,
}

/// A path is not known.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct NotUnderstood;

/// A text, from left to right.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct PathText(pub(super) Vec<Part>);

impl PathText {
    pub(super) fn unknown() -> Self {
        Self(vec![Part::Unknown])
    }

    pub(super) fn name() -> Self {
        Self(vec![Part::Name])
    }

    pub(super) fn text(text: impl Into<String>) -> Self {
        Self(vec![Part::Text(text.into())])
    }

    pub(super) fn directory(start: Start) -> Self {
        Self(vec![Part::Directory(start)])
    }

    /// The text, if all of it is known.
    pub(super) fn literal(&self) -> Option<String> {
        let texts = self.0.iter().map(|part| match part {
            Part::Text(text) => Some(text.as_str()),
            _ => None,
        });
        texts.collect()
    }

    /// Whether it can only be one name without `..` in it, whatever its parts are.
    pub(super) fn is_name(&self) -> bool {
        match self.0.as_slice() {
            [Part::Name] => true,
            parts => {
                let text = Self(parts.to_vec()).literal();
                text.is_some_and(|text| !text.contains("..") && !text.starts_with('/'))
            }
        }
    }

    pub(super) fn has_directory(&self) -> bool {
        self.0.iter().any(|part| matches!(part, Part::Directory(_)))
    }

    /// Whether it was written as a path that can lead out of the directory of a module.
    pub(super) fn looks_like_path(&self) -> bool {
        let begins = matches!(self.0.first(), Some(Part::Text(text)) if text.starts_with("./"));
        let leads_up = |part: &Part| matches!(part, Part::Text(text) if has_parent(text));
        begins || self.has_directory() || self.0.iter().any(leads_up)
    }

    /// Adds the text of `other`.
    pub(super) fn push(&mut self, other: Self) {
        for part in other.0 {
            match (self.0.last_mut(), part) {
                (Some(Part::Text(last)), Part::Text(text)) => last.push_str(&text),
                (_, Part::Text(text)) if text.is_empty() => {}
                (_, part) => self.0.push(part),
            }
        }
    }

    /// Where the path leads that begins in `start` unless it says otherwise, cut back to the directory in front
    /// of what is not literal; `None` if that is not in the commit. With `is_glob`, the text is a glob.
    ///
    /// # Errors
    /// If a part is not known, or can lead up.
    pub(super) fn resolve(
        &self,
        start: &Start,
        is_glob: bool,
    ) -> Result<Option<(Start, String)>, NotUnderstood> {
        let (start, rest, is_given) = match self.0.split_first() {
            Some((Part::Directory(start), rest)) => (start, rest, true),
            Some((Part::Written, [])) => return Ok(None),
            _ => (start, &self.0[..], false),
        };
        let (mut literal, mut is_open) = (String::new(), false);
        for (index, part) in rest.iter().enumerate() {
            match part {
                Part::Text(text) if is_open => {
                    // What comes before can end with a dot.
                    let (first, _) = text.split_once('/').unwrap_or((text, ""));
                    if has_parent(text) || first == "." || first.starts_with("..") {
                        return Err(NotUnderstood);
                    }
                }
                Part::Text(text) => literal.push_str(text),
                Part::Name => {
                    let begins = literal.rsplit('/').next().unwrap_or_default();
                    let is_name = matches!(rest.get(index.wrapping_sub(1)), Some(Part::Name));
                    if is_name || begins == "." || (is_given && literal.is_empty()) {
                        return Err(NotUnderstood);
                    }
                    is_open = true;
                }
                Part::Directory(_) | Part::Written | Part::Unknown => return Err(NotUnderstood),
            }
        }
        // `${path.module}x` is the name of another directory.
        if is_given && !literal.is_empty() && !literal.starts_with('/') {
            return Err(NotUnderstood);
        }
        if !is_given && literal.starts_with(['/', '~']) {
            return Ok(None);
        }
        if let (Some(glob), true) = (literal.find(GLOB), is_glob) {
            if has_parent(&literal[glob..]) {
                return Err(NotUnderstood);
            }
            literal.truncate(glob);
            is_open = true;
        }
        if is_open {
            literal.truncate(literal.rfind('/').map_or(0, |slash| slash + 1));
        }
        Ok(Some((start.clone(), literal)))
    }
}

/// Whether a text has the component `..`.
pub(super) fn has_parent(text: &str) -> bool {
    let is_separator =
        |character: char| !(character.is_alphanumeric() || matches!(character, '.' | '_' | '-'));
    text.split(is_separator).any(|component| component == "..")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_cut_back_to_what_is_literal() {
        use Part::{Directory, Name, Unknown, Written};
        let text = |text: &str| Part::Text(text.to_owned());
        let module = || Directory(Start::Module);
        let known = |start: Start, path: &str| Ok(Some((start, path.to_owned())));
        for (parts, expected) in [
            (vec![text("a/b.json")], known(Start::Root, "a/b.json")),
            (vec![module()], known(Start::Module, "")),
            (vec![module(), text("/../a")], known(Start::Module, "/../a")),
            (vec![module(), text("/../a/*.yaml")], known(Start::Module, "/../a/")),
            (vec![text("../../{a,b}/c")], known(Start::Root, "../../")),
            (vec![module(), text("/a/x-"), Name, text(".json")], known(Start::Module, "/a/")),
            (vec![Name], known(Start::Root, "")),
            (vec![text("/etc/hosts")], Ok(None)),
            (vec![text("~/.ssh/id")], Ok(None)),
            (vec![Written], Ok(None)),
            (vec![Unknown], Err(NotUnderstood)),
            (vec![module(), text("/"), Unknown], Err(NotUnderstood)),
            (vec![module(), text("-x")], Err(NotUnderstood)),
            (vec![module(), Name], Err(NotUnderstood)),
            (vec![text("a/"), Name, text("/../b")], Err(NotUnderstood)),
            (vec![text("a/."), Name], Err(NotUnderstood)),
            (vec![text("a/"), Name, text("./b")], Err(NotUnderstood)),
            (vec![text("a/"), Name, Name], Err(NotUnderstood)),
            (vec![text("a/*/../b")], Err(NotUnderstood)),
            (vec![text("a/"), module()], Err(NotUnderstood)),
        ] {
            assert_eq!(PathText(parts.clone()).resolve(&Start::Root, true), expected, "{parts:?}");
        }
    }

    #[test]
    fn parent_is_a_component_of_its_own() {
        for (text, expected) in [
            ("..", true),
            ("../a", true),
            ("a/..", true),
            ("x=../a", true),
            ("a..b", false),
            ("...", false),
            ("1..5", false),
            ("a/..b", false),
        ] {
            assert_eq!(has_parent(text), expected, "{text}");
        }
    }
}
