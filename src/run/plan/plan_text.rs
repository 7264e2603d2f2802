//! The text of a plan for the reports: without secrets, and as the content of a JSON string.
//!
//! A long text is never in memory as a whole, for any length of lines.

use std::io::{Error, ErrorKind, Read, Result, Write};
use std::path::PathBuf;

use super::part_writer::PartWriter;
use crate::registry::Part;
use butler_base::secret::{Redactor, redact_text};

/// The end of a text that was cut.
pub(in crate::run) const CUT: &str =
    "\n(The rest of this text is left out: it is too large for the registry.)\n";

/// The size of a read, in bytes.
pub(in crate::run) const CHUNK: usize = 64 * 1024;

/// The text of a plan.
#[derive(Debug)]
pub(in crate::run) struct PlanText {
    /// The text without secrets.
    pub(in crate::run) shown: Part,
    /// The text as the content of a JSON string; empty without a registry.
    pub(in crate::run) escaped: Part,
    /// The file that Terraform has printed. Other files are created in the same directory.
    printed: PathBuf,
}

impl PlanText {
    /// Reads the file that Terraform has `printed` and writes both forms of the text.
    ///
    /// # Errors
    /// If a file cannot be read or written.
    pub(in crate::run) fn create(
        printed: PathBuf,
        for_registry: bool,
        redactor: &Redactor,
    ) -> Result<Self> {
        let mut shown = PartWriter::new(&printed.with_extension("report.txt"));
        redact_text(redactor, fs_err::File::open(&printed)?, &mut shown)?;
        let shown = shown.finish()?;
        let mut escaped = PartWriter::new(&printed.with_extension("escaped"));
        if for_registry {
            escape(shown.open()?, None, &mut escaped)?;
        }
        Ok(Self { shown, escaped: escaped.finish()?, printed })
    }

    /// The text as the content of a JSON string of at most `length` bytes.
    ///
    /// # Errors
    /// If a file cannot be read or written.
    pub(in crate::run) fn cut(&self, length: u64) -> Result<Part> {
        if length == self.escaped.length() {
            return Ok(self.escaped.clone());
        }
        let mut cut = PartWriter::new(&self.printed.with_extension("cut"));
        escape(self.shown.open()?, Some(length), &mut cut)?;
        cut.finish()
    }
}

/// Writes a text as the content of a JSON string. If it is longer than `limit` bytes, writes its beginning
/// and [`CUT`].
fn escape(mut text: impl Read, limit: Option<u64>, mut into: impl Write) -> Result<()> {
    let mut write = |text: &str| {
        let literal = serde_json::to_string(text)?;
        let inside = &literal[1..literal.len() - 1];
        into.write_all(inside.as_bytes()).map(|()| inside.len() as u64)
    };
    let limit = limit.map(|limit| limit.saturating_sub(escaped_length(CUT)));
    let (mut held, mut length) = (Vec::with_capacity(CHUNK), 0);
    loop {
        let free = (CHUNK - held.len()) as u64;
        let read = (&mut text).take(free).read_to_end(&mut held)?;
        // The rest of a character at the end follows with the next read. Redacted text is UTF-8.
        let whole = match std::str::from_utf8(&held) {
            Ok(whole) => whole,
            Err(error) if read == 0 => return Err(Error::new(ErrorKind::InvalidData, error)),
            Err(error) => std::str::from_utf8(&held[..error.valid_up_to()]).unwrap_or_default(),
        };
        match limit.map(|limit| limit - length) {
            Some(left) if escaped_length(whole) > left => {
                write(prefix_within(whole, left))?;
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

/// The length of `text` in a JSON string, in bytes.
fn escaped_length(text: &str) -> u64 {
    text.chars().map(escaped_character_length).sum()
}

/// RFC 8259, section 7: two-character escapes if they exist, `\u00XX` for other control characters.
fn escaped_character_length(character: char) -> u64 {
    match character {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        character if character < ' ' => 6,
        character => character.len_utf8() as u64,
    }
}

/// The longest beginning of `text` of at most `limit` bytes in a JSON string.
fn prefix_within(text: &str, limit: u64) -> &str {
    let mut length = 0;
    let end = text.char_indices().find(|(_, character)| {
        length += escaped_character_length(*character);
        length > limit
    });
    end.map_or(text, |(end, _)| &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_ends_inside_a_character_is_an_error() {
        assert!(escape(&b"x\xe2\x82"[..], None, std::io::sink()).is_err());
    }
}
