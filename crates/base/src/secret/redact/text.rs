//! Redacts a text of any length while copying it.

use std::io::{Read, Result, Write};

use super::held::HeldText;
use super::redactor::replaced;
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
    let mut held = HeldText::default();
    loop {
        let read = match text.read(&mut chunk) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            read => read?,
        };
        held.text.extend_from_slice(&chunk[..read]);
        let end = match memchr::memrchr(b'\n', &held.text) {
            _ if read == 0 => held.text.len(),
            Some(end) => held.showable_lines(redactor, end + 1),
            None => redactor.showable(&held.text),
        };
        let (shown, secrets) = held.take(redactor, end);
        into.write_all(replaced(&shown, &secrets).as_bytes())?;
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
    fn secret_is_masked_across_lines_in_any_chunks() {
        let redactor = Redactor::new();
        let secrets = ["correct horse battery staple", "users:\nkind: Config\nprod"];
        redactor.register(&secrets.map(SecretString::from));
        let text = "  a: correct\n  b: correct\n     horse battery\n  staple users:\n  kind: Config\n prod\nusers:\nprod\n";
        let mut copied = Vec::new();
        redact_text(&redactor, Drops(text.as_bytes()), &mut copied).unwrap();
        let copied = String::from_utf8(copied).unwrap();
        assert_eq!(
            copied,
            "  a: correct\n  b: ***\n     ***\n  *** ***\n  ***\n ***\nusers:\nprod\n"
        );
        assert_eq!(copied, redactor.redact(text.as_bytes()));
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
