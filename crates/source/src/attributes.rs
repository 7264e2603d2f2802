//! Converts the content of files as a checkout does (gitattributes(5)): line ends, `ident`, and
//! `working-tree-encoding`, which libgit2 does not know.
//!
//! The conversions are those of git without settings of the user. Filters of other programs are not run.

use std::borrow::Cow;
use std::path::Path;

use git2::{AttrCheckFlags, AttrValue, Oid, Repository};

use crate::encoding::{Encoding, UnknownEncoding};

/// The attribute with the encoding.
const ENCODING: &str = "working-tree-encoding";

/// The attributes without which no file is converted.
const CONVERTING: [&str; 3] = [ENCODING, "eol", "ident"];

/// The beginning of a place for the id of a blob.
const IDENT: &[u8] = b"$Id";

/// Whether a file `.gitattributes` with this content can convert files.
#[must_use]
pub fn can_convert(content: &[u8]) -> bool {
    CONVERTING.iter().any(|name| find(content, name.as_bytes()).is_some())
}

/// How the content of a file becomes what a checkout has.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Conversion {
    line_ends: LineEnds,
    has_ident: bool,
    encoding: Option<Encoding>,
}

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum LineEnds {
    /// As in the commit.
    #[default]
    Kept,
    /// CRLF.
    Dos,
    /// CRLF, if the file is a text without CR.
    DosIfText,
}

impl Conversion {
    /// The conversion of the file at `path` of a repository, by the files `.gitattributes` that `flags` name.
    ///
    /// # Errors
    /// If the file has an encoding that is not known.
    pub fn of(
        repository: &Repository,
        path: &str,
        flags: AttrCheckFlags,
    ) -> Result<Self, UnknownEncoding> {
        let attribute = |name| {
            let found = repository.get_attr(Path::new(path), name, flags).ok().flatten();
            AttrValue::from_string(found)
        };
        let encoding = match attribute(ENCODING) {
            AttrValue::Unspecified => None,
            AttrValue::String(name) => Encoding::parse(name)?,
            AttrValue::True => return Err(UnknownEncoding("true".to_owned())),
            AttrValue::False => return Err(UnknownEncoding("false".to_owned())),
            AttrValue::Bytes(name) => {
                return Err(UnknownEncoding(String::from_utf8_lossy(name).into_owned()));
            }
        };
        let ends_with_crlf = matches!(attribute("eol"), AttrValue::String("crlf"));
        let text = match attribute("text") {
            given @ (AttrValue::True | AttrValue::False | AttrValue::String("auto" | "input")) => {
                given
            }
            // The older name of `text`.
            _ => attribute("crlf"),
        };
        let line_ends = if !ends_with_crlf || matches!(text, AttrValue::False) {
            LineEnds::Kept
        } else if matches!(text, AttrValue::String("auto")) {
            LineEnds::DosIfText
        } else {
            LineEnds::Dos
        };
        Ok(Self { line_ends, has_ident: matches!(attribute("ident"), AttrValue::True), encoding })
    }

    /// Whether the file can have another encoding than UTF-8.
    #[must_use]
    pub const fn has_encoding(self) -> bool {
        self.encoding.is_some()
    }

    /// Whether the content stays as it is.
    #[must_use]
    pub fn is_none(self) -> bool {
        self == Self::default()
    }

    /// The content that a checkout of `content` has, which is the blob `id`.
    #[must_use]
    pub fn apply(self, content: &[u8], id: Oid) -> Cow<'_, [u8]> {
        let mut content = Cow::Borrowed(content);
        if self.has_ident {
            content = Cow::Owned(with_ident(&content, id));
        }
        let converts = match self.line_ends {
            LineEnds::Kept => false,
            LineEnds::Dos => true,
            LineEnds::DosIfText => !content.contains(&b'\r') && !is_binary(&content),
        };
        if converts {
            content = Cow::Owned(with_crlf(&content));
        }
        match self.encode(&content) {
            Some(encoded) => Cow::Owned(encoded),
            None => content,
        }
    }

    /// The content in the encoding of the working tree. `None` if it stays UTF-8: the file has no such attribute, is empty or not
    /// UTF-8, or has characters that the encoding does not have. Git leaves these as they are, too.
    #[must_use]
    pub fn encode(self, content: &[u8]) -> Option<Vec<u8>> {
        let text = std::str::from_utf8(content).ok().filter(|text| !text.is_empty())?;
        self.encoding?.encode(text)
    }
}

fn with_crlf(content: &[u8]) -> Vec<u8> {
    let mut converted = Vec::with_capacity(content.len() + content.len() / 16);
    let mut last = 0;
    for byte in content {
        if *byte == b'\n' && last != b'\r' {
            converted.push(b'\r');
        }
        converted.push(*byte);
        last = *byte;
    }
    converted
}

/// Whether git takes the content for binary: it has a NUL, or many other characters that cannot be printed.
fn is_binary(content: &[u8]) -> bool {
    let is_control = |byte: &u8| matches!(byte, 0..=7 | 11 | 14..=26 | 28..=31 | 127);
    // The mark of an end does not count.
    let text = content.strip_suffix(b"\x1a").unwrap_or(content);
    let controls = text.iter().filter(|byte| is_control(byte)).count();
    let ends = text.iter().filter(|byte| matches!(byte, b'\r' | b'\n')).count();
    content.contains(&0) || (text.len() - controls - ends) >> 7 < controls
}

/// Replaces `$Id$` and `$Id: …$` by the id of the blob.
fn with_ident(content: &[u8], id: Oid) -> Vec<u8> {
    let mut converted = Vec::with_capacity(content.len());
    let mut rest = content;
    while let Some(at) = find(rest, IDENT) {
        let (before, found) = rest.split_at(at);
        let after = &found[IDENT.len()..];
        let end = match after.first() {
            Some(b'$') => Some(0),
            Some(b':') => {
                after.iter().position(|it| *it == b'$').filter(|end| is_id(&after[1..*end]))
            }
            _ => None,
        };
        converted.extend_from_slice(before);
        converted.extend_from_slice(IDENT);
        match end {
            Some(end) => {
                converted.extend_from_slice(format!(": {id} $").as_bytes());
                rest = &after[end + 1..];
            }
            None => rest = after,
        }
    }
    converted.extend_from_slice(rest);
    converted
}

/// Whether a value in one line is what git or a person has written, and not another version control system.
fn is_id(value: &[u8]) -> bool {
    let space = value.iter().skip(1).position(|it| *it == b' ').map(|at| at + 1);
    !value.contains(&b'\n') && space.is_none_or(|at| at + 1 >= value.len())
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}
