//! The text of a plan as it is reported: without secrets, and as the inside of a JSON string.
//!
//! It is never in memory as a whole unless it is short, however long its lines are.

use std::io::{BufWriter, Error, ErrorKind, Read, Result, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::platform::fs::OpenOptionsExt;
use crate::registry::Part;
use crate::secret::{Redactor, redact_text};

/// Ends a text that was cut.
pub(super) const CUT: &str =
    "\n(The rest of this text is left out: it is too large for the registry.)\n";

/// How much of a text is read at a time.
pub(super) const CHUNK: usize = 64 * 1024;

/// The text of a plan.
#[derive(Debug)]
pub(super) struct PlanText {
    /// The file with it, without secrets.
    pub(super) path: PathBuf,
    /// It as the inside of a JSON string; nothing without a registry.
    pub(super) escaped: Part,
}

impl PlanText {
    /// Makes it beside what Terraform has `printed`, with what it needs for a registry if there is one.
    pub(super) fn make(printed: &Path, for_registry: bool, redactor: &Redactor) -> Result<Self> {
        let path = printed.with_extension("report.txt");
        let mut written = create(&path)?;
        redact_text(redactor, open(printed)?, &mut written)?;
        written.flush()?;
        let escaped =
            if for_registry { escape_whole(&path)? } else { Part::Bytes(Vec::new().into()) };
        Ok(Self { path, escaped })
    }

    /// As the inside of a JSON string of at most `length` bytes.
    pub(super) fn cut(&self, length: u64) -> Result<Part> {
        if length == self.escaped.length() {
            return Ok(self.escaped.clone());
        }
        escape_into(self.path.with_extension("cut"), &self.path, Some(length))
    }
}

/// The text in the file `path` as the inside of a JSON string: in memory where it is short, which
/// spares a file, and beside it otherwise.
fn escape_whole(path: &Path) -> Result<Part> {
    if fs_err::metadata(path)?.len() > CHUNK as u64 {
        return escape_into(path.with_extension("escaped"), path, None);
    }
    let mut escaped = Vec::new();
    escape(path, None, &mut escaped)?;
    Ok(Part::Bytes(escaped.into()))
}

/// The same in the file `into`, cut to `room`.
fn escape_into(into: PathBuf, path: &Path, room: Option<u64>) -> Result<Part> {
    let mut written = create(&into)?;
    let length = escape(path, room, &mut written)?;
    written.flush()?;
    Ok(Part::File { path: Arc::new(into), place: 0..length })
}

pub(super) fn open(path: &Path) -> Result<fs_err::File> {
    fs_err::File::open(path)
}

/// A file (0600), in the place of an older one.
pub(super) fn create(path: &Path) -> Result<BufWriter<fs_err::File>> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    Ok(BufWriter::with_capacity(CHUNK, fs_err::OpenOptions::from_options(options).open(path)?))
}

/// Writes the text in the file `path` as the inside of a JSON string; where there is only `room` for
/// a part of it, as much as fits, and that it was cut. Returns how long it is.
fn escape(path: &Path, room: Option<u64>, mut into: impl Write) -> Result<u64> {
    let mut write = |text: &str| {
        let literal = serde_json::to_string(text)?;
        let inside = &literal[1..literal.len() - 1];
        into.write_all(inside.as_bytes()).map(|()| inside.len() as u64)
    };
    let room = room.map(|room| room.saturating_sub(escaped(CUT)));
    let mut text = open(path)?;
    let (mut held, mut length) = (Vec::with_capacity(CHUNK), 0);
    loop {
        let room_held = (CHUNK - held.len()) as u64;
        let read = (&mut text).take(room_held).read_to_end(&mut held)?;
        // A character that is cut in two waits for its end. The text is UTF-8: it was masked.
        let whole = match std::str::from_utf8(&held) {
            Ok(whole) => whole,
            Err(error) if read == 0 => return Err(Error::new(ErrorKind::InvalidData, error)),
            Err(error) => std::str::from_utf8(&held[..error.valid_up_to()]).unwrap_or_default(),
        };
        match room.map(|room| room - length) {
            Some(left) if escaped(whole) > left => {
                length += write(prefix(whole, left))?;
                return Ok(length + write(CUT)?);
            }
            _ => length += write(whole)?,
        }
        if read == 0 {
            return Ok(length);
        }
        held.drain(..whole.len());
    }
}

/// The length of `text` in a JSON string.
fn escaped(text: &str) -> u64 {
    text.chars().map(escaped_character).sum()
}

/// RFC 8259, section 7: two-character escapes where there are any, `\u00XX` for other controls.
fn escaped_character(character: char) -> u64 {
    match character {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        character if character < ' ' => 6,
        character => character.len_utf8() as u64,
    }
}

/// As much of the beginning of `text` as is not longer than `most` in a JSON string.
fn prefix(text: &str, most: u64) -> &str {
    let mut length = 0;
    let end = text.char_indices().find(|(_, character)| {
        length += escaped_character(*character);
        length > most
    });
    end.map_or(text, |(end, _)| &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_is_cut_in_a_character_is_none() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("plan.txt");
        std::fs::write(&path, b"x\xe2\x82").unwrap();
        assert!(escape(&path, None, std::io::sink()).is_err());
    }
}
