//! Fuzzes the reader of `validate -json`: a module controls parts of its content.

use butler_fuzz::{JSON_TOKENS, Target};

use super::diagnostics::Validation;

#[test]
fn fuzz_validation_is_read_or_rejected() {
    let samples: [&[u8]; 1] = [
        br#"{"format_version":"1.0","valid":false,"error_count":1,"diagnostics":[{"severity":"error","summary":"s","detail":"d",
            "range":{"filename":"main.tf","start":{"line":3,"column":1,"byte":9},"end":{"line":3,"column":2,"byte":10}}}]}"#,
    ];
    let mut read = 0;
    Target { name: "validation", samples: &samples, tokens: JSON_TOKENS, rounds: 3000 }.run(
        |input, _| {
            read += usize::from(serde_json::from_slice::<Validation>(input).is_ok());
        },
    );
    assert!(read > 0, "every input was rejected");
}
