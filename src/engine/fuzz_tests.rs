//! What Terraform answers is Terraform's, but what is in it is the module's.

use super::diagnostics::Validation;
use super::plan::PlanSummary;
use crate::fuzz::Target;

#[test]
fn fuzz_answers_of_the_tool_are_read_or_refused() {
    let samples: [&[u8]; 2] = [
        br#"{"format_version":"1.2","planned_values":{"root_module":{"resources":[{"address":"a.b","mode":"managed","values":{}}],
            "child_modules":[{"resources":[],"child_modules":[]}]}},"resource_drift":[{"address":"a.b","mode":"managed","change":{"actions":["update"]}}],
            "resource_changes":[{"address":"a.b","mode":"managed","previous_address":"a.c","change":{"actions":["delete","create"],"importing":{"id":"1"}}}],
            "output_changes":{"o":{"actions":["create"]}}}"#,
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
    Target { name: "answers", samples: &samples, tokens: &tokens, rounds: 3000 }.run(|input, _| {
        if let Ok(summary) = PlanSummary::read(input) {
            assert!(!summary.line().is_empty());
            assert!(!summary.drift_line().is_empty());
            read += 1;
        }
        let _ = serde_json::from_slice::<Validation>(input);
    });
    assert!(read > 0, "no input was right");
}
