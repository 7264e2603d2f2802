//! Secrets are masked in all their forms, and other text is unchanged.

use base64::Engine;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC};

use super::*;

/// Escapes all characters except letters and digits.
const STRICT: &AsciiSet = NON_ALPHANUMERIC;

/// RFC 3986.
const KEPT: &AsciiSet = &STRICT.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

fn redactor(secrets: &[&str]) -> Redactor {
    let redactor = Redactor::new();
    let secrets: Vec<SecretString> = secrets.iter().copied().map(SecretString::from).collect();
    redactor.register(&secrets);
    redactor
}

#[test]
fn all_forms_of_secrets_are_masked() {
    let redactor = redactor(&["hunter22", "first line\n  second line\r\n"]);
    assert_eq!(redactor.redact(b"password=hunter22;"), "password=***;");
    assert_eq!(redactor.redact(b"second line"), "***");
    assert_eq!(redactor.redact(b"hunter22hunter22 \xffhunter22"), "****** \u{fffd}***");
    assert!(!format!("{redactor:?}").contains("hunter22"));
}

#[test]
fn text_that_needs_no_change_is_not_copied() {
    let redactor = redactor(&["hunter22"]);
    assert!(matches!(redactor.redact("schön".as_bytes()), Cow::Borrowed("schön")));
    assert_eq!(redactor.redact(b"a\0b\xff"), "a\u{fffd}b\u{fffd}");
}

#[test]
fn overlapping_secrets_are_masked_in_whole() {
    let redactor = redactor(&["abcdef", "defghi", "abcdefghijkl", "abcd", "aaaa"]);
    assert_eq!(redactor.redact(b"<abcdefghi>"), "<***>");
    assert_eq!(redactor.redact(b"<abcdefghijkl>"), "<***>");
    assert_eq!(redactor.redact(b"<aaaaaa>"), "<***>");
}

#[test]
fn incomplete_secret_is_held_back() {
    let redactor = redactor(&["hunter22", "xhunter", "ababac"]);
    assert_eq!(redactor.showable(b"password=hunt"), "password=".len());
    assert_eq!(redactor.showable(b"password="), "password=".len());
    assert_eq!(redactor.showable(b"password=hunter22"), "password=hunter22".len());
    assert_eq!(redactor.showable(b"ababab"), 2);
    // `hunter` may become `hunter22`, and showing `x` alone would reveal the rest of `xhunter`.
    assert_eq!(redactor.showable(b"= xhunter"), 2);
}

#[test]
fn incomplete_character_is_held_back() {
    let redactor = Redactor::new();
    let euro = "€".as_bytes();
    assert_eq!(redactor.showable(&[b"\xff1", &euro[..1]].concat()), 2);
    assert_eq!(redactor.showable(&[b"\xff1", &euro[..2]].concat()), 2);
    assert_eq!(redactor.showable(&[b"\xff1", euro].concat()), 5);
    assert_eq!(redactor.showable(b"\xff"), 1);
    assert_eq!(redactor.showable(b"\x80\x80\x80\x80"), 4);
}

#[test]
fn long_secret_does_not_hold_back_a_full_buffer() {
    let secret: String =
        (0..180_000).flat_map(|number: u32| [number.to_string(), ";".to_owned()]).collect();
    let redactor = redactor(&[&secret]);
    let full = &secret.as_bytes()[..1024 * 1024];
    let showable = redactor.showable(full);
    assert!(showable >= full.len() - LONGEST, "{showable}");
    let shown = redactor.redact(&full[..showable]).into_owned()
        + &redactor.redact(&secret.as_bytes()[showable..]);
    assert_eq!(shown.replace(MASK, ""), "");
}

#[test]
fn names_of_values_too_short_to_mask_are_kept() {
    let redactor = Redactor::new();
    let [short, long, empty, lines] =
        ["abc", "abcd", " ", "{\n\"key\": 1\n}"].map(SecretString::from);
    let values = [("short", &short), ("long", &long), ("empty", &empty), ("lines", &lines)];
    redactor.register_named(values);
    redactor.register_named(values);
    assert_eq!(redactor.too_short(), ["short"]);
    assert_eq!(redactor.redact(b"abc abcd"), "abc ***");
    assert_eq!(redactor.state().secrets.len(), 3);
}

