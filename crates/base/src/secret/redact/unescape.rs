//! Decodes escapes, so that a secret is found in any escaped form: backslash escapes of JSON,
//! programming languages and shells, and XML entities.
//!
//! Most characters have several escapes, a text can mix them, and escaped text can be escaped
//! again. A value has therefore too many escaped forms to search for each of them. Instead, a text
//! that contains escapes is also searched in its decoded form. Most lines do not contain escapes;
//! for them, the cost is one search for each of the two marks.

use std::ops::Range;

/// The length of the longest name or number of an entity, in bytes.
const LONGEST_ENTITY: usize = 10;

/// A decoded text, and the positions of its escapes in the original.
pub(in crate::secret) struct Plain {
    /// The decoded text, without an incomplete escape at the end.
    pub(in crate::secret) text: Vec<u8>,
    /// In ascending order.
    escapes: Vec<Escape>,
}

/// The position of an escape in the original, and of its character in the decoded text.
pub(super) struct Escape {
    pub(super) plain: Range<usize>,
    pub(super) original: Range<usize>,
}

/// The token at the start of a text.
enum Reading {
    /// Not an escape.
    Nothing,
    /// An incomplete escape at the end of the text.
    Unfinished,
    /// The length of an escape, and its decoded bytes.
    Escape(usize, Bytes),
}

/// Parses a text that starts with the mark of an escape: a backslash or `&`.
type Read = fn(&[u8]) -> Reading;

/// The UTF-8 encoding of a character, or one byte.
struct Bytes {
    bytes: [u8; 4],
    length: usize,
}

/// Decodes one level of escapes in `text`, separately for each kind of escape that it contains.
pub(in crate::secret) fn plain(text: &[u8]) -> impl Iterator<Item = Plain> {
    let kinds: [(u8, Read); 2] = [(b'\\', backslash), (b'&', entity)];
    kinds.into_iter().filter_map(|(mark, read)| Plain::of(text, mark, read))
}

impl Plain {
    /// The decoded `text` of these `escapes`, which are in ascending order.
    pub(super) const fn new(text: Vec<u8>, escapes: Vec<Escape>) -> Self {
        Self { text, escapes }
    }

    fn of(text: &[u8], mark: u8, read: Read) -> Option<Self> {
        let mut next = memchr::memchr(mark, text)?;
        let mut plain = Vec::with_capacity(text.len());
        let (mut escapes, mut copied) = (Vec::new(), 0);
        let end = loop {
            let length = match read(&text[next..]) {
                Reading::Nothing => 1,
                Reading::Unfinished => break next,
                Reading::Escape(length, bytes) => {
                    plain.extend_from_slice(&text[copied..next]);
                    let start = plain.len();
                    plain.extend_from_slice(&bytes.bytes[..bytes.length]);
                    copied = next + length;
                    escapes.push(Escape { plain: start..plain.len(), original: next..copied });
                    length
                }
            };
            match memchr::memchr(mark, &text[next + length..]) {
                Some(distance) => next += length + distance,
                None => break text.len(),
            }
        };
        plain.extend_from_slice(&text[copied..end]);
        (!escapes.is_empty() || end < text.len()).then_some(Self { text: plain, escapes })
    }

    /// The range in the original that `range` was decoded from. Includes escapes as a whole.
    pub(in crate::secret) fn original(&self, range: Range<usize>) -> Range<usize> {
        let end = match range.end.checked_sub(1) {
            Some(last) if last >= range.start => self.place(last).end,
            _ => self.place(range.start).start,
        };
        self.place(range.start).start..end
    }

    /// The range in the original that the byte at `index` was decoded from. `index` may be the
    /// length of the decoded text.
    fn place(&self, index: usize) -> Range<usize> {
        let before = self.escapes.partition_point(|escape| escape.plain.start <= index);
        let Some(escape) = before.checked_sub(1).map(|last| &self.escapes[last]) else {
            return index..index + 1;
        };
        if index < escape.plain.end {
            return escape.original.clone();
        }
        let start = escape.original.end + (index - escape.plain.end);
        start..start + 1
    }
}

