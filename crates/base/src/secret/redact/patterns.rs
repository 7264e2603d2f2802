//! Finds all known forms of all secrets in one pass over a text.
//!
//! An automaton searches for the first bytes of each form; after a match, the rest is compared. So
//! its size does not depend on the length of the secrets, and it contains only their beginnings.
//! Dropped forms are zeroed by the allocator.
//!
//! Escapes are undone, and the search is repeated; a match covers the text with its escapes. The same
//! holds for line breaks between words ([`super::joined`]). For base64 that is broken across lines,
//! see [`super::wrapped`].

use std::collections::BTreeMap;
use std::ops::Range;

use aho_corasick::{AhoCorasick, AhoCorasickKind, BuildError, MatchKind};

use super::base64::{Encoded, alignments, standard};
use super::escapes::{escaped, escaped_in_quotes};
use super::joined::{Joined, joined};
use super::sorted::Sorted;
use super::unescape::plain;
use super::wrapped::{Windows, common, reaches_line_end};

/// How many bytes of a form the automaton searches for.
const HEAD: usize = 32;

/// How many characters of base64 the automaton searches for.
const ENCODED_HEAD: usize = 8;

/// The most bytes of values, the shortest first, that are searched for in base64: this needs many
/// times their size, and no platform issues secrets of this size.
const MOST_ENCODED: usize = 2 * 1024 * 1024;

/// The most bytes of heads for the fastest automaton: enough for about ten secrets.
const MOST_FAST: usize = 2048;

/// A secret of at least this length in bytes is not a word that appears by chance.
const LONG: usize = 12;

/// How many levels of escapes are undone: those of JSON in JSON in JSON.
const LEVELS: usize = 3;

/// All forms of a set of secrets.
pub(in crate::secret) struct Patterns {
    /// Unchanged, for URLs, and quoted for shells and tables.
    texts: Sorted<String>,
    /// In base64.
    encoded: Sorted<Encoded>,
    windows: Windows,
    /// Those of the texts that a line break can interrupt, with a space for it.
    joined: Sorted<String>,
    heads: AhoCorasick,
    /// The forms that begin with each head.
    forms: Vec<Vec<Form>>,
}

/// A form that begins with a head.
#[derive(Clone, Copy)]
enum Form {
    /// This one of the texts.
    Text(usize),
    /// This one of the encoded texts.
    Encoded(usize),
}