#[test]
fn forgotten_secrets_are_dropped_and_can_be_registered_again() {
    let redactor = redactor(&["hunter22", "two\nlines", "brce_token"]);
    assert_eq!(redactor.redact(b"hunter22"), "***");
    redactor.forget();
    let state = redactor.state();
    assert!(state.secrets.is_empty() && matches!(state.search, Search::Nothing));
    drop(state);
    redactor.register(&[SecretString::from("brce_token")]);
    assert_eq!(redactor.redact(b"hunter22 brce_token"), "hunter22 ***");
}

#[test]
fn everything_is_masked_even_after_a_later_registration() {
    let redactor = Redactor::new();
    redactor.hide_everything();
    redactor.register(&[SecretString::from("hunter22")]);
    assert_eq!(redactor.redact(b"a plain line"), "***");
    assert!(redactor.hides("a plain line") && !redactor.is_open(b"a plain line"));
    redactor.forget();
    assert_eq!(redactor.redact(b"a plain line"), "a plain line");
}

#[test]
fn observer_receives_each_line_once_before_the_registration_returns() {
    let redactor = Redactor::new();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let noted = heard.clone();
    redactor.observe(move |line| noted.lock().unwrap().push(line.to_owned()));
    for value in ["hunter22", "abc", "one line\n  }\n two lines ", "hunter22"] {
        redactor.register(&[SecretString::from(value)]);
    }
    assert_eq!(*heard.lock().unwrap(), ["hunter22", "one line", "two lines"]);
}

#[test]
fn encoded_secret_of_several_lines_is_masked_as_a_whole() {
    let key = "-----BEGIN\nabc\n  def\n}\n-----END";
    let redactor = redactor(&[&format!("\n{key}\n")]);
    let json = serde_json::to_string(key).unwrap();
    assert_eq!(redactor.redact(json.as_bytes()), "\"***\"");
    let encoded = base64::engine::general_purpose::STANDARD.encode(key);
    assert_eq!(redactor.redact(encoded.as_bytes()), "***");
}

#[test]
fn parts_of_a_line_do_not_reveal_a_secret() {
    let secrets = ["abab", "babba", "aabbaa", "bbbbb"];
    let redactor = redactor(&secrets);
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..2000 {
        let (mut pending, mut shown) = (Vec::new(), String::new());
        for _ in 0..random.usize(1..60) {
            pending.push(*random.choice(b"aabbc").unwrap());
            if random.u8(..4) == 0 {
                let end = redactor.showable(&pending);
                shown += &redactor.redact(&pending.drain(..end).collect::<Vec<_>>());
            }
        }
        shown += &redactor.redact(&pending);
        assert!(!secrets.iter().any(|secret| shown.contains(secret)), "{shown}");
    }
}

/// A random value with characters that many formats escape, with this `length`.
fn awkward(random: &mut fastrand::Rng, length: usize) -> String {
    let alphabet = [
        'a', 'b', 'Z', '7', '"', '\\', '\n', '<', '&', '/', '%', '+', '=', ' ', 'é', '😀', '$',
        '{', '~', '.', '\'', '\t',
    ];
    let middle = (0..length).map(|_| *random.choice(&alphabet).unwrap());
    ['x'].into_iter().chain(middle).chain(['x']).collect()
}

/// `text` as XML, with a random notation for each character.
fn xml(random: &mut fastrand::Rng, text: &str) -> String {
    let mut written = String::new();
    for character in text.chars() {
        let ways: &[&str] = match character {
            '"' => &["&quot;", "&#34;", "&#x22;", "\""],
            '\'' => &["&apos;", "&#39;", "&#039;", "&#x27;", "'"],
            '&' => &["&amp;", "&#38;"],
            '<' => &["&lt;", "&#x3C;"],
            '>' => &["&gt;", ">"],
            '\n' => &["&#10;", "&#xA;"],
            'é' => &["&#233;", "é"],
            _ => &[],
        };
        match random.choice(ways) {
            Some(way) => written.push_str(way),
            None => written.push(character),
        }
    }
    written
}

/// `text` in ASCII, as Python escapes strings in JSON.
fn ascii(text: &str) -> String {
    use std::fmt::Write;
    let mut written = String::new();
    for unit in text.encode_utf16() {
        match u8::try_from(unit) {
            Ok(byte) if byte.is_ascii() => written.push(char::from(byte)),
            _ => write!(written, "\\u{unit:04x}").unwrap(),
        }
    }
    written
}

