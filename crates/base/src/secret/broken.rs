//! Parts of secrets that somebody broke into lines: Terraform breaks what it has to say to 78
//! columns, between words, and `base64` writes columns of its own.
//!
//! A line does not know the next one. So an end of a line that could be the beginning of a secret
//! with spaces counts as one, and so on: in what is read line by line, and there alone.

use std::cmp::Ordering;
use std::ops::Range;

use zeroize::Zeroizing;

use super::base64::{Encoded, is_base64, standard};
use super::grams::{GRAM, Grams};
use super::patterns::WITHOUT_TILE;

/// Longer texts with spaces in them are not broken into lines but have some.
const LONGEST: usize = 1024;

/// Of more texts than have so many bytes in all, the first ones count: they have to be put in order.
const MOST: usize = 512 * 1024;

/// The shortest part at an end of a line that counts: lines begin and end with any word.
const SHORTEST: usize = 8;

/// The shortest one at the end of a line that is so long that the next word may not have fitted.
const SHORTEST_OF_WIDE: usize = 4;
const WIDE: usize = 60;

/// A line that consists of the inside of a text is nearly as long as the column is wide.
const SHORTEST_INSIDE: usize = 16;

/// Base64 that is shorter is on one line.
const SHORTEST_BROKEN: usize = 64;

/// Texts that can be broken between words. A line is looked up among their parts, which are in
/// order, so that it does not matter how many there are.
pub(super) struct Phrases {
    texts: Vec<Zeroizing<String>>,
    /// What stands behind each space, in order.
    behind: Vec<Break>,
    /// What stands before each, in the order that there is when it is read from its end.
    before: Vec<Break>,
}

/// A place between two words: the text, and where in it.
#[derive(Clone, Copy)]
struct Break {
    text: u32,
    place: u32,
}

impl Phrases {
    /// Those of `texts` that have spaces in them.
    pub(super) fn among(texts: &[Zeroizing<String>]) -> Self {
        let mut size = 0;
        let is_phrase = |text: &&Zeroizing<String>| {
            text.len() <= LONGEST && text.trim().contains(' ') && !text.contains('\n') && {
                size += text.len();
                size <= MOST
            }
        };
        let texts: Vec<_> = texts.iter().filter(is_phrase).cloned().collect();
        let mut phrases = Self { texts, behind: Vec::new(), before: Vec::new() };
        let (mut behind, mut before) = (Vec::new(), Vec::new());
        for (text, phrase) in (0..).zip(&phrases.texts) {
            for (index, _) in phrase.match_indices(' ') {
                let [end, start] = [phrase[..index].trim_end().len(), index + 1];
                let [end, start] = [end, start].map(|place| u32::try_from(place).unwrap_or(0));
                behind.push(Break { text, place: start });
                before.push(Break { text, place: end });
            }
        }
        behind.sort_unstable_by(|one, other| phrases.behind(*one).cmp(phrases.behind(*other)));
        before.sort_unstable_by(|one, other| {
            phrases.before(*one).iter().rev().cmp(phrases.before(*other).iter().rev())
        });
        (phrases.behind, phrases.before) = (behind, before);
        phrases
    }

    /// The parts of phrases that `line` begins with, ends with or consists of.
    pub(super) fn parts(&self, line: &[u8]) -> impl Iterator<Item = Range<usize>> {
        let content = content(line);
        let text = &line[content.clone()];
        let begins = self.longest_begun(text).map(|length| content.start..content.start + length);
        let shortest = if content.end < WIDE { SHORTEST } else { SHORTEST_OF_WIDE };
        let ends =
            self.longest_ended(text, shortest).map(|length| content.end - length..content.end);
        let inside = text.len() >= SHORTEST_INSIDE && self.holds(text);
        begins.into_iter().chain(ends).chain(inside.then_some(content))
    }

    /// The length of the longest end of a phrase that `text` begins with.
    fn longest_begun(&self, text: &[u8]) -> Option<usize> {
        longest(text.len(), SHORTEST, |length| {
            let text = &text[..length];
            let next = self.behind.partition_point(|one| self.behind(*one) <= text);
            let found = self.behind(*self.behind.get(next.checked_sub(1)?)?);
            Some((found.len(), common(found.iter(), text.iter())))
        })
    }