impl Patterns {
    /// Prepares the search for `values`, and for `pairs` of lines that are joined by a space.
    ///
    /// # Errors
    /// If there are too many.
    pub(in crate::secret) fn new<'a>(
        values: impl Iterator<Item = &'a str>,
        pairs: impl Iterator<Item = &'a str>,
    ) -> Result<Self, BuildError> {
        let mut values: Vec<&str> = values.collect();
        values.sort_by_key(|value| value.len());
        let (mut texts, mut encoded, mut size) = (Vec::new(), Vec::new(), 0);
        let lines = values.iter().filter(|value| !value.contains('\n'));
        let mut interrupted = Vec::new();
        for text in lines.map(|line| joined(line)).chain(pairs.map(str::to_owned)) {
            if text.contains(' ') {
                interrupted.append(&mut escaped_in_quotes(&text));
                interrupted.push(text);
            }
        }
        for value in values {
            texts.push(value.to_owned());
            texts.append(&mut escaped(value));
            size += value.len();
            if size <= MOST_ENCODED {
                encoded.extend(alignments(value.as_bytes()));
            }
        }
        texts.extend(interrupted.iter().cloned());
        let (texts, encoded) = (Sorted::new(texts), Sorted::new(encoded));
        let joined = Sorted::new(interrupted);
        let windows = Windows::new(&encoded);
        let mut heads: Vec<(Vec<u8>, Form)> = Vec::new();
        for (index, text) in texts.iter().enumerate() {
            let head = &text.as_bytes()[..text.len().min(HEAD)];
            heads.push((head.to_vec(), Form::Text(index)));
        }
        for (index, one) in encoded.iter().enumerate() {
            let head = &one.text[..one.certain.min(ENCODED_HEAD)];
            let url_safe = head.iter().copied().map(url_safe).collect::<Vec<_>>();
            if url_safe != head {
                heads.push((url_safe, Form::Encoded(index)));
            }
            heads.push((head.to_vec(), Form::Encoded(index)));
        }
        let mut forms: BTreeMap<&[u8], Vec<Form>> = BTreeMap::new();
        for (head, form_of_head) in &heads {
            forms.entry(head).or_default().push(*form_of_head);
        }
        // The fastest kind needs a quarter of a kilobyte for each byte, so it is used for few heads
        // only; the compact one takes six times as long for a line. A prefilter would keep a copy
        // of the heads.
        let size: usize = forms.keys().map(|head| head.len()).sum();
        let kind =
            if size <= MOST_FAST { AhoCorasickKind::DFA } else { AhoCorasickKind::ContiguousNFA };
        let automaton = AhoCorasick::builder()
            .kind(Some(kind))
            .match_kind(MatchKind::Standard)
            .prefilter(false)
            .build(forms.keys())?;
        let forms = forms.into_values().collect();
        Ok(Self { texts, encoded, windows, joined, heads: automaton, forms })
    }

    /// The ranges of `text` that secrets cover, in ascending order and without overlaps.
    pub(in crate::secret) fn covered(&self, text: &[u8]) -> Vec<Range<usize>> {
        merged(self.found(text, LEVELS))
    }

    /// Whether a secret covers a part of `text`.
    pub(in crate::secret) fn is_in(&self, text: &[u8]) -> bool {
        !self.found(text, LEVELS).is_empty()
    }

    /// The ranges of `text` that long secrets cover.
    pub(in crate::secret) fn covered_by_long(&self, text: &[u8]) -> Vec<Range<usize>> {
        let mut ranges = self.found(text, LEVELS);
        ranges.retain(|range| range.len() >= LONG);
        merged(ranges)
    }

    /// The length of the longest end of `pending` that may be the begin of a secret.
    pub(in crate::secret) fn unfinished(&self, pending: &[u8]) -> usize {
        pending.len() - self.begun(pending, LEVELS)
    }

    /// The begin of that end, with this number of levels of escapes undone.
    fn begun(&self, pending: &[u8], levels: usize) -> usize {
        let tail = &pending[pending.len().saturating_sub(self.encoded.longest())..];
        let tail = tail.iter().copied().map(standard).collect::<Vec<_>>();
        let begun =
            pending.len() - self.texts.unfinished(pending).max(self.encoded.unfinished(&tail));
        let begun = begun.min(self.begun_before_break(pending));
        let Some(levels) = levels.checked_sub(1) else { return begun };
        plain(pending).fold(begun, |begun, plain| {
            let inner = self.begun(&plain.text, levels);
            begun.min(plain.original(inner..inner).start)
        })
    }

    /// Whether `line` ends with the begin of a secret that may continue in the next line.
    pub(in crate::secret) fn is_continued(&self, line: &[u8]) -> bool {
        !self.joined.is_empty() && {
            let line = [line, b"\n"].concat();
            self.continued(&line) < line.len()
        }
    }

    /// The begin of the longest end of `lines` that may be the begin of a secret that continues in
    /// the next line. `lines` end with a line feed.
    pub(in crate::secret) fn continued(&self, lines: &[u8]) -> usize {
        if self.joined.is_empty() { lines.len() } else { self.continued_in(lines, LEVELS) }
    }

    fn continued_in(&self, lines: &[u8], levels: usize) -> usize {
        let begun = self.begun_before_break(lines);
        let Some(levels) = levels.checked_sub(1) else { return begun };
        plain(lines).fold(begun, |begun, plain| {
            let inner = self.continued_in(&plain.text, levels);
            begun.min(plain.original(inner..inner).start)
        })
    }

    fn begun_before_break(&self, pending: &[u8]) -> usize {
        if self.joined.is_empty() {
            return pending.len();
        }
        let joined = Joined::of(pending);
        let begun = joined.text().len() - self.joined.unfinished(joined.text());
        joined.original_start(begun)
    }

    /// The ranges of `text` that secrets cover, with this number of levels of escapes undone.
    fn found(&self, text: &[u8], levels: usize) -> Vec<Range<usize>> {
        let mut ranges = Vec::new();
        self.find_forms(text, |range| ranges.push(range));
        self.windows.pieces(&self.encoded, text, &mut ranges);
        if !self.joined.is_empty() && memchr::memchr(b'\n', text).is_some() {
            let joined = Joined::of(text);
            self.find_forms(joined.text(), |range| ranges.extend(joined.original(range)));
        }
        let Some(levels) = levels.checked_sub(1) else { return ranges };
        for plain in plain(text) {
            let inner = self.found(&plain.text, levels);
            ranges.extend(inner.into_iter().map(|range| plain.original(range)));
        }
        ranges
    }

    /// Calls `found` with the range of each form in `text`.
    fn find_forms(&self, text: &[u8], mut found: impl FnMut(Range<usize>)) {
        for head in self.heads.find_overlapping_iter(text) {
            let text = &text[head.start()..];
            for form_of_head in &self.forms[head.pattern().as_usize()] {
                match *form_of_head {
                    Form::Text(index) => {
                        let form = self.texts[index].as_bytes();
                        if text.starts_with(form) {
                            found(head.start()..head.start() + form.len());
                        }
                    }
                    Form::Encoded(index) => {
                        let one = &self.encoded[index];
                        let length = common(text, &one.text);
                        if length >= one.certain || reaches_line_end(text, length) {
                            found(head.start()..head.start() + length);
                        }
                    }
                }
            }
        }
    }
}

const fn url_safe(byte: u8) -> u8 {
    match byte {
        b'+' => b'-',
        b'/' => b'_',
        byte => byte,
    }
}

/// Sorts ranges, and merges those that overlap.
pub(super) fn merged(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
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
        Patterns::new([value].into_iter(), std::iter::empty()).unwrap()
    }

    fn masked(patterns: &Patterns, text: &str) -> String {
        let mut masked = String::new();
        let mut shown = 0;
        for range in patterns.covered(text.as_bytes()) {
            masked = masked + &text[shown..range.start] + "***";
            shown = range.end;
        }
        masked + &text[shown..]
    }

    #[test]
    fn beginning_of_a_long_secret_is_not_a_match() {
        let secret = "0123456789".repeat(5);
        let text = format!("{} {secret}", &secret[..49]);
        assert_eq!(masked(&patterns(&secret), &text), format!("{} ***", &secret[..49]));
    }
}