/// The escapes of bash between `$'` and `'` in the locale `C`.
fn bash(text: &str) -> String {
    let escape = |byte: u8| match byte {
        b'\'' => r"\'".to_owned(),
        b'\\' => r"\\".to_owned(),
        b'\n' => r"\n".to_owned(),
        b'\t' => r"\t".to_owned(),
        byte if byte.is_ascii() => char::from(byte).to_string(),
        byte => format!("\\{byte:03o}"),
    };
    text.bytes().map(escape).collect()
}

/// The encodings of `value` by code that is independent of the redactor, and the range of each that
/// encodes only `value`.
fn forms(random: &mut fastrand::Rng, value: &str) -> Vec<(String, Range<usize>)> {
    use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
    let inner = |json: String| json[1..json.len() - 1].to_owned();
    let json = |text: &str| inner(serde_json::to_string(text).unwrap());
    let go = json(value).replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026");
    let mut forms = vec![
        value.to_owned(),
        json(value),
        json(&json(value)),
        json(&go),
        go,
        json(value).replace('/', "\\/"),
        inner(format!("{value:?}")),
        percent_encoding::utf8_percent_encode(value, STRICT).to_string(),
        percent_encoding::utf8_percent_encode(value, KEPT).to_string(),
        url::form_urlencoded::byte_serialize(value.as_bytes()).collect(),
    ];
    let lower = url::form_urlencoded::byte_serialize(value.as_bytes()).map(|part| {
        if part.starts_with('%') { part.to_ascii_lowercase() } else { part.to_owned() }
    });
    forms.push(lower.collect());
    forms.extend([
        ascii(&json(value)),
        json(&ascii(&json(value))),
        ascii(&json(&json(value))),
        json(&json(&ascii(&json(value)))),
        bash(value),
        value.replace('\'', r"'\''"),
        value.replace('\'', r#"'"'"'"#),
        json(value).replace('\'', r"'\''"),
        value.replace('\'', "''"),
        json(value).replace('\'', "''"),
        value.replace('"', "\"\""),
    ]);
    forms.extend([value, &json(value)].map(|text| xml(random, text)));
    forms.push(json(&xml(random, value)));
    let mut forms: Vec<_> = forms.into_iter().map(|form| (form.clone(), 0..form.len())).collect();
    for engine in [STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD] {
        let (before, after) = (random.usize(..7), random.usize(..7));
        let bytes = [&b"before:"[..before], value.as_bytes(), &b":behind"[..after]].concat();
        let certain = (before * 8).div_ceil(6)..(before + value.len()) * 8 / 6;
        forms.push((base64::Engine::encode(&engine, bytes), certain));
    }
    forms
}

#[test]
fn all_forms_of_a_secret_are_masked_in_any_chunks() {
    let mut random = fastrand::Rng::with_seed(5);
    for _ in 0..150 {
        let secrets: Vec<String> = (0..random.usize(1..4))
            .map(|_| {
                let length = random.usize(4..80);
                awkward(&mut random, length)
            })
            .collect();
        let redactor = redactor(&secrets.iter().map(String::as_str).collect::<Vec<_>>());
        let mut forms: Vec<_> =
            secrets.iter().flat_map(|secret| forms(&mut random, secret)).collect();
        random.shuffle(&mut forms);
        let text: String = forms.iter().flat_map(|(form, _)| [form, " - "]).collect();
        let (mut pending, mut shown) = (Vec::new(), String::new());
        for byte in text.bytes() {
            pending.push(byte);
            if random.u8(..16) == 0 {
                let end = redactor.showable(&pending);
                shown += &redactor.redact(&pending.drain(..end).collect::<Vec<_>>());
            }
        }
        shown += &redactor.redact(&pending);
        for (form, certain) in &forms {
            assert!(!shown.contains(&form[certain.clone()]), "{form}\n{text}\n{shown}");
        }
        assert!(redactor.redact(text.as_bytes()).contains(" - "), "the rest is shown");
    }
}

#[test]
fn text_without_secrets_is_unchanged() {
    let mut random = fastrand::Rng::with_seed(6);
    let redactor = redactor(&[
        "correct horse battery",
        "-----BEGIN KEY-----\nMIIEpAIBAAKCAQEA\n-----END KEY-----",
    ]);
    for _ in 0..200 {
        let length = random.usize(..200);
        let text = awkward(&mut random, length);
        assert_eq!(redactor.redact(text.as_bytes()), text);
        let end = redactor.showable(text.as_bytes());
        assert!(text.len() - end < 20, "{text}");
    }
}
