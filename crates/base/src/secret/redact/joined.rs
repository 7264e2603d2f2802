//! Joins the lines of a text, so that a secret is found across them.
//!
//! Terraform breaks the words of an error into lines of 78 columns. A frame, or the beginning of a line
//! that names the source of the output, can precede the words of the next line. In the joined text each
//! run of white space, with what begins the next line, is one space.

use std::ops::Range;

use super::unescape::{Escape, Plain};

/// The most line feeds in one gap. More of them separate texts that do not belong together.
const MOST_LINE_FEEDS: usize = 3;

/// How far the end of the beginning of a line is searched for, in bytes.
const LONGEST_BEGINNING: usize = 512;

/// The ends of beginnings that name the source of the output: Terraform's provisioners.
const SOURCES: [&[u8]; 2] = [b" (local-exec): ", b" (remote-exec): "];

/// The frame of Terraform's errors.
const FRAME: &[u8] = "│".as_bytes();

/// A text with joined lines, and the positions of its gaps in the original.
pub(in crate::secret) struct Joined {
    plain: Plain,
    /// The gaps with line feeds, in the original and in ascending order.
    breaks: Vec<Range<usize>>,
}

impl Joined {
    /// Joins the lines of `text`.
    pub(in crate::secret) fn of(text: &[u8]) -> Self {
        let mut joined = Vec::with_capacity(text.len());
        let (mut gaps, mut breaks) = (Vec::new(), Vec::new());
        let (mut copied, mut next) = (0, 0);
        while next < text.len() {
            let (end, is_break) = gap(text, next);
            if end == next {
                next += 1;
                continue;
            }
            if &text[next..end] != b" " {
                joined.extend_from_slice(&text[copied..next]);
                gaps.push(Escape { plain: joined.len()..joined.len() + 1, original: next..end });
                joined.push(b' ');
                copied = end;
            }
            if is_break {
                breaks.push(next..end);
            }
            next = end;
        }
        joined.extend_from_slice(&text[copied..]);
        Self { plain: Plain::new(joined, gaps), breaks }
    }

    /// The text with joined lines.
    pub(in crate::secret) fn text(&self) -> &[u8] {
        &self.plain.text
    }

    /// The position in the original of the byte at `index`.
    pub(in crate::secret) fn original_start(&self, index: usize) -> usize {
        self.plain.original(index..index).start
    }

    /// The ranges in the original that `range` was joined from, without line feeds and what begins lines.
    pub(in crate::secret) fn original(
        &self,
        range: Range<usize>,
    ) -> impl Iterator<Item = Range<usize>> {
        let whole = self.plain.original(range);
        let first = self.breaks.partition_point(|gap| gap.start < whole.start);
        let within = self.breaks[first..].iter().take_while(move |gap| gap.end <= whole.end);
        let starts = std::iter::once(whole.start).chain(within.clone().map(|gap| gap.end));
        let ends = within.map(|gap| gap.start).chain(std::iter::once(whole.end));
        starts.zip(ends).map(|(start, end)| start..end).filter(|range| !range.is_empty())
    }
}

/// `value` with joined lines.
pub(in crate::secret) fn joined(value: &str) -> String {
    String::from_utf8_lossy(Joined::of(value.trim().as_bytes()).text()).into_owned()
}

/// The end of the gap at `start`, and whether it breaks a line. The end is `start` if there is none.
fn gap(text: &[u8], start: usize) -> (usize, bool) {
    let (mut end, mut line_feeds) = (start, 0);
    loop {
        let length = white_space(&text[end..]);
        if length == 0 || line_feeds == MOST_LINE_FEEDS {
            return (end, line_feeds > 0);
        }
        let is_line_feed = text[end] == b'\n';
        end += length;
        if is_line_feed {
            line_feeds += 1;
            end += beginning(&text[end..]);
        }
    }
}

/// The length of what begins `line` and does not belong to its text.
fn beginning(line: &[u8]) -> usize {
    let near = &line[..line.len().min(LONGEST_BEGINNING)];
    let near = &near[..memchr::memchr(b'\n', near).unwrap_or(near.len())];
    let source =
        SOURCES.iter().find_map(|end| memchr::memmem::find(near, end).map(|at| at + end.len()));
    let mut length = source.unwrap_or(0);
    loop {
        let rest = &line[length..];
        length += match rest {
            [b' ' | b'\t', ..] => 1,
            [b'\x1b', b'[', ..] => {
                match rest[2..].iter().position(|byte| matches!(byte, b'@'..=b'~')) {
                    Some(parameters) => 3 + parameters,
                    None => return length,
                }
            }
            _ if rest.starts_with(FRAME) => FRAME.len(),
            _ => return length,
        };
    }
}

/// The length of the white space at the start of `text`: one character of the Unicode property, or zero.
fn white_space(text: &[u8]) -> usize {
    match text {
        [b'\t'..=b'\r' | b' ', ..] => 1,
        [0xc2, 0x85 | 0xa0, ..] => 2,
        [0xe1, 0x9a, 0x80, ..]
        | [0xe2, 0x80, 0x80..=0x8a | 0xa8 | 0xa9 | 0xaf, ..]
        | [0xe2, 0x81, 0x9f, ..]
        | [0xe3, 0x80, 0x80, ..] => 3,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        String::from_utf8(Joined::of(text.as_bytes()).text().to_vec()).unwrap()
    }

    #[test]
    fn lines_are_joined_without_what_begins_them() {
        for (text, expected) in [
            ("one two", "one two"),
            ("one\ntwo", "one two"),
            ("one  \t two", "one two"),
            ("one \r\n  two", "one two"),
            ("│ one\n│ two\n│\n│ three", "│ one two three"),
            ("one\n\u{1b}[31m│\u{1b}[0m \u{1b}[0mtwo", "one two"),
            ("a.b (local-exec): one\na.b[\"k k\"] (local-exec): two", "a.b (local-exec): one two"),
            ("one\n\n\ntwo", "one two"),
            ("one\n\n\n\ntwo", "one  two"),
            ("one\u{3000}two\u{a0}\u{2003}three\u{85}", "one two three "),
            ("│ one │ two", "│ one │ two"),
            ("\n\u{1b}[", " \u{1b}["),
        ] {
            assert_eq!(shown(text), expected, "{text:?}");
        }
        assert_eq!(joined(" one\n  two "), "one two");
    }

    #[test]
    fn original_ranges_leave_out_the_breaks() {
        let text = "a │ one  two\n│ three\n│\n│ four b";
        let joined = Joined::of(text.as_bytes());
        let at = |word: &str| shown(text).find(word).unwrap();
        let pieces: Vec<_> =
            joined.original(at("one")..at(" b")).map(|range| &text[range]).collect();
        assert_eq!(pieces, ["one  two", "three", "four"]);
        let pieces: Vec<_> =
            joined.original(at("three")..at(" four")).map(|it| &text[it]).collect();
        assert_eq!(pieces, ["three"]);
        assert_eq!(joined.original_start(at("four")), text.find("four").unwrap());
        assert_eq!(joined.original_start(joined.text().len()), text.len());
    }

    #[test]
    fn every_white_space_of_unicode_is_a_gap() {
        for c in (0..0x1_0000).filter_map(char::from_u32) {
            let length = white_space(c.to_string().as_bytes());
            assert_eq!(length > 0, c.is_whitespace(), "{c:?}");
            assert!(length == 0 || length == c.len_utf8());
        }
    }
}
