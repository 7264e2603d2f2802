//! Finds every known form of every secret in one pass over a text.
//!
//! An automaton looks for the first bytes of each form; where it finds them, the rest is compared.
//! So it stays small however long the secrets are, and what it keeps, in a shape of its own that
//! cannot be zeroed, is never more than a beginning. The forms themselves are zeroed on drop.
//!
//! Escapes are undone, and the search is done once more; what is found counts where it stood with
//! them. Base64 is looked for in tiles, because whoever prints it may break it into lines at any
//! place. From a tile that is found, what stands before and behind it is compared too.

use std::collections::BTreeMap;
use std::ops::Range;

use aho_corasick::{AhoCorasick, AhoCorasickKind, BuildError, MatchKind};
use zeroize::Zeroizing;

use super::base64::{Encoded, alignments, standard};
use super::broken::{Phrases, begun_inside, ends_inside, grams};
use super::escapes::escaped;
use super::grams::Grams;
use super::sorted::Sorted;
use super::unescape::plain;

/// How much of a form the automaton looks for.
const HEAD: usize = 32;

/// How many characters of base64 it looks for, every how many. Every line of 40 characters has one
/// of these tiles, and programs break base64 at 64 or 76.
const TILE: usize = 8;
const EVERY: usize = 32;

/// Fewer characters are certain to be in a line without a tile.
pub(super) const WITHOUT_TILE: usize = TILE + EVERY;

/// How many characters around and with a tile must be the same, where there are so many: a tile
/// alone may be something else.
const SURE: usize = 16;

/// Values beyond so many bytes in all, the longest first, are not looked for in base64: that takes
/// many times their size, and no platform hands out secrets of this size.
const MOST_ENCODED: usize = 2 * 1024 * 1024;

/// How many bytes of heads the fastest automaton is made for: those of some ten secrets.
const MOST_FAST: usize = 2048;

/// From so many bytes on, a secret is no word that stands in a text by chance.
const LONG: usize = 12;

/// How many levels of escapes are undone: those of JSON in JSON in JSON.
const LEVELS: usize = 3;

/// Every form of some secrets.
pub(super) struct Patterns {
    /// As they are, for URLs, and in quotation marks of shells and tables.
    texts: Sorted<Zeroizing<String>>,
    /// In base64.
    encoded: Sorted<Encoded>,
    heads: AhoCorasick,
    /// What each head can belong to.
    places: Vec<Vec<Place>>,
    phrases: Phrases,
    grams: Grams,
}

/// Who reads a text.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Reader {
    Anybody,
    /// Somebody who reads it line by line.
    OfLines,
}

/// Where a head stands.
#[derive(Clone, Copy)]
enum Place {
    /// At the beginning of this one of the texts.
    Text(usize),
    /// In this one of the encoded texts, from this character on.
    Encoded(usize, usize),
}

