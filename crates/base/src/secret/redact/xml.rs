//! Redacts XML and keeps it well-formed: changes only attribute values, text and comments.

use std::borrow::Cow;
use std::fmt::Write;

use super::unescape::character;
use crate::secret::Redactor;

/// Redacts attribute values, text and comments of `xml`, but not the names of elements and
/// attributes. After the first syntax error, the rest is redacted as plain text.
#[must_use]
pub fn redact_xml(redactor: &Redactor, xml: &[u8]) -> String {
    let xml = String::from_utf8_lossy(xml);
    let mut masked = String::with_capacity(xml.len());
    let mut rest = xml.as_ref();
    while let Some(start) = rest.find('<') {
        mask_escaped(redactor, &rest[..start], &mut masked);
        rest = &rest[start..];
        let Some(length) = mask_markup(redactor, rest, &mut masked) else {
            masked.push_str(&redactor.redact(rest.as_bytes()));
            return masked;
        };
        rest = &rest[length..];
    }
    mask_escaped(redactor, rest, &mut masked);
    masked
}

/// Copies the markup at the start of `xml`, redacted. Returns its length in `xml`, or none if its
/// end is missing.
fn mask_markup(redactor: &Redactor, xml: &str, masked: &mut String) -> Option<usize> {
    for (begin, end, is_text) in
        [("<!--", "-->", true), ("<![CDATA[", "]]>", true), ("<?", "?>", false), ("<!", ">", false)]
    {
        if let Some(behind) = xml.strip_prefix(begin) {
            let inside = &behind[..behind.find(end)?];
            masked.push_str(begin);
            if is_text {
                masked.push_str(&redactor.redact(inside.as_bytes()));
            } else {
                masked.push_str(inside);
            }
            masked.push_str(end);
            return Some(begin.len() + inside.len() + end.len());
        }
    }
    mask_tag(redactor, xml, masked)
}

/// Copies a tag, with redacted attribute values.
fn mask_tag(redactor: &Redactor, xml: &str, masked: &mut String) -> Option<usize> {
    let (mut tag, mut place) = (String::new(), 0);
    loop {
        let next = place + xml[place..].find(['"', '\'', '>'])?;
        tag.push_str(&xml[place..=next]);
        place = next + 1;
        let quote = char::from(xml.as_bytes()[next]);
        if quote == '>' {
            masked.push_str(&tag);
            return Some(place);
        }
        let end = place + xml[place..].find(quote)?;
        mask_escaped(redactor, &xml[place..end], &mut tag);
        tag.push(quote);
        place = end + 1;
    }
}

/// Copies a text that contains entities, redacted. Searches for secrets in the decoded text.
fn mask_escaped(redactor: &Redactor, text: &str, masked: &mut String) {
    let plain = unescaped(text);
    let shown = redactor.redact(plain.as_bytes());
    if shown == plain {
        return masked.push_str(text);
    }
    for character in shown.chars() {
        match character {
            '&' | '<' | '>' | '"' | '\'' | '\r' | '\t' => {
                let _ = write!(masked, "&#{};", u32::from(character));
            }
            _ => masked.push(character),
        }
    }
}

fn unescaped(text: &str) -> Cow<'_, str> {
    let mut pieces = text.split('&');
    let first = pieces.next().unwrap_or_default();
    if first.len() == text.len() {
        return Cow::Borrowed(text);
    }
    let mut plain = first.to_owned();
    for piece in pieces {
        let entity = piece.split_once(';');
        if let Some((character, rest)) =
            entity.and_then(|(name, rest)| Some((character(name)?, rest)))
        {
            plain.push(character);
            plain.push_str(rest);
        } else {
            plain.push('&');
            plain.push_str(piece);
        }
    }
    Cow::Owned(plain)
}

#[cfg(test)]
mod tests {
    use secrecy::SecretString;

    use super::*;

    fn redactor() -> Redactor {
        let redactor = Redactor::new();
        let secrets = ["test", "name", "a<b&\"c", "line-one\nline-two", "encoding", "&quot;"];
        redactor.register(&secrets.map(SecretString::from));
        redactor
    }

    #[test]
    fn secrets_in_xml_are_masked_and_the_xml_stays_valid() {
        let xml = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!-- a test --><testsuites>\n\
            <testsuite name=\"a test &lt;1&gt;\" tests='2'><testcase name='x > y'/>\n\
            <failure message=\"a&lt;b&amp;&#34;c is &quot;\"><![CDATA[no <test>]]>line-one\nline-two &amp; a&#x3c;b&amp;&quot;c</failure>\n\
            </testsuite></testsuites>\n";
        let masked = redact_xml(&redactor(), xml.as_bytes());
        let expected = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!-- a *** --><testsuites>\n\
            <testsuite name=\"a *** &#60;1&#62;\" tests='2'><testcase name='x > y'/>\n\
            <failure message=\"*** is &#34;\"><![CDATA[no <***>]]>*** &#38; ***</failure>\n\
            </testsuite></testsuites>\n";
        assert_eq!(masked, expected);
        roxmltree::Document::parse(&masked).unwrap();
    }

    #[test]
    fn invalid_xml_is_masked_as_text() {
        for (xml, masked) in [
            ("a test", "a ***"),
            ("<a name=\"test", "<a ***=\"***"),
            ("<!-- test", "<!-- ***"),
            ("<a>test</a", "<a>***</a"),
            ("&test; &#99999999999; &", "&***; &#99999999999; &"),
            ("", ""),
        ] {
            let shown = redact_xml(&redactor(), xml.as_bytes());
            assert_eq!(unescaped(&shown), masked, "{xml}");
        }
    }

    #[test]
    fn xml_without_secrets_is_unchanged() {
        let xml = "<a b=\"&apos;&#9;\" c='\"'>&#x41;&nbsp; é\r\n<d/></a>";
        assert_eq!(redact_xml(&redactor(), xml.as_bytes()), xml);
    }
}
