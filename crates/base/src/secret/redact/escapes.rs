//! The escaped forms of a value that [`super::unescape`] does not decode: in HCL templates, in
//! quoted strings of shells, SQL, CSV and YAML, and in URLs.

use std::fmt::{Result, Write};

/// The largest value for which the rarer URL forms are searched, in bytes. The lines of a longer
/// value are separate values.
const ORDINARY: usize = 16 * 1024;

/// The escaped forms of a quotation mark in a string that the same mark encloses.
const QUOTES: [(char, &str); 5] = [
    // Shells: the string ends, an escaped mark follows, and a new string starts. `bash -x` prints
    // the first form.
    ('\'', r"'\''"),
    ('\'', r#"'"'"'"#),
    // The first form after `unescape` has decoded the backslash.
    ('\'', "'''"),
    // SQL, YAML and PowerShell.
    ('\'', "''"),
    // CSV, and identifiers in SQL.
    ('"', "\"\""),
];

/// The characters besides letters and digits that URL encoders do not escape, and whether a space
/// becomes `+`. In this order: no characters (Rust), RFC 3986 (also Terraform's `urlencode`), RFC
/// 3986 in a query, WHATWG forms, Python's paths, JavaScript's components, Go's user names and path
/// segments, WHATWG logins.
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

/// The escaped forms of `value`, without forms that equal `value`.
pub(in crate::secret) fn escaped(value: &str) -> Vec<String> {
    let mut forms = in_quotes(value);
    let urls = if value.len() <= ORDINARY { &URLS[..] } else { &URLS[1..3] };
    for (kept, plus) in urls {
        for digits in [b"0123456789ABCDEF", b"0123456789abcdef"] {
            forms.push(written(|out| percent(value, kept, *plus, digits, out)));
        }
    }
    distinct(value, forms)
}

/// The escaped forms of `value` with unchanged spaces.
pub(in crate::secret) fn escaped_in_quotes(value: &str) -> Vec<String> {
    distinct(value, in_quotes(value))
}

fn in_quotes(value: &str) -> Vec<String> {
    let mut forms = vec![written(|out| template(value, out))];
    forms.extend(QUOTES.map(|(mark, form)| written(|out| quoted(value, mark, form, out))));
    forms
}

fn distinct(value: &str, mut forms: Vec<String>) -> Vec<String> {
    forms.retain(|form| form != value);
    forms.sort_unstable();
    forms.dedup();
    forms
}

fn written(write: impl FnOnce(&mut dyn Write) -> Result) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write(&mut text);
    text
}

/// A string of HCL, where `${` and `%{` begin an expression (specification, Template Expressions).
fn template(value: &str, out: &mut dyn Write) -> Result {
    let mut rest = value.chars().peekable();
    while let Some(character) = rest.next() {
        if matches!(character, '$' | '%') && rest.peek() == Some(&'{') {
            out.write_char(character)?;
        }
        out.write_char(character)?;
    }
    Ok(())
}

fn quoted(value: &str, mark: char, form: &str, out: &mut dyn Write) -> Result {
    let mut pieces = value.split(mark);
    out.write_str(pieces.next().unwrap_or_default())?;
    for piece in pieces {
        out.write_str(form)?;
        out.write_str(piece)?;
    }
    Ok(())
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
    fn quoted_and_template_forms_are_generated() {
        let value = "it's \"${a}\" %{b}";
        for form in [
            r#"it'\''s "${a}" %{b}"#,
            r#"it'"'"'s "${a}" %{b}"#,
            r#"it''s "${a}" %{b}"#,
            r#"it's ""${a}"" %{b}"#,
            r#"it's "$${a}" %%{b}"#,
        ] {
            has(value, form);
        }
    }

    #[test]
    fn url_forms_are_generated_in_both_cases_and_with_plus() {
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