    /// The length of the longest beginning of a phrase that `text` ends with.
    fn longest_ended(&self, text: &[u8], shortest: usize) -> Option<usize> {
        longest(text.len(), shortest, |length| {
            let text = &text[text.len() - length..];
            let next = self.before.partition_point(|one| {
                self.before(*one).iter().rev().cmp(text.iter().rev()) != Ordering::Greater
            });
            let found = self.before(*self.before.get(next.checked_sub(1)?)?);
            Some((found.len(), common(found.iter().rev(), text.iter().rev())))
        })
    }

    /// Whether `text` follows a space in a phrase.
    fn holds(&self, text: &[u8]) -> bool {
        let next = self.behind.partition_point(|one| self.behind(*one) < text);
        self.behind.get(next).is_some_and(|one| self.behind(*one).starts_with(text))
    }

    fn behind(&self, at: Break) -> &[u8] {
        &self.texts[at.text as usize].as_bytes()[at.place as usize..]
    }

    fn before(&self, at: Break) -> &[u8] {
        &self.texts[at.text as usize].as_bytes()[..at.place as usize]
    }
}

/// The length of the longest part, and not a shorter one than `shortest`, that a text of `length`
/// begins with. `last` says of the first so
/// many bytes of the text which of the parts is the last that is not behind them in order: its
/// length, and how much the two have in common. Every part that they begin with begins with that.
fn longest(
    mut length: usize,
    shortest: usize,
    last: impl Fn(usize) -> Option<(usize, usize)>,
) -> Option<usize> {
    while length >= shortest {
        let (part, common) = last(length)?;
        if part == common {
            return (part >= shortest).then_some(part);
        }
        length = common;
    }
    None
}

fn common<'a>(one: impl Iterator<Item = &'a u8>, other: impl Iterator<Item = &'a u8>) -> usize {
    one.zip(other).take_while(|(one, other)| one == other).count()
}

/// Where the text of a line is, without what Terraform draws before it.
fn content(line: &[u8]) -> Range<usize> {
    let mut rest = line.trim_ascii_start();
    while let Some(behind) = rest.strip_prefix("│".as_bytes()) {
        rest = behind.trim_ascii_start();
    }
    let start = line.len() - rest.len();
    start..start + rest.trim_ascii_end().len()
}

/// The base64 at the end of `line`, maybe too short for a tile, that is a part of a longer text.
pub(super) fn ends_inside(line: &[u8], encoded: &[Encoded], grams: &Grams) -> Option<Range<usize>> {
    let end = line.trim_ascii_end().len();
    let length = line[..end].iter().rev().take_while(|byte| is_base64(**byte)).count();
    let run = end - length..end;
    let text: Zeroizing<Vec<u8>> =
        line[run.clone()].iter().copied().map(standard).collect::<Vec<_>>().into();
    let text = text.strip_suffix(b"=").unwrap_or(&text);
    let text = text.strip_suffix(b"=").unwrap_or(text);
    let counts = (GRAM..WITHOUT_TILE).contains(&text.len());
    (counts && stands_inside(text, encoded, grams)).then_some(run)
}

/// The length of the longest end of `pending`, in the standard alphabet, that is in the middle of
/// an encoded text and will be known as such only when more of it comes.
pub(super) fn begun_inside(pending: &[u8], encoded: &[Encoded], grams: &Grams) -> usize {
    let longest = pending.len().min(WITHOUT_TILE - 1);
    let run = pending[pending.len() - longest..].iter().rev();
    let run = run.take_while(|byte| is_base64(**byte)).count();
    (GRAM..=run)
        .take_while(|length| stands_inside(&pending[pending.len() - length..], encoded, grams))
        .last()
        .unwrap_or(0)
}

fn stands_inside(text: &[u8], encoded: &[Encoded], grams: &Grams) -> bool {
    if !grams.may_hold(text) {
        return false;
    }
    let finder = memchr::memmem::Finder::new(text);
    broken(encoded).any(|text| finder.find(text).is_some())
}

