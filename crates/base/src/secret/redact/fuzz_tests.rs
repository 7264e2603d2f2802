//! Fuzzes redaction: secrets are masked in any context and in any chunks.

use secrecy::{ExposeSecret, SecretString};

use crate::secret::Names;
use crate::secret::Redactor;
use crate::secret::redact_values;
use crate::secret::redact_xml;
use butler_fuzz::Target;

/// Characters without the one of the mask, and without those that JSON or the log would change.
const ALPHABET: [char; 9] = ['a', 'b', 'c', '1', '%', '/', '=', 'é', '"'];

fn secrets(random: &mut fastrand::Rng) -> Vec<SecretString> {
    let word = |random: &mut fastrand::Rng| -> String {
        (0..random.usize(4..12)).map(|_| *random.choice(&ALPHABET).unwrap_or(&'a')).collect()
    };
    (0..random.usize(1..8)).map(|_| SecretString::from(word(random))).collect()
}

const TEXTS: [&[u8]; 3] = [
    b"password=abcabc1 and %2F=aab; a\"b\"c\xc3\xa9\xc3\xa9",
    "ééé=1a=b%/\"cab".as_bytes(),
    b"aaaaabbbbbccccc11111",
];

#[test]
fn fuzz_redactor_masks_secrets_whole_or_in_chunks() {
    Target {
        name: "redactor",
        samples: &TEXTS,
        tokens: &[b"abc", b"\"", b"%2F", b"=="],
        rounds: 300,
    }
    .run(|input, random| {
        let secrets = secrets(random);
        let redactor = Redactor::new();
        redactor.register(&secrets);
        let mut text = input[..input.len().min(2000)].to_vec();
        for secret in &secrets {
            let place = random.usize(..=text.len());
            text.splice(place..place, secret.expose_secret().bytes());
        }
        let whole = redactor.redact(&text).into_owned();
        let (mut pending, mut shown) = (Vec::new(), String::new());
        let mut rest = text.as_slice();
        while !rest.is_empty() {
            let (chunk, more) = rest.split_at(random.usize(1..=rest.len().min(40)));
            pending.extend_from_slice(chunk);
            let end = redactor.showable(&pending);
            shown += &redactor.redact(&pending[..end]);
            pending.drain(..end);
            rest = more;
        }
        shown += &redactor.redact(&pending);
        for secret in &secrets {
            let secret = secret.expose_secret();
            assert!(!whole.contains(secret), "`{secret}` in `{whole}`");
            assert!(!shown.contains(secret), "`{secret}` in `{shown}`");
        }
    });
}

#[test]
fn fuzz_plan_masked_json_is_valid_and_has_no_secret_in_a_value() {
    let samples: [&[u8]; 2] = [
        br#"{"format_version":"1.2","planned_values":{"outputs":{"a":{"sensitive":true,"value":"abca\n"}}},
            "resource_changes":[{"address":"x.y","change":{"actions":["create"],"before":null,"after":{"i":[1,-2.5e3,"b\"c"]}}}]}"#,
        br#"["\u0061bc1","",{"":{}},1111,true]"#,
    ];
    let tokens: [&[u8]; 8] = [b"\"", b"\\\"", b"\\u0061", b"{", b"[", b"]", b",", b"1111"];
    Target { name: "plan", samples: &samples, tokens: &tokens, rounds: 400 }.run(
        |input, random| {
            let Ok(text) = std::str::from_utf8(input) else { return };
            let redactor = Redactor::new();
            let secrets = secrets(random);
            redactor.register(&secrets);
            let masked = redact_values(&redactor, &mut Names::default(), text);
            if serde_json::from_str::<serde_json::Value>(text).is_err() {
                return;
            }
            let value: serde_json::Value = serde_json::from_str(&masked).unwrap();
            for secret in &secrets {
                assert!(!holds(&value, secret.expose_secret()), "{masked}");
            }
        },
    );
}

#[test]
fn fuzz_junit_masked_xml_is_valid_and_has_no_secret_in_an_attribute() {
    let samples: [&[u8]; 2] = [
        b"<?xml version=\"1.0\"?><a b=\"abc1\" c='&quot;aab&#x61;'><!-- ab --><![CDATA[<abca>]]>1%/ &amp; c</a>",
        "<abc1 abca=\"x > y = é\"><aaaa/>abca</abc1>".as_bytes(),
    ];
    let tokens: [&[u8]; 8] =
        [b"\"", b"'", b"&#97;", b"<b/>", b"<![CDATA[", b"]]>", b"-->", b"abc1"];
    let mut read = 0;
    Target { name: "junit", samples: &samples, tokens: &tokens, rounds: 600 }.run(
        |input, random| {
            let redactor = Redactor::new();
            let secrets = secrets(random);
            redactor.register(&secrets);
            let masked = redact_xml(&redactor, input);
            let Ok(text) = std::str::from_utf8(input) else { return };
            if roxmltree::Document::parse(text).is_err() {
                return;
            }
            let document = roxmltree::Document::parse(&masked).unwrap();
            for attribute in document.descendants().flat_map(|node| node.attributes()) {
                let holds =
                    |secret: &SecretString| attribute.value().contains(secret.expose_secret());
                assert!(!secrets.iter().any(holds), "{masked}");
            }
            read += 1;
        },
    );
    assert!(read > 0, "no input was right");
}

fn holds(value: &serde_json::Value, secret: &str) -> bool {
    match value {
        serde_json::Value::String(text) => text.contains(secret),
        serde_json::Value::Array(values) => values.iter().any(|value| holds(value, secret)),
        serde_json::Value::Object(values) => {
            values.iter().any(|(name, value)| name.contains(secret) || holds(value, secret))
        }
        _ => false,
    }
}
