//! What is wrong in a configuration, and where.

use std::fmt;
use std::path::{Path, PathBuf};

use butler_base::similar::closest;

/// The sentence about a key that is a text and has no value.
const MISSING_TEXT: &str =
    "the text is missing; write one, in quotes if it is `null` or `~`, or leave out the key";

/// What is wrong in a file of the configuration.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ConfigError {
    /// The file.
    pub file: PathBuf,
    /// Line and column, from 1, if the error has a position.
    pub at: Option<(u64, u64)>,
    /// What is wrong, and what to do.
    pub message: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.file.display())?;
        if let Some((line, column)) = self.at {
            write!(formatter, ":{line}:{column}")?;
        }
        write!(formatter, ": {}", self.message)
    }
}

impl std::error::Error for ConfigError {}

impl ConfigError {
    /// The error of the YAML parser. Its own text would quote lines of the file.
    pub(crate) fn parsing(file: &Path, error: &serde_saphyr::Error) -> Self {
        let at = error.location().map(|location| (location.line(), location.column()));
        let text = error.without_snippet().to_string();
        let text = text.strip_prefix("error: ").unwrap_or(&text);
        let prefix = at.map(|(line, column)| format!("line {line} column {column}: "));
        let text = prefix.and_then(|prefix| text.strip_prefix(&*prefix)).unwrap_or(text);
        let suffix = at.map(|(line, column)| format!(" at line {line}, column {column}"));
        let text = suffix.and_then(|suffix| text.strip_suffix(&*suffix)).unwrap_or(text);
        let message = match unknown(text) {
            Some((kind, name, known)) => match closest(name, known.split(", ")) {
                Some(near) => format!("unknown {kind} `{name}`; did you mean `{near}`?"),
                // Where a secret is can be a secret, by mistake.
                None if kind == "value" => format!("unknown value; expected one of {known}"),
                None => format!("unknown {kind} `{name}`; expected one of {known}"),
            },
            None => match text.strip_prefix("duplicate mapping key: ") {
                Some(key) => {
                    let key = key.split(',').next().unwrap_or(key);
                    format!("the key `{key}` is given twice")
                }
                None if text.starts_with("cannot deserialize null into string") => {
                    MISSING_TEXT.to_owned()
                }
                None => text.to_owned(),
            },
        };
        Self { file: file.to_owned(), at, message }
    }
}

/// Whether an unknown key or value is reported, which one, and which ones are known.
fn unknown(text: &str) -> Option<(&'static str, &str, &str)> {
    let (kind, rest) = [("key", "unknown field `"), ("value", "unknown variant `")]
        .into_iter()
        .find_map(|(kind, start)| Some((kind, text.strip_prefix(start)?)))?;
    let (name, rest) = rest.split_once('`')?;
    let known = rest.split_once("expected ").map_or("", |(_, known)| known);
    Some((kind, name, known.trim_start_matches("one of ")))
}
