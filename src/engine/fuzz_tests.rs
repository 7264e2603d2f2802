//! The answer of `validate` comes from Terraform, but a module decides what is in it.

use butler_fuzz::Target;

use super::diagnostics::Validation;

#[test]
fn fuzz_answer_of_validate_is_read_or_rejected() {
    let samples: [&[u8]; 1] = [
        br#"{"format_version":"1.0","valid":false,"error_count":1,"diagnostics":[{"severity":"error","summary":"s","detail":"d",
            "range":{"filename":"main.tf","start":{"line":3,"column":1,"byte":9},"end":{"line":3,"column":2,"byte":10}}}]}"#,
    ];
    let tokens: [&[u8]; 10] = [
        b"{",
        b"[",
        b"\"",
        b",",
        b"null",
        b"18446744073709551616",
        b"\"no-op\"",
        b"\"forget\"",
        b"\\n",
        b"-1",
    ];
    let mut read = 0;
    Target { name: "validation", samples: &samples, tokens: &tokens, rounds: 3000 }.run(
        |input, _| {
            read += usize::from(serde_json::from_slice::<Validation>(input).is_ok());
        },
    );
    assert!(read > 0, "no input was right");
}
