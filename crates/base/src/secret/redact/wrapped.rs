//! Finds secrets in base64 that is broken across lines, as `base64` and `openssl` print it.
//!
//! A broken secret leaves three kinds of pieces. Its first characters end a line: the search for
//! heads finds them, and [`reaches_line_end`] accepts them. The other pieces are at the beginning
//! of a line or, behind a prefix such as `(local-exec): `, at its end. So each line has at most two
//! places to look at: its first run of base64 characters, and its last one. The first eight
//! characters of a run are looked up in a sorted list of all positions in all encoded secrets; a
//! hit counts if the comparison then reaches the end of the run or of the secret. Eight characters
//! (48 bits) are not equal by chance. Pieces of fewer characters are not found.

use std::ops::Range;

use super::base64::{Encoded, standard};

/// How many characters are looked up.
const WINDOW: usize = 8;

/// The most characters whose positions are listed. The shortest secrets come first, so this omits
/// only files of several kilobytes; each position takes eight bytes.
const MOST_POSITIONS: usize = 128 * 1024;

/// The positions of all windows in encoded secrets, sorted by their characters.
pub(super) struct Windows(Vec<Position>);

/// A window in one of the encoded secrets.
#[derive(Clone, Copy)]
struct Position {
    form: u32,
    offset: u32,
}

impl Position {
    fn window(self, encoded: &[Encoded]) -> &[u8] {
        &self.rest(encoded)[..WINDOW]
    }

    fn rest(self, encoded: &[Encoded]) -> &[u8] {
        &encoded[self.form as usize].text[self.offset as usize..]
    }
}

impl Windows {
    /// Lists the windows of `encoded`.
    pub(super) fn new(encoded: &[Encoded]) -> Self {
        let mut shortest_first: Vec<u32> = (0_u32..).take(encoded.len()).collect();
        shortest_first.sort_by_key(|form| encoded[*form as usize].certain);
        let mut positions = Vec::new();
        for form in shortest_first {
            let offsets = (encoded[form as usize].certain + 1).saturating_sub(WINDOW);
            if positions.len() + offsets > MOST_POSITIONS {
                break;
            }
            positions.extend((0_u32..).take(offsets).map(|offset| Position { form, offset }));
        }
        positions.sort_by(|one, other| one.window(encoded).cmp(other.window(encoded)));
        Self(positions)
    }

    /// The ranges of `text` that are pieces of `encoded`, which these windows were made from.
    pub(super) fn pieces(&self, encoded: &[Encoded], text: &[u8], ranges: &mut Vec<Range<usize>>) {
        if self.0.is_empty() {
            return;
        }
        let mut start = 0;
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            for run in runs(line) {
                if let Some(length) = self.piece(encoded, &line[run.start..], run.len()) {
                    let begin = start + run.start;
                    ranges.push(begin..begin + length);
                }
            }
            start += line.len();
        }
    }

    /// The length of the longest piece at the beginning of `text`, whose first `run` characters can
    /// be base64.
    fn piece(&self, encoded: &[Encoded], text: &[u8], run: usize) -> Option<usize> {
        let mut key = [0; WINDOW];
        if run < WINDOW {
            return None;
        }
        for (key, byte) in key.iter_mut().zip(text) {
            *key = standard(*byte);
        }
        let first = self.0.partition_point(|position| position.window(encoded) < key.as_slice());
        let equal = self.0[first..].iter().take_while(|one| one.window(encoded) == key);
        equal
            .filter_map(|position| {
                let length = common(text, position.rest(encoded));
                let certain = encoded[position.form as usize].certain - position.offset as usize;
                (length >= run.min(certain)).then_some(length)
            })
            .max()
    }
}

/// Whether `length` bytes of `text` end at the end of a line.
pub(super) fn reaches_line_end(text: &[u8], length: usize) -> bool {
    matches!(text[length..], [] | [b'\n' | b'\r', ..])
}

/// The length of the common beginning of `text`, in either alphabet, and `encoded`.
pub(super) fn common(text: &[u8], encoded: &[u8]) -> usize {
    text.iter().zip(encoded).take_while(|(one, other)| standard(**one) == **other).count()
}

/// The first and the last run of base64 characters of `line`. The first one follows the
/// indentation; quotes and padding can follow the last one.
fn runs(line: &[u8]) -> impl Iterator<Item = Range<usize>> {
    let end = line.iter().rposition(|byte| is_base64(*byte)).map_or(0, |last| last + 1);
    let last = end - line[..end].iter().rev().take_while(|byte| is_base64(**byte)).count();
    let first = line.len() - line.trim_ascii_start().len();
    let first_run = line[first..].iter().take_while(|byte| is_base64(**byte)).count();
    let same = first == last;
    std::iter::once(first..first + first_run).chain((!same).then_some(last..end))
}

const fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_')
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use base64::Engine;
    use base64::engine::general_purpose::{STANDARD, URL_SAFE};

    use crate::secret::redact::patterns::Patterns;

    /// Sixty-four bytes, as a key or a token has them.
    const SECRET: &str = "k9#vQ2!zR7$wX4^tB8&nM1*pL6(sD3)fG5-hJ0+cV_yU~eW{aE}iO[qT]rK|xZ;m";

    fn masked(text: &str) -> String {
        static PATTERNS: LazyLock<Patterns> =
            LazyLock::new(|| Patterns::new([SECRET].into_iter(), std::iter::empty()).unwrap());
        let (mut masked, mut shown) = (String::new(), 0);
        for range in PATTERNS.covered(text.as_bytes()) {
            masked = masked + &text[shown..range.start] + "***";
            shown = range.end;
        }
        masked + &text[shown..]
    }

    fn wrap(encoded: &str, columns: usize, line_start: &str) -> String {
        let lines = encoded.as_bytes().chunks(columns);
        let lines = lines.map(|line| line_start.to_owned() + str::from_utf8(line).unwrap());
        lines.collect::<Vec<_>>().join("\n")
    }

    /// The longest part of the secret that a reader of `text` can decode.
    fn readable(text: &str, encoded: &str) -> usize {
        let pieces = text.split(|one: char| !super::is_base64(u8::try_from(one).unwrap_or(b' ')));
        pieces.filter(|piece| encoded.contains(piece)).map(str::len).max().unwrap_or(0)
    }

    #[test]
    fn broken_base64_is_masked_at_every_offset_and_width() {
        for before in 0..80 {
            let text = format!("{}{SECRET}", "a; ".repeat(27).split_at(before).0);
            for (encoded, name) in
                [(STANDARD.encode(&text), "standard"), (URL_SAFE.encode(&text), "url-safe")]
            {
                let secret_begins = before * 4 / 3 + 3;
                for columns in [60, 64, 72, 76] {
                    for start in ["", "      ", "null_resource.a (local-exec): ", "\u{2502} "] {
                        let shown = masked(&wrap(&encoded, columns, start));
                        let left = readable(&shown, &encoded[secret_begins..]);
                        assert!(left < 8, "{name} {before} {columns} `{start}`: {left}\n{shown}");
                    }
                }
            }
        }
    }

    #[test]
    fn each_line_is_masked_on_its_own() {
        let encoded = STANDARD.encode(format!("{{\"token\": \"{SECRET}\", \"expires\": 3600}}"));
        let lines: Vec<_> = wrap(&encoded, 40, "").lines().map(masked).collect();
        assert!(lines[0].starts_with("eyJ0b2tlbiI6IC") && lines[0].ends_with("***"), "{lines:?}");
        assert_eq!(lines[1], "***");
        assert!(lines[2].starts_with("***") && lines[2].len() > 6, "{lines:?}");
    }

    #[test]
    fn quoted_and_escaped_lines_are_masked() {
        let encoded = wrap(&STANDARD.encode(SECRET), 64, "");
        let json = serde_json::to_string(&encoded).unwrap();
        assert_eq!(masked(&format!("content = {json}")), "content = \"***\\n***\"");
        assert_eq!(masked(&format!("{encoded}\"")), "***\n***\"");
        let last = encoded.lines().last().unwrap();
        assert_eq!(masked(&format!("(local-exec): {last}'")), "(local-exec): ***'");
    }

    #[test]
    fn other_words_are_shown() {
        let encoded = STANDARD.encode(SECRET);
        for text in [
            // Shorter than a window, a window in the middle of a line, and a window that does not
            // reach the end of the line.
            encoded[20..27].to_owned(),
            format!("a {} b", &encoded[20..28]),
            format!("{}-other", &encoded[20..28]),
            "random_password.this: Creation complete after 0s".to_owned(),
        ] {
            assert_eq!(masked(&text), text);
        }
    }

    #[test]
    fn windows_are_bounded() {
        let secrets: Vec<String> =
            (0..40).map(|one| format!("{one}-{}", "x9".repeat(4000))).collect();
        let encoded: Vec<_> = secrets
            .iter()
            .flat_map(|one| crate::secret::redact::base64::alignments(one.as_bytes()))
            .collect();
        let windows = super::Windows::new(&encoded);
        assert!(!windows.0.is_empty() && windows.0.len() <= super::MOST_POSITIONS);
    }
}
