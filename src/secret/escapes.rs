//! How text looks inside of other text: JSON, HCL, Go, Rust and XML string literals, and URLs.
//!
//! Everything here takes two passes over a value, one to count and one to write, so that no copy of
//! it stays behind in memory that was outgrown.

use std::fmt::{Result, Write};

use zeroize::Zeroizing;

/// Values up to this size are also looked for where they were escaped more than once, and in the
/// rarer ways of writing a URL: a long value has lines, and each of them is a value here.
const ORDINARY: usize = 16 * 1024;

/// Writes a character, knowing the one behind it.
type Escape = fn(char, Option<char>, &mut dyn Write) -> Result;

/// Ways that a value is escaped in once.
const ONCE: [Escape; 9] =
    [json, json_of_go, json_with_slash, json_in_ascii, json_in_ascii_upper, go, hcl, rust, xml];

/// Ways that JSON is escaped in when it is put into JSON, or shown by Terraform.
const AGAIN: [Escape; 3] = [json, json_of_go, go];

/// What URL encoders leave as it is beside letters and digits, and whether a space becomes `+`.
/// In their order: all that is none of these (Rust), RFC 3986 (also Terraform's `urlencode`), the same in a query, WHATWG forms,
/// paths by Python, components by JavaScript, user names and path segments by Go, logins by WHATWG.
const URLS: [(&str, bool); 9] = [
    ("", false),
    ("-._~", false),
    ("-._~", true),
    ("*-._", true),
    ("-._~/", false),
    ("-._~!*'()", false),
    ("-._~$&+,;=", false),
    ("-._~$&+=:@", false),
    ("-._~!$&'()*+,%\"`", false),
];

/// `value` in every escaped form, without those that look like `value` itself.
pub(super) fn escaped(value: &str) -> Vec<Zeroizing<String>> {
    let mut forms: Vec<_> = ONCE.iter().map(|escape| written(value, *escape)).collect();
    let ordinary = value.len() <= ORDINARY;
    if ordinary {
        for inner in [json as Escape, json_of_go] {
            let once = written(value, inner);
            if *once == *value {
                continue;
            }
            let twice = written(&once, inner);
            for outer in AGAIN {
                forms.push(written(&once, outer));
                forms.push(written(&twice, outer));
            }
        }
    }
    let urls = if ordinary { &URLS[..] } else { &URLS[1..3] };
    for (kept, plus) in urls {
        for digits in [b"0123456789ABCDEF", b"0123456789abcdef"] {
            forms.push(in_two_passes(|out| percent(value, kept, *plus, digits, out)));
        }
    }
    forms.retain(|form| **form != *value);
    forms.sort_unstable_by(|one, other| one.as_str().cmp(other));
    forms.dedup();
    forms
}

fn written(value: &str, escape: Escape) -> Zeroizing<String> {
    in_two_passes(|out| {
        let mut rest = value.chars().peekable();
        while let Some(c) = rest.next() {
            escape(c, rest.peek().copied(), out)?;
        }
        Ok(())
    })
}

fn in_two_passes(write: impl Fn(&mut dyn Write) -> Result) -> Zeroizing<String> {
    struct Length(usize);
    impl Write for Length {
        fn write_str(&mut self, text: &str) -> Result {
            self.0 += text.len();
            Ok(())
        }
    }
    let mut length = Length(0);
    // Neither counting nor a string can fail.
    let _ = write(&mut length);
    let mut text = Zeroizing::new(String::with_capacity(length.0));
    let _ = write(&mut *text);
    text
}

/// The letter behind the backslash where C, Go, Rust, HCL and JSON agree.
fn letter(c: char) -> Option<&'static str> {
    match c {
        '"' => Some("\\\""),
        '\\' => Some("\\\\"),
        '\n' => Some("\\n"),
        '\r' => Some("\\r"),
        '\t' => Some("\\t"),
        _ => None,
    }
}

/// RFC 8259, with what has to be escaped and nothing else.
fn json(c: char, _: Option<char>, out: &mut dyn Write) -> Result {
    match (letter(c), c) {
        (Some(letter), _) => out.write_str(letter),
        (None, '\u{8}') => out.write_str("\\b"),
        (None, '\u{c}') => out.write_str("\\f"),
        (None, c) if u32::from(c) < 0x20 => write!(out, "\\u{:04x}", u32::from(c)),
        (None, c) => out.write_char(c),
    }
}

/// Go's `encoding/json`, and with it Terraform's `jsonencode`.
fn json_of_go(c: char, next: Option<char>, out: &mut dyn Write) -> Result {
    match c {
        '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => write!(out, "\\u{:04x}", u32::from(c)),
        c => json(c, next, out),
    }
}

/// With `\/`, as PHP writes it.
fn json_with_slash(c: char, next: Option<char>, out: &mut dyn Write) -> Result {
    if c == '/' { out.write_str("\\/") } else { json(c, next, out) }
}

/// With nothing but ASCII, as Python writes it.
fn json_in_ascii(c: char, next: Option<char>, out: &mut dyn Write) -> Result {
    if u32::from(c) < 0x7f {
        return json(c, next, out);
    }
    c.encode_utf16(&mut [0; 2]).iter().try_for_each(|unit| write!(out, "\\u{unit:04x}"))
}

/// The same with digits in upper case, as Java writes it.
fn json_in_ascii_upper(c: char, next: Option<char>, out: &mut dyn Write) -> Result {
    if u32::from(c) < 0x7f {
        return json(c, next, out);
    }
    c.encode_utf16(&mut [0; 2]).iter().try_for_each(|unit| write!(out, "\\u{unit:04X}"))
}