impl Patterns {
    /// Prepares the search for `values`.
    ///
    /// # Errors
    /// When there are too many.
    pub(super) fn new<'a>(values: impl Iterator<Item = &'a str>) -> Result<Self, BuildError> {
        let mut values: Vec<&str> = values.collect();
        values.sort_by_key(|value| value.len());
        let (mut texts, mut encoded, mut size) = (Vec::new(), Vec::new(), 0);
        for value in values {
            texts.push(Zeroizing::new(value.to_owned()));
            texts.append(&mut escaped(value));
            size += value.len();
            if size <= MOST_ENCODED {
                encoded.extend(alignments(value.as_bytes()));
            }
        }
        let phrases = Phrases::among(&texts);
        let (texts, encoded) = (Sorted::new(texts), Sorted::new(encoded));
        let grams = grams(&encoded);
        let mut heads: Vec<(Zeroizing<Vec<u8>>, Place)> = Vec::new();
        for (index, text) in texts.iter().enumerate() {
            let head = &text.as_bytes()[..text.len().min(HEAD)];
            heads.push((Zeroizing::new(head.to_vec()), Place::Text(index)));
        }
        for (index, one) in encoded.iter().enumerate() {
            for (offset, tile) in tiles(&one.text[..one.certain]) {
                let place = Place::Encoded(index, offset);
                let other = tile.iter().copied().map(url_safe).collect::<Vec<_>>();
                let other = Zeroizing::new(other);
                if *other != tile {
                    heads.push((other, place));
                }
                heads.push((Zeroizing::new(tile.to_vec()), place));
            }
        }
        let mut places: BTreeMap<&[u8], Vec<Place>> = BTreeMap::new();
        for (head, place) in &heads {
            places.entry(head).or_default().push(*place);
        }
        // The fastest kind takes a quarter of a kilobyte for each byte, so it is for few; the compact
        // one takes six times as long for a line. A prefilter would keep the heads as they are.
        let size: usize = places.keys().map(|head| head.len()).sum();
        let kind =
            if size <= MOST_FAST { AhoCorasickKind::DFA } else { AhoCorasickKind::ContiguousNFA };
        let automaton = AhoCorasick::builder()
            .kind(Some(kind))
            .match_kind(MatchKind::Standard)
            .prefilter(false)
            .build(places.keys())?;
        let places = places.into_values().collect();
        Ok(Self { texts, encoded, heads: automaton, places, phrases, grams })
    }

    /// What secrets cover in `text`: ranges in ascending order that do not overlap.
    pub(super) fn covered(&self, text: &[u8]) -> Vec<Range<usize>> {
        merged(self.found(text, Reader::Anybody, LEVELS))
    }

    /// Whether a secret covers anything of `text`.
    pub(super) fn is_in(&self, text: &[u8]) -> bool {
        !self.found(text, Reader::Anybody, LEVELS).is_empty()
    }

    /// What secrets that are not short cover in `text`.
    pub(super) fn covered_by_long(&self, text: &[u8]) -> Vec<Range<usize>> {
        let mut ranges = self.found(text, Reader::Anybody, LEVELS);
        ranges.retain(|range| range.len() >= LONG);
        merged(ranges)
    }

    /// The same where somebody may have broken a longer text into the lines of `text`.
    pub(super) fn covered_in_lines(&self, text: &[u8]) -> Vec<Range<usize>> {
        merged(self.found(text, Reader::OfLines, LEVELS))
    }

    /// The length of the longest end of `pending` that may become a secret, or is in the middle of
    /// one.
    pub(super) fn unfinished(&self, pending: &[u8]) -> usize {
        pending.len() - self.begun(pending, LEVELS)
    }

    /// Where in `pending` the longest end begins that may become a secret, with so many levels of
    /// escapes undone.
    fn begun(&self, pending: &[u8], levels: usize) -> usize {
        let tail = &pending[pending.len().saturating_sub(self.encoded.longest())..];
        let tail = Zeroizing::new(tail.iter().copied().map(standard).collect::<Vec<_>>());
        let texts = self.texts.unfinished(pending).max(self.encoded.unfinished(&tail));
        let begun = pending.len() - texts.max(begun_inside(&tail, &self.encoded, &self.grams));
        let Some(levels) = levels.checked_sub(1) else { return begun };
        plain(pending).fold(begun, |begun, plain| {
            let inner = self.begun(&plain.text, levels);
            begun.min(plain.original(inner..inner).start)
        })
    }

    /// What secrets cover in `text` for this reader, with so many levels of escapes undone.
    fn found(&self, text: &[u8], reader: Reader, levels: usize) -> Vec<Range<usize>> {
        let mut ranges = self.found_as_it_is(text);
        if reader == Reader::OfLines {
            ranges.extend(self.found_at_ends_of_lines(text));
        }
        let Some(levels) = levels.checked_sub(1) else { return ranges };
        for plain in plain(text) {
            let inner = self.found(&plain.text, reader, levels);
            ranges.extend(inner.into_iter().map(|range| plain.original(range)));
        }
        ranges
    }

    fn found_at_ends_of_lines(&self, text: &[u8]) -> Vec<Range<usize>> {
        let (mut ranges, mut start) = (Vec::new(), 0);
        for line in text.split(|byte| *byte == b'\n') {
            let parts =
                self.phrases.parts(line).chain(ends_inside(line, &self.encoded, &self.grams));
            ranges.extend(parts.map(|part| start + part.start..start + part.end));
            start += line.len() + 1;
        }
        ranges
    }

    fn found_as_it_is(&self, text: &[u8]) -> Vec<Range<usize>> {
        let mut ranges = Vec::new();
        // Tiles that follow each other belong to what was compared already.
        let mut last = (usize::MAX, 0, 0);
        for head in self.heads.find_overlapping_iter(text) {
            for place in &self.places[head.pattern().as_usize()] {
                match *place {
                    Place::Text(index) => {
                        let form = self.texts[index].as_bytes();
                        if text[head.start()..].starts_with(form) {
                            ranges.push(head.start()..head.start() + form.len());
                        }
                    }
                    Place::Encoded(index, offset) => {
                        let diagonal = head.start() + self.encoded.longest() - offset;
                        if last.0 == index && last.1 == diagonal && head.end() <= last.2 {
                            continue;
                        }
                        let one = &self.encoded[index];
                        let range = grown(head.range(), offset, text, &one.text);
                        last = (index, diagonal, range.end);
                        if range.len() >= one.certain.min(SURE) {
                            ranges.push(range);
                        }
                    }
                }
            }
        }
        ranges
    }
}

