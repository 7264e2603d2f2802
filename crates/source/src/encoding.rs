//! The encodings that `working-tree-encoding` of `.gitattributes` can name.

/// An encoding of files in a working tree other than UTF-8.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Encoding {
    unit: Unit,
    /// Whether the text begins with a byte order mark.
    has_mark: bool,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Unit {
    Utf16Le,
    Utf16Be,
    Utf32Le,
    Utf32Be,
    Latin1,
    Windows1252,
    Ascii,
}

/// An encoding that is not known.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
#[error("`.gitattributes` gives it the `working-tree-encoding` `{0}`, which is not supported")]
pub struct UnknownEncoding(pub(crate) String);

/// The characters from 0x80 to 0x9F of Windows-1252; U+FFFD where there is none.
const WINDOWS_1252: &str = "€\u{fffd}‚ƒ„…†‡ˆ‰Š‹Œ\u{fffd}Ž\u{fffd}\u{fffd}‘’“”•–—˜™š›œ\u{fffd}žŸ";

impl Encoding {
    /// The encoding with this name; `None` for UTF-8.
    ///
    /// # Errors
    /// If it is not known.
    pub(crate) fn parse(name: &str) -> Result<Option<Self>, UnknownEncoding> {
        let upper = name.to_ascii_uppercase();
        let plain = upper.replace("UTF-", "UTF");
        // Without an order, the C library of Linux writes that of the machine, with a mark.
        let (unit, has_mark) = match plain.as_str() {
            "UTF8" | "" => return Ok(None),
            "UTF16" | "UTF16LE-BOM" => (Unit::Utf16Le, true),
            "UTF16LE" => (Unit::Utf16Le, false),
            "UTF16BE-BOM" => (Unit::Utf16Be, true),
            "UTF16BE" => (Unit::Utf16Be, false),
            "UTF32" => (Unit::Utf32Le, true),
            "UTF32LE" => (Unit::Utf32Le, false),
            "UTF32BE" => (Unit::Utf32Be, false),
            "ISO-8859-1" | "ISO8859-1" | "ISO_8859-1" | "LATIN1" | "LATIN-1" => {
                (Unit::Latin1, false)
            }
            "WINDOWS-1252" | "CP1252" => (Unit::Windows1252, false),
            "US-ASCII" | "ASCII" => (Unit::Ascii, false),
            _ => return Err(UnknownEncoding(name.escape_debug().to_string())),
        };
        Ok(Some(Self { unit, has_mark }))
    }

    /// The text in this encoding; `None` if it has characters that the encoding does not have.
    pub(crate) fn encode(self, text: &str) -> Option<Vec<u8>> {
        let mark = if self.has_mark { "\u{feff}" } else { "" };
        let characters = mark.chars().chain(text.chars());
        let narrow = |byte: fn(char) -> Option<u8>| characters.clone().map(byte).collect();
        match self.unit {
            Unit::Latin1 => narrow(|it| u8::try_from(it).ok()),
            Unit::Windows1252 => narrow(windows_1252),
            Unit::Ascii => narrow(|it| u8::try_from(it).ok().filter(u8::is_ascii)),
            Unit::Utf16Le | Unit::Utf16Be => {
                let is_little = self.unit == Unit::Utf16Le;
                let bytes =
                    |unit: u16| if is_little { unit.to_le_bytes() } else { unit.to_be_bytes() };
                let units = mark.encode_utf16().chain(text.encode_utf16());
                Some(units.flat_map(bytes).collect())
            }
            Unit::Utf32Le | Unit::Utf32Be => {
                let is_little = self.unit == Unit::Utf32Le;
                let bytes = |it: char| {
                    let unit = u32::from(it);
                    if is_little { unit.to_le_bytes() } else { unit.to_be_bytes() }
                };
                Some(characters.flat_map(bytes).collect())
            }
        }
    }
}

fn windows_1252(character: char) -> Option<u8> {
    if let code @ (0..0x80 | 0xA0..0x100) = u32::from(character) {
        return u8::try_from(code).ok();
    }
    let at = WINDOWS_1252.chars().position(|it| it == character && it != '\u{fffd}')?;
    u8::try_from(0x80 + at).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_written_in_the_named_encoding() {
        let all: &[(&str, &str, &[u8])] = &[
            ("UTF-16", "aé", b"\xff\xfea\0\xe9\0"),
            ("utf16", "a", b"\xff\xfea\0"),
            ("UTF-16LE", "😀", b"\x3d\xd8\x00\xde"),
            ("UTF-16LE-BOM", "a", b"\xff\xfea\0"),
            ("UTF-16BE", "a", b"\0a"),
            ("UTF-16BE-BOM", "a", b"\xfe\xff\0a"),
            ("UTF-32BE", "a", b"\0\0\0a"),
            ("UTF-32", "a", b"\xff\xfe\0\0a\0\0\0"),
            ("latin1", "é", b"\xe9"),
            ("CP1252", "€ž\u{a0}", b"\x80\x9e\xa0"),
            ("US-ASCII", "a", b"a"),
        ];
        for (name, text, expected) in all {
            let encoding = Encoding::parse(name).unwrap().unwrap();
            assert_eq!(encoding.encode(text).as_deref(), Some(*expected), "{name}");
        }
        for (name, text) in [("ISO-8859-1", "€"), ("windows-1252", "\u{81}"), ("ASCII", "é")] {
            assert_eq!(Encoding::parse(name).unwrap().unwrap().encode(text), None, "{name}");
        }
        assert_eq!(Encoding::parse("UTF-8"), Ok(None));
        assert_eq!(
            Encoding::parse("SHIFT-JIS").unwrap_err().to_string(),
            "`.gitattributes` gives it the `working-tree-encoding` `SHIFT-JIS`, which is not supported"
        );
    }
}
