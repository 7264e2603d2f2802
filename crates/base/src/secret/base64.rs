//! How a value looks inside of base64, wherever in the encoded text it begins.
//!
//! Three bytes make four characters, so there are three ways. In each, the characters at both ends
//! that other bytes have a part in are left out: at most six bits of the value at either end.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

/// Shorter pieces say little about a value and may be anything: six bytes have one of this size in
/// each alignment.
const SHORTEST: usize = 7;

/// A value in one alignment.
pub(super) struct Encoded {
    /// The characters in the standard alphabet. It ends as if nothing came behind the value.
    pub(super) text: Zeroizing<Vec<u8>>,
    /// How many of them stay the same whatever comes behind the value.
    pub(super) certain: usize,
}

impl AsRef<[u8]> for Encoded {
    fn as_ref(&self) -> &[u8] {
        &self.text
    }
}

/// `value` in all alignments in which enough of it is certain.
pub(super) fn alignments(value: &[u8]) -> impl Iterator<Item = Encoded> {
    // The characters in which the bytes before the value have a part.
    [0, 2, 3].into_iter().enumerate().filter_map(|(before, shared)| {
        let mut bytes = Zeroizing::new(vec![0; before + value.len()]);
        bytes[before..].copy_from_slice(value);
        let certain = (bytes.len() * 4 / 3).checked_sub(shared)?;
        let mut text = Zeroizing::new(vec![0; bytes.len().div_ceil(3) * 4]);
        // It has exactly the size that is needed.
        STANDARD.encode_slice(&bytes, &mut text).ok()?;
        text.drain(..shared);
        (certain >= SHORTEST).then_some(Encoded { text, certain })
    })
}

/// The characters of the URL-safe alphabet in the standard one.
pub(super) const fn standard(byte: u8) -> u8 {
    match byte {
        b'-' => b'+',
        b'_' => b'/',
        byte => byte,
    }
}

/// Whether `byte` can stand in base64 of either alphabet.
pub(super) const fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_' | b'=')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_certain_stands_in_every_text_around_the_value() {
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
    fn pieces_that_could_be_anything_are_left_out() {
        assert_eq!(alignments(b"abcd").count(), 0);
        assert_eq!(alignments(b"abcdef").count(), 3);
        assert_eq!(alignments(b"").count(), 0);
    }
}