/// Go's `%q`: how Terraform shows strings in plans, outputs and errors.
fn go(c: char, _: Option<char>, out: &mut dyn Write) -> Result {
    match (letter(c), c) {
        (Some(letter), _) => out.write_str(letter),
        (None, '\u{7}') => out.write_str("\\a"),
        (None, '\u{8}') => out.write_str("\\b"),
        (None, '\u{b}') => out.write_str("\\v"),
        (None, '\u{c}') => out.write_str("\\f"),
        (None, c) if u32::from(c) < 0x20 || c == '\u{7f}' => write!(out, "\\x{:02x}", u32::from(c)),
        (None, c) => unless_printable(c, out),
    }
}

/// HCL's string literals (specification, Template Expressions).
fn hcl(c: char, next: Option<char>, out: &mut dyn Write) -> Result {
    match (letter(c), c, next) {
        (Some(letter), ..) => out.write_str(letter),
        (None, '$', Some('{')) => out.write_str("$$"),
        (None, '%', Some('{')) => out.write_str("%%"),
        (None, c, _) => unless_printable(c, out),
    }
}

/// Rust's `{:?}`, as the runner's own log may show a text.
fn rust(c: char, _: Option<char>, out: &mut dyn Write) -> Result {
    if c == '\'' { out.write_char(c) } else { write!(out, "{}", c.escape_debug()) }
}

/// XML as Go writes it, for the `JUnit` file of a test.
fn xml(c: char, _: Option<char>, out: &mut dyn Write) -> Result {
    out.write_str(match c {
        '"' => "&#34;",
        '\'' => "&#39;",
        '&' => "&amp;",
        '<' => "&lt;",
        '>' => "&gt;",
        '\t' => "&#x9;",
        '\n' => "&#xA;",
        '\r' => "&#xD;",
        c => return out.write_char(c),
    })
}

fn unless_printable(c: char, out: &mut dyn Write) -> Result {
    match u32::from(c) {
        _ if is_printable(c) => out.write_char(c),
        code @ 0x1_0000.. => write!(out, "\\U{code:08x}"),
        code => write!(out, "\\u{code:04x}"),
    }
}

/// Whether a literal holds `c` as it is. Accents that belong to the letter before count.
fn is_printable(c: char) -> bool {
    c == '\'' || format!("x{c}").escape_debug().eq(['x', c])
}

fn percent(value: &str, kept: &str, plus: bool, digits: &[u8; 16], out: &mut dyn Write) -> Result {
    for byte in value.bytes() {
        match byte {
            b' ' if plus => out.write_char('+')?,
            _ if byte.is_ascii_alphanumeric() || kept.as_bytes().contains(&byte) => {
                out.write_char(char::from(byte))?;
            }
            _ => {
                out.write_char('%')?;
                out.write_char(char::from(digits[usize::from(byte >> 4)]))?;
                out.write_char(char::from(digits[usize::from(byte & 15)]))?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has(value: &str, form: &str) {
        let forms = escaped(value);
        assert!(forms.iter().any(|it| **it == *form), "{form} is not there");
    }

    #[test]
    fn text_is_known_in_every_literal() {
        let value = "a\"b\\c\n<d>&'e/é\u{301}\u{2028}\u{7f}\u{1}😀 ${f} %{g}";
        has(value, serde_json::to_string(value).unwrap().trim_matches('"'));
        has(
            value,
            "a\\\"b\\\\c\\n\\u003cd\\u003e\\u0026'e/é\u{301}\\u2028\u{7f}\\u0001😀 ${f} %{g}",
        );
        has(value, "a\\\"b\\\\c\\n<d>&'e\\/é\u{301}\u{2028}\u{7f}\\u0001😀 ${f} %{g}");
        has(
            value,
            "a\\\"b\\\\c\\n<d>&'e/\\u00e9\\u0301\\u2028\\u007f\\u0001\\ud83d\\ude00 ${f} %{g}",
        );
        has(
            value,
            "a\\\"b\\\\c\\n<d>&'e/\\u00E9\\u0301\\u2028\\u007F\\u0001\\uD83D\\uDE00 ${f} %{g}",
        );
        has(value, "a\\\"b\\\\c\\n<d>&'e/é\u{301}\\u2028\\x7f\\x01😀 ${f} %{g}");
        has(value, "a\\\"b\\\\c\\n<d>&'e/é\u{301}\\u2028\\u007f\\u0001😀 $${f} %%{g}");
        has(value, format!("{value:?}").trim_matches('"'));
        has(value, "a&#34;b\\c&#xA;&lt;d&gt;&amp;&#39;e/é\u{301}\u{2028}\u{7f}\u{1}😀 ${f} %{g}");
    }

    #[test]
    fn json_in_json_in_a_plan_is_known() {
        // As Terraform 1.11.4 shows `jsonencode(jsonencode(value))`.
        has("\"s <o\\x", r#"\\\\\\\"s \\\\u003co\\\\\\\\x"#);
        has("\"s <o\\x", r#"\\\"s \\u003co\\\\x"#);
    }

    #[test]
    fn url_encodings_are_known_in_both_cases_and_with_plus() {
        let value = "p@ss /ü+%~";
        for form in [
            "p%40ss%20%2F%C3%BC%2B%25~",
            "p%40ss%20%2f%c3%bc%2b%25~",
            "p%40ss+%2F%C3%BC%2B%25~",
            "p%40ss+%2f%c3%bc%2b%25~",
            "p%40ss+%2F%C3%BC%2B%25%7E",
            "p%40ss%20/%C3%BC%2B%25~",
            "p%40ss%20%2F%C3%BC+%25~",
            "p@ss%20%2F%C3%BC+%25~",
        ] {
            has(value, form);
        }
    }

    #[test]
    fn plain_text_has_no_other_form() {
        assert!(escaped("hunter22").is_empty());
    }
}