impl Reading {
    fn byte(length: usize, byte: u8) -> Self {
        Self::Escape(length, Bytes { bytes: [byte, 0, 0, 0], length: 1 })
    }

    fn character(length: usize, code: u32) -> Self {
        let mut bytes = [0; 4];
        let character = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
        let width = character.encode_utf8(&mut bytes).len();
        Self::Escape(length, Bytes { bytes, length: width })
    }
}

/// Parses a backslash escape of JSON, Go, Rust, HCL, or a shell's `$'...'` and `printf %q`. An
/// escape that several of them support has the same meaning in all of them.
fn backslash(text: &[u8]) -> Reading {
    let Some(letter) = text.get(1) else { return Reading::Unfinished };
    let literal = Reading::byte(2, *letter);
    match letter {
        b'n' => Reading::byte(2, b'\n'),
        b'r' => Reading::byte(2, b'\r'),
        b't' => Reading::byte(2, b'\t'),
        b'a' => Reading::byte(2, 0x07),
        b'b' => Reading::byte(2, 0x08),
        b'v' => Reading::byte(2, 0x0b),
        b'f' => Reading::byte(2, 0x0c),
        b'e' | b'E' => Reading::byte(2, 0x1b),
        b'0'..=b'7' => {
            let is_octal = |byte: &u8| matches!(byte, b'0'..=b'7');
            let (length, code) = number(&text[1..], 3, 8, is_octal);
            match u8::try_from(code) {
                Ok(_) if length < 3 && text.len() == 1 + length => Reading::Unfinished,
                Ok(byte) => Reading::byte(1 + length, byte),
                Err(_) => literal,
            }
        }
        b'x' => match hexadecimal(&text[2..], 2) {
            Number::Whole(code) => Reading::byte(4, u8::try_from(code).unwrap_or_default()),
            Number::Unfinished => Reading::Unfinished,
            Number::None => literal,
        },
        b'U' => match hexadecimal(&text[2..], 8) {
            Number::Whole(code) => Reading::character(10, code),
            Number::Unfinished => Reading::Unfinished,
            Number::None => literal,
        },
        b'u' if text.get(2) == Some(&b'{') => {
            let (length, code) = number(&text[3..], 6, 16, u8::is_ascii_hexdigit);
            match text.get(3 + length) {
                Some(b'}') if length > 0 => Reading::character(4 + length, code),
                None => Reading::Unfinished,
                Some(_) => literal,
            }
        }
        b'u' => match hexadecimal(&text[2..], 4) {
            Number::Whole(high @ 0xd800..=0xdbff) => surrogates(high, text),
            Number::Whole(code) => Reading::character(6, code),
            Number::Unfinished => Reading::Unfinished,
            Number::None => literal,
        },
        _ => literal,
    }
}

/// Parses a surrogate pair: two `\u` escapes for one character (RFC 8259, section 7). `high` is the
/// value of the first.
fn surrogates(high: u32, text: &[u8]) -> Reading {
    let (rest, mark) = (&text[6..], b"\\u");
    if rest.len() < mark.len() && mark.starts_with(rest) {
        return Reading::Unfinished;
    }
    let Some(digits) = rest.strip_prefix(mark) else { return Reading::character(6, high) };
    match hexadecimal(digits, 4) {
        Number::Whole(low @ 0xdc00..=0xdfff) => {
            Reading::character(12, 0x1_0000 + ((high - 0xd800) << 10) + (low - 0xdc00))
        }
        Number::Unfinished => Reading::Unfinished,
        Number::Whole(_) | Number::None => Reading::character(6, high),
    }
}

enum Number {
    None,
    /// An incomplete number at the end of the text.
    Unfinished,
    Whole(u32),
}

/// Parses a number of exactly `digits` hexadecimal digits.
fn hexadecimal(text: &[u8], digits: usize) -> Number {
    let (length, code) = number(text, digits, 16, u8::is_ascii_hexdigit);
    match length {
        _ if length == digits => Number::Whole(code),
        _ if length == text.len() => Number::Unfinished,
        _ => Number::None,
    }
}

