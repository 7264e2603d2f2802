//! The text of a plan as it is reported: without secrets, and as the inside of a JSON string.
//!
//! It is never in memory as a whole unless it is short, however long its lines are.

use std::io::{Error, ErrorKind, Read, Result, Write};
use std::path::PathBuf;

use super::part_writer::PartWriter;
use crate::registry::Part;
use butler_base::secret::{Redactor, redact_text};

/// Ends a text that was cut.
pub(in crate::run) const CUT: &str =
    "\n(The rest of this text is left out: it is too large for the registry.)\n";

/// How much of a text is read at a time.
pub(in crate::run) const CHUNK: usize = 64 * 1024;

/// The text of a plan.
#[derive(Debug)]
pub(in crate::run) struct PlanText {
    /// It without secrets.
    pub(in crate::run) shown: Part,
    /// It as the inside of a JSON string; nothing without a registry.
    pub(in crate::run) escaped: Part,
    /// What Terraform has printed: files are made beside it.
    printed: PathBuf,
}

impl PlanText {
    /// Makes it of what Terraform has `printed`, with what it needs for a registry if there is one.
    pub(in crate::run) fn make(
        printed: PathBuf,
        for_registry: bool,
        redactor: &Redactor,
    ) -> Result<Self> {
        let mut shown = PartWriter::new(&printed.with_extension("report.txt"));
        redact_text(redactor, fs_err::File::open(&printed)?, &mut shown)?;
        let shown = shown.end()?;
        let mut escaped = PartWriter::new(&printed.with_extension("escaped"));
        if for_registry {
            escape(shown.open()?, None, &mut escaped)?;
        }
        Ok(Self { shown, escaped: escaped.end()?, printed })
    }

    /// As the inside of a JSON string of at most `length` bytes.
    pub(in crate::run) fn cut(&self, length: u64) -> Result<Part> {
        if length == self.escaped.length() {
            return Ok(self.escaped.clone());
        }
        let mut cut = PartWriter::new(&self.printed.with_extension("cut"));
        escape(self.shown.open()?, Some(length), &mut cut)?;
        cut.end()
    }
}

/// Writes a text as the inside of a JSON string; where there is only `room` for a part of it, as much
/// as fits, and that it was cut.
fn escape(mut text: impl Read, room: Option<u64>, mut into: impl Write) -> Result<()> {
    let mut write = |text: &str| {
        let literal = serde_json::to_string(text)?;
        let inside = &literal[1..literal.len() - 1];
        into.write_all(inside.as_bytes()).map(|()| inside.len() as u64)
    };
    let room = room.map(|room| room.saturating_sub(escaped(CUT)));
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
                write(prefix(whole, left))?;
                return write(CUT).map(drop);
            }
            _ => length += write(whole)?,
        }
        if read == 0 {
            return Ok(());
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
        assert!(escape(&b"x\xe2\x82"[..], None, std::io::sink()).is_err());
    }
}