/// The tiles that `encoded` is made of, and where they begin; the last one reaches back.
fn tiles(encoded: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let last = encoded.len().saturating_sub(TILE);
    (0..last)
        .step_by(EVERY)
        .chain([last])
        .map(|start| (start, &encoded[start..encoded.len().min(start + TILE)]))
}

const fn url_safe(byte: u8) -> u8 {
    match byte {
        b'+' => b'-',
        b'/' => b'_',
        byte => byte,
    }
}

/// `tile` of `text`, which stands in `encoded` at `offset`, with all around it that belongs to it.
fn grown(tile: Range<usize>, offset: usize, text: &[u8], encoded: &[u8]) -> Range<usize> {
    let same = |(one, other): &(&u8, &u8)| standard(**one) == **other;
    let before = text[..tile.start].iter().rev().zip(encoded[..offset].iter().rev());
    let behind = text[tile.end..].iter().zip(&encoded[offset + tile.len()..]);
    tile.start - before.take_while(same).count()..tile.end + behind.take_while(same).count()
}

/// Ranges in ascending order, those that overlap in one.
fn merged(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    ranges.sort_unstable_by_key(|range| range.start);
    ranges.dedup_by(|next, range| {
        let overlaps = next.start < range.end;
        if overlaps {
            range.end = range.end.max(next.end);
        }
        overlaps
    });
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patterns(value: &str) -> Patterns {
        Patterns::new([value].into_iter()).unwrap()
    }

    fn masked(patterns: &Patterns, text: &str) -> String {
        let mut masked = String::new();
        let mut shown = 0;
        for range in patterns.covered_in_lines(text.as_bytes()) {
            masked = masked + &text[shown..range.start] + "***";
            shown = range.end;
        }
        masked + &text[shown..]
    }

    #[test]
    fn beginning_of_a_long_secret_alone_is_none() {
        let secret = "0123456789".repeat(5);
        let text = format!("{} {secret}", &secret[..49]);
        assert_eq!(masked(&patterns(&secret), &text), format!("{} ***", &secret[..49]));
    }

    #[test]
    fn base64_in_lines_of_any_width_is_masked_to_its_last_character() {
        use base64::Engine;
        let numbers: Vec<_> = (100..200).map(|number: u32| number.pow(2).to_string()).collect();
        let key = numbers.join("?>~ü");
        let patterns = patterns(&key);
        for (alphabet, before) in [
            (base64::engine::general_purpose::STANDARD, ""),
            (base64::engine::general_purpose::URL_SAFE, "user:"),
        ] {
            let encoded = alphabet.encode(format!("{before}{key}"));
            for width in 40..100 {
                let lines: Vec<_> =
                    encoded.as_bytes().chunks(width).map(String::from_utf8_lossy).collect();
                for (index, line) in lines.iter().enumerate() {
                    let shown = masked(&patterns, &format!("x (local-exec): {line}"));
                    let known = if index == 0 { before.len() * 4 / 3 + 1 } else { 0 };
                    let rest = shown.replace("x (local-exec): ", "").replace("***", "");
                    let few = index + 1 == lines.len() && line.trim_end_matches('=').len() < 8;
                    assert!(few || rest.len() <= known, "{width}: {line} -> {shown}");
                }
            }
        }
    }
}