/// The bits of what may be broken into lines.
pub(super) fn grams(encoded: &[Encoded]) -> Grams {
    Grams::new(broken(encoded))
}

fn broken(encoded: &[Encoded]) -> impl Iterator<Item = &[u8]> + Clone {
    encoded.iter().map(|one| one.text.as_slice()).filter(|text| text.len() > SHORTEST_BROKEN)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PHRASE: &str = "correct horse battery staple and a few more words of it";

    fn shown(line: &str) -> String {
        let phrases = Phrases::among(&[Zeroizing::new(PHRASE.to_owned())]);
        let mut shown = line.to_owned();
        let mut parts: Vec<_> = phrases.parts(line.as_bytes()).collect();
        parts.sort_unstable_by_key(ExactSizeIterator::len);
        if let Some(part) = parts.pop() {
            shown.replace_range(part, "***");
        }
        shown
    }

    #[test]
    fn parts_of_a_phrase_at_the_ends_of_a_line_are_found() {
        for (line, masked) in [
            ("the password correct horse", "the password ***"),
            ("the password correct", "the password correct"),
            ("horse battery", "horse battery"),
            ("  │ │ battery staple and a few more words of it is wrong", "  │ │ *** is wrong"),
            ("│ horse battery staple and a few more ", "│ *** "),
            ("words of it is wrong", "*** is wrong"),
            ("the horse is correct?", "the horse is correct?"),
            ("more words", "more words"),
            ("", ""),
        ] {
            assert_eq!(shown(line), masked);
        }
    }

    #[test]
    fn one_word_counts_where_a_line_may_have_been_full() {
        let line = format!("  {} said correct", "long ".repeat(12));
        assert_eq!(shown(&line), line.replace("correct", "***"));
    }

    #[test]
    fn words_that_many_lines_end_with_are_none_of_a_phrase() {
        let phrases = Phrases::among(&[Zeroizing::new("name: default network".to_owned())]);
        for line in ["  + name:", "network is up", "no default", "name:"] {
            assert_eq!(phrases.parts(line.as_bytes()).count(), 0, "{line}");
        }
    }

    #[test]
    fn parts_are_found_as_by_trying_all() {
        let mut random = fastrand::Rng::with_seed(21);
        let words = ["aaaa", "aaaab", "bbbbbbbb", "a", "b", "aaaabbbb", ""];
        let mut found = 0;
        let mut text = |most: usize| {
            let count = random.usize(1..most);
            (0..count).map(|_| random.choice(words).unwrap()).collect::<Vec<_>>().join(" ")
        };
        for _ in 0..3000 {
            let texts: Vec<_> = (0..4).map(|_| Zeroizing::new(text(8))).collect();
            let line = text(12);
            let content = line.trim();
            let (mut begins, mut ends, mut inside) = (0, 0, false);
            for phrase in texts.iter().filter(|text| text.trim().contains(' ')) {
                for (index, _) in phrase.match_indices(' ') {
                    let (before, behind) = (phrase[..index].trim_end(), &phrase[index + 1..]);
                    if behind.len() >= SHORTEST && content.starts_with(behind) {
                        begins = begins.max(behind.len());
                    }
                    let wide = line.trim_end().len() >= WIDE;
                    let shortest = if wide { SHORTEST_OF_WIDE } else { SHORTEST };
                    if before.len() >= shortest && content.ends_with(before) {
                        ends = ends.max(before.len());
                    }
                    inside |= content.len() >= SHORTEST_INSIDE && behind.starts_with(content);
                }
            }
            let start = line.len() - line.trim_start().len();
            let end = start + content.len();
            let mut expected = Vec::new();
            expected.extend((begins > 0).then_some(start..start + begins));
            expected.extend((ends > 0).then_some(end - ends..end));
            expected.extend(inside.then_some(start..end));
            let parts: Vec<_> = Phrases::among(&texts).parts(line.as_bytes()).collect();
            assert_eq!(parts, expected, "{line:?} {texts:?}");
            found += parts.len();
        }
        assert!(found > 500, "{found}");
    }
}
