//! The forms of a value in base64, by its offset in the encoded text.
//!
//! Three bytes make four characters, so there are three alignments. In each, the first and last
//! characters that depend on other bytes are omitted: at most six bits of the value at either end.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// The least number of characters: shorter pieces can appear by chance. Six bytes have one of this
/// size in each alignment.
const SHORTEST: usize = 7;

/// A value in one alignment.
pub(in crate::secret) struct Encoded {
    /// The characters in the standard alphabet, with the end of a text that ends with the value.
    pub(in crate::secret) text: Vec<u8>,
    /// The number of characters that do not depend on the bytes after the value.
    pub(in crate::secret) certain: usize,
}

impl AsRef<[u8]> for Encoded {
    fn as_ref(&self) -> &[u8] {
        &self.text
    }
}

/// `value` in each alignment in which it determines enough characters.
pub(in crate::secret) fn alignments(value: &[u8]) -> impl Iterator<Item = Encoded> {
    // The characters that depend on the bytes before the value.
    [0, 2, 3].into_iter().enumerate().filter_map(|(before, shared)| {
        let mut bytes = vec![0; before + value.len()];
        bytes[before..].copy_from_slice(value);
        let certain = (bytes.len() * 4 / 3).checked_sub(shared)?;
        let mut text = vec![0; bytes.len().div_ceil(3) * 4];
        // The slice has exactly the required size.
        STANDARD.encode_slice(&bytes, &mut text).ok()?;
        text.drain(..shared);
        (certain >= SHORTEST).then_some(Encoded { text, certain })
    })
}

/// Maps a character of the URL-safe alphabet to the standard one.
pub(in crate::secret) const fn standard(byte: u8) -> u8 {
    match byte {
        b'-' => b'+',
        b'_' => b'/',
        byte => byte,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certain_characters_do_not_depend_on_the_surrounding_text() {
        let value = b"correct horse?~";
        let known: Vec<_> = alignments(value).collect();
        assert_eq!(known.len(), 3);
        for before in 0..9 {
            for after in 0..9 {
                let text = [&b"#>\xff?x^~`."[..before], value, &b"<\xfe>?zz|||"[..after]].concat();
                let encoded = STANDARD.encode(text).into_bytes();
                let known = &known[before % 3];
                let certain = &known.text[..known.certain];
                assert!(encoded.windows(certain.len()).any(|window| window == certain));
                // All but the six bits at either end.
                assert!(certain.len() * 6 + 12 > value.len() * 8);
                assert!(after > 0 || encoded.ends_with(&known.text));
            }
        }
    }

    #[test]
    fn short_values_have_no_base64_form() {
        assert_eq!(alignments(b"abcd").count(), 0);
        assert_eq!(alignments(b"abcdef").count(), 3);
        assert_eq!(alignments(b"").count(), 0);
    }
}