/// Parses a number of at most `most` digits. Returns the number of digits, and the value.
fn number(text: &[u8], most: usize, radix: u32, is_digit: fn(&u8) -> bool) -> (usize, u32) {
    let digits = text.iter().take(most).take_while(|byte| is_digit(byte));
    digits.fold((0, 0), |(length, code), digit| {
        let value = char::from(*digit).to_digit(radix).unwrap_or_default();
        (length + 1, code.wrapping_mul(radix).wrapping_add(value))
    })
}

/// Parses the entity `&name;`.
fn entity(text: &[u8]) -> Reading {
    let name = &text[1..];
    let is_part = |byte: &&u8| byte.is_ascii_alphanumeric() || **byte == b'#';
    let length = name.iter().take(LONGEST_ENTITY + 1).take_while(is_part).count();
    if length > LONGEST_ENTITY {
        return Reading::Nothing;
    }
    match name.get(length) {
        None => Reading::Unfinished,
        Some(b';') => {
            let character = std::str::from_utf8(&name[..length]).ok().and_then(character);
            character.map_or(Reading::Nothing, |it| Reading::character(length + 2, u32::from(it)))
        }
        Some(_) => Reading::Nothing,
    }
}

/// The character of an entity: one of the five names of XML, or a number.
pub(in crate::secret) fn character(entity: &str) -> Option<char> {
    match entity {
        "amp" => Some('&'),
        "lt" => Some('<'),
        "gt" => Some('>'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        _ => {
            let number = entity.strip_prefix('#')?;
            let code = match number.strip_prefix(['x', 'X']) {
                Some(digits) => u32::from_str_radix(digits, 16),
                None => number.parse(),
            };
            char::from_u32(code.ok()?)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decodes `text`, which contains one kind of escape.
    fn shown(text: &str) -> String {
        let [plain] = plain(text.as_bytes()).collect::<Vec<_>>().try_into().ok().unwrap();
        String::from_utf8(plain.text.clone()).unwrap()
    }

    #[test]
    fn every_escape_of_a_character_is_decoded() {
        for (escaped, text) in [
            (r#"\"\\\/\b\f\n\r\t"#, "\"\\/\u{8}\u{c}\n\r\t"),
            (r"\u00e9\u00C9\ud83d\ude00\uD83D\uDE00", "éÉ😀😀"),
            (r"\u{e9}\u{1f600}\U0001f600\x41\a\v\e", "é😀😀A\u{7}\u{b}\u{1b}"),
            (r"\303\274\'\$\ \&.", "ü'$ &."),
            (r"\ud83d\n\uzz\xz\u{z}\9", "\u{fffd}\nuzzxzu{z}9"),
            ("&amp;&lt;&gt;&quot;&apos;&#39;&#039;&#x27;&#X27;&#xA;", "&<>\"'''''\n"),
            ("&#233; &nbsp; & &; &#x110000; &amp", "é &nbsp; & &; &#x110000; "),
        ] {
            assert_eq!(shown(escaped), text, "{escaped}");
        }
        assert_eq!(plain(b"no escapes").count(), 0);
        assert_eq!(plain(b"a & b").count(), 0);
    }

    #[test]
    fn positions_map_to_whole_escapes() {
        let text = br"a\u00e9b&c\\d\";
        let plain = plain(text).next().unwrap();
        assert_eq!(plain.text, "aéb&c\\d".as_bytes());
        for (range, original) in [
            (0..1, r"a"),
            (0..2, r"a\u00e9"),
            (1..2, r"\u00e9"),
            (2..4, r"\u00e9b"),
            (5..7, r"c\\"),
            (7..8, "d"),
            (8..8, ""),
        ] {
            let place = plain.original(range);
            assert_eq!(&text[place], original.as_bytes());
        }
        assert_eq!(plain.original(8..8).start, text.len() - 1, "the incomplete escape is omitted");
    }

    #[test]
    fn incomplete_escapes_are_omitted() {
        for text in [
            r"\",
            r"\u",
            r"\u00e",
            r"\ud83d",
            r"\ud83d\",
            r"\ud83d\ude0",
            r"\x4",
            r"\30",
            r"\U0001f60",
            r"\u{1f600",
            "&",
            "&#x2",
            "&quot",
        ] {
            assert_eq!(shown(&format!("a{text}")), "a", "{text}");
        }
    }
}
