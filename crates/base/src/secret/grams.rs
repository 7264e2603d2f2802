//! Rules out, in a few steps, that a piece of base64 stands inside of one of very many long texts.
//!
//! Every eight characters that follow each other in a text leave a bit in a table. A piece of which
//! one such bit is missing stands in no text; for one that has them all, somebody has to look.

use zeroize::Zeroizing;

/// How many characters leave a bit, and how long a piece is at least.
pub(super) const GRAM: usize = 8;

/// How many bits of the table there are for each that is left.
const ROOM: usize = 16;

/// What stands in texts, roughly.
pub(super) struct Grams {
    bits: Zeroizing<Vec<u64>>,
    /// How far a hash is shifted to be a place among the bits.
    shift: u32,
}

impl Grams {
    /// Those of `texts`.
    pub(super) fn new<'a>(texts: impl Iterator<Item = &'a [u8]> + Clone) -> Self {
        let count: usize = texts.clone().map(|text| text.windows(GRAM).len()).sum();
        let size = (count * ROOM).next_power_of_two().max(64);
        let mut grams =
            Self { bits: Zeroizing::new(vec![0; size / 64]), shift: 64 - size.trailing_zeros() };
        for text in texts {
            for (word, bit) in grams_of(text, grams.shift) {
                grams.bits[word] |= bit;
            }
        }
        grams
    }

    /// Whether `piece` may stand in one of the texts.
    pub(super) fn may_hold(&self, piece: &[u8]) -> bool {
        grams_of(piece, self.shift).all(|(word, bit)| self.bits[word] & bit != 0)
    }
}

/// The word and the bit in it of each eight characters of `text`.
fn grams_of(text: &[u8], shift: u32) -> impl Iterator<Item = (usize, u64)> {
    text.windows(GRAM).filter_map(move |gram| {
        // Multiplied by the golden ratio, the upper bits depend on all characters.
        let hash = u64::from_le_bytes(gram.try_into().ok()?).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let place = usize::try_from(hash >> shift).ok()?;
        Some((place / 64, 1 << (place % 64)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_piece_of_a_text_may_be_there_and_hardly_any_other() {
        let mut random = fastrand::Rng::with_seed(13);
        let texts: Vec<Vec<u8>> =
            (0..50).map(|_| (0..200).map(|_| random.alphanumeric() as u8).collect()).collect();
        let grams = Grams::new(texts.iter().map(Vec::as_slice));
        for text in &texts {
            let start = random.usize(..180);
            let length = random.usize(GRAM..20);
            assert!(grams.may_hold(&text[start..start + length]));
        }
        let other = |random: &mut fastrand::Rng| -> Vec<u8> {
            (0..12).map(|_| random.alphanumeric() as u8).collect()
        };
        let wrong = (0..1000).filter(|_| grams.may_hold(&other(&mut random))).count();
        assert!(wrong < 10, "{wrong}");
        assert!(!Grams::new(std::iter::empty()).may_hold(b"12345678"));
    }
}
