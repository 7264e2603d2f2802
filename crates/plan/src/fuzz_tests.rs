//! Fuzzes the reader of plans: a module controls the content of its plan.

use std::collections::BTreeSet;

use butler_base::secret::Redactor;
use butler_fuzz::{JSON_TOKENS, Target};
use serde_json::Value;

use super::reading::for_tests::{clean, survey};
use super::survey::Survey;

#[test]
fn fuzz_plan_is_read_or_rejected() {
    let samples: [&[u8]; 1] = [
        br#"{"format_version":"1.2","planned_values":{"root_module":{"resources":[{"address":"a.b","mode":"managed","values":{}}],
            "child_modules":[{"resources":[],"child_modules":[]}]}},"resource_drift":[{"address":"a.b","mode":"managed","change":{"actions":["update"]}}],
            "resource_changes":[{"address":"a.b","mode":"managed","previous_address":"a.c","change":{"actions":["delete","create"],"importing":{"id":"1"}}}],
            "output_changes":{"o":{"actions":["create"]}}}"#,
    ];
    let mut read = 0;
    Target { name: "plan", samples: &samples, tokens: JSON_TOKENS, rounds: 3000 }.run(
        |input, _| {
            if let Ok(Survey { summary, .. }) = survey(|| Ok(input), BTreeSet::new()) {
                assert!(!summary.line().is_empty());
                assert!(!summary.drift_line("Terraform").is_empty());
                read += 1;
            }
        },
    );
    assert!(read > 0, "every input was rejected");
}

#[test]
fn fuzz_redacted_plan_is_json_and_redacting_it_again_changes_nothing() {
    let samples: [&[u8]; 2] = [
        br#"{"format_version":"1.2","variables":{"a":{"value":"hunter22"},"b":{"value":[1,{"c":null}]}},
            "planned_values":{"outputs":{"o":{"sensitive":true,"value":{"k":"hunter22"}}},"root_module":{"resources":[
            {"address":"x.y","values":{"l":["hunter22",1],"m":true},"sensitive_values":{"l":[true,{}]}}],"child_modules":[]}},
            "output_changes":{"o":{"actions":["create"],"before":null,"after":"hunter22","before_sensitive":false,"after_sensitive":true}}}"#,
        br#"{"resource_changes":[{"address":"x.y","change":{"actions":["update"],"before":{"s":["hunter22"],"t":-2.5e3},"after":{"s":[],"t":1},
            "before_sensitive":{"s":true},"after_sensitive":{"s":[{}]}}}],"configuration":{"root_module":{"variables":{"a":{"default":"hunter22","sensitive":true}},
            "outputs":{"o":{"sensitive":true,"expression":{"constant_value":"hunter22"}}}}},"prior_state":{"values":{"outputs":{}}}}"#,
    ];
    let tokens: [&[u8]; 10] = [
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b"\"",
        b"true",
        b"null",
        b"\"sensitive_values\":",
        b"\"after_sensitive\":",
    ];
    let mut read = 0;
    Target { name: "cleaner", samples: &samples, tokens: &tokens, rounds: 3000 }.run(|input, _| {
        let cleaned = |plan: &[u8]| {
            // A plan that cannot be summarized is still redacted.
            let survey = survey(|| Ok(plan), BTreeSet::new()).unwrap_or_default();
            let mut into = Vec::new();
            clean(plan, &survey.variables, &Redactor::new(), &mut into)?;
            std::io::Result::Ok(into)
        };
        let once = cleaned(input);
        if serde_json::from_slice::<serde_json::Map<String, Value>>(input).is_ok() {
            let once = once.unwrap();
            serde_json::from_slice::<Value>(&once).unwrap();
            assert_eq!(cleaned(&once).unwrap(), once);
            read += 1;
        }
    });
    assert!(read > 0, "every input was rejected");
}
