//! Redacts a text of any length while copying it.

use std::io::{Read, Result, Write};

use crate::secret::Redactor;

/// The size of a read, in bytes.
const CHUNK: usize = 64 * 1024;

/// Copies `text` without secrets, as valid UTF-8 without NUL. Holds at most one chunk and the
/// beginning of a secret in memory.
///
/// # Errors
/// If `text` cannot be read or `into` cannot be written.
pub fn redact_text(redactor: &Redactor, mut text: impl Read, mut into: impl Write) -> Result<()> {
    let mut chunk = vec![0; CHUNK];
    let mut pending = Vec::with_capacity(2 * CHUNK);
    loop {
        let read = match text.read(&mut chunk) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            read => read?,
        };
        pending.extend_from_slice(&chunk[..read]);
        // Secrets are registered line by line, so a secret does not continue after the end of a line.
        let end = match memchr::memrchr(b'\n', &pending) {
            _ if read == 0 => pending.len(),
            Some(end) => end + 1,
            None => redactor.showable(&pending),
        };
        into.write_all(redactor.redact(&pending[..end]).as_bytes())?;
        pending.drain(..end);
        if read == 0 {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use secrecy::SecretString;

    use super::*;

    /// Hands out one byte at a time.
    struct Drops<'a>(&'a [u8]);

    impl Read for Drops<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
            self.0.read(&mut buffer[..1])
        }
    }

    #[test]
    fn text_is_masked_in_any_chunks() {
        let redactor = Redactor::new();
        redactor.register(&[SecretString::from("hunter22")]);
        let text = "a hunter22 b\n\u{20ac}\0 hunt\nhunter22hunter22\nhunter".repeat(20);
        let mut copied = Vec::new();
        redact_text(&redactor, Drops(text.as_bytes()), &mut copied).unwrap();
        assert_eq!(String::from_utf8(copied).unwrap(), redactor.redact(text.as_bytes()));
    }
}
