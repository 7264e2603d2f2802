//! Parts of secrets that somebody broke into lines: Terraform breaks what it has to say to 78
//! columns, between words, and `base64` writes columns of its own.
//!
//! A line does not know the next one. So an end of a line that could be the beginning of a secret
//! with spaces counts as one, and so on: in what is read line by line, and there alone.

use std::ops::Range;

use zeroize::Zeroizing;

use super::base64::{Encoded, is_base64, standard};
use super::patterns::WITHOUT_TILE;

/// Longer texts with spaces in them are not broken into lines but have some.
const LONGEST: usize = 1024;

/// The shortest part at an end of a line that counts, as the shortest secret.
const SHORTEST: usize = 4;

/// A line that consists of the inside of a text is nearly as long as the column is wide.
const SHORTEST_INSIDE: usize = 16;

/// The shortest piece of base64 that counts.
const SHORTEST_ENCODED: usize = 8;

/// Base64 that is shorter is on one line.
const SHORTEST_BROKEN: usize = 64;

/// Texts that can be broken between words.
pub(super) struct Phrases(Vec<Zeroizing<String>>);

impl Phrases {
    /// Those of `texts` that have spaces in them.
    pub(super) fn among(texts: &[Zeroizing<String>]) -> Self {
        let is_phrase = |text: &&Zeroizing<String>| {
            text.len() <= LONGEST && text.trim().contains(' ') && !text.contains('\n')
        };
        Self(texts.iter().filter(is_phrase).cloned().collect())
    }

    /// The parts of phrases that `line` begins with, ends with or consists of.
    pub(super) fn parts(&self, line: &[u8]) -> impl Iterator<Item = Range<usize>> {
        let content = content(line);
        let text = &line[content.clone()];
        self.0.iter().flat_map(move |phrase| {
            let phrase = phrase.as_bytes();
            let breaks = phrase.iter().enumerate().filter(|(_, byte)| **byte == b' ');
            let at_ends = breaks.flat_map({
                let content = content.clone();
                move |(index, _)| {
                    let (before, behind) = (phrase[..index].trim_ascii_end(), &phrase[index + 1..]);
                    let counts = |part: &[u8]| part.len() >= SHORTEST;
                    let begins = counts(behind) && text.starts_with(behind);
                    let ends = counts(before) && text.ends_with(before);
                    let begins = begins.then(|| content.start..content.start + behind.len());
                    let ends = ends.then(|| content.end - before.len()..content.end);
                    begins.into_iter().chain(ends)
                }
            });
            let inside =
                text.len() >= SHORTEST_INSIDE && memchr::memmem::find(phrase, text).is_some();
            at_ends.chain(inside.then(|| content.clone()))
        })
    }
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
pub(super) fn ends_inside(line: &[u8], encoded: &[Encoded]) -> Option<Range<usize>> {
    let end = line.trim_ascii_end().len();
    let length = line[..end].iter().rev().take_while(|byte| is_base64(**byte)).count();
    let run = end - length..end;
    let text: Zeroizing<Vec<u8>> =
        line[run.clone()].iter().copied().map(standard).collect::<Vec<_>>().into();
    let text = text.strip_suffix(b"=").unwrap_or(&text);
    let text = text.strip_suffix(b"=").unwrap_or(text);
    let counts = (SHORTEST_ENCODED..WITHOUT_TILE).contains(&text.len());
    (counts && stands_inside(text, encoded)).then_some(run)
}

/// The length of the longest end of `pending`, in the standard alphabet, that is in the middle of
/// an encoded text and will be known as such only when more of it comes.
pub(super) fn begun_inside(pending: &[u8], encoded: &[Encoded]) -> usize {
    let longest = pending.len().min(WITHOUT_TILE - 1);
    let run = pending[pending.len() - longest..].iter().rev();
    let run = run.take_while(|byte| is_base64(**byte)).count();
    (SHORTEST_ENCODED..=run)
        .take_while(|length| stands_inside(&pending[pending.len() - length..], encoded))
        .last()
        .unwrap_or(0)
}

fn stands_inside(text: &[u8], encoded: &[Encoded]) -> bool {
    let finder = memchr::memmem::Finder::new(text);
    let mut broken = encoded.iter().filter(|one| one.text.len() > SHORTEST_BROKEN);
    broken.any(|one| finder.find(&one.text).is_some())
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
            ("the password correct", "the password ***"),
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
}
