//! Reads the number of tests by result from the output of `test`.

use serde::Deserialize;

use butler_result::TestCounts;

/// The sum of all suites of a `JUnit` file; none if it is not valid XML.
pub(in crate::engine) fn counts_of_junit(xml: &str) -> Option<TestCounts> {
    let document = roxmltree::Document::parse(xml).ok()?;
    let mut counts = TestCounts::default();
    for suite in document.descendants().filter(|node| node.has_tag_name("testsuite")) {
        let number =
            |name| suite.attribute(name).and_then(|text| text.parse::<u32>().ok()).unwrap_or(0);
        let (failed, skipped) = (number("failures") + number("errors"), number("skipped"));
        counts.failed += failed;
        counts.skipped += skipped;
        counts.passed += number("tests").saturating_sub(failed + skipped);
    }
    Some(counts)
}

/// Reads the `test_summary` of `test -json`; none if the line is another message.
pub(in crate::engine) fn counts_of_json_line(line: &[u8]) -> Option<TestCounts> {
    #[derive(Deserialize)]
    struct Line {
        test_summary: Option<Summary>,
    }
    #[derive(Deserialize)]
    struct Summary {
        #[serde(default)]
        passed: u32,
        #[serde(default)]
        failed: u32,
        #[serde(default)]
        errored: u32,
        #[serde(default)]
        skipped: u32,
    }
    let summary = serde_json::from_slice::<Line>(line).ok()?.test_summary?;
    Some(TestCounts {
        passed: summary.passed,
        failed: summary.failed + summary.errored,
        skipped: summary.skipped,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_from_junit_and_from_json_lines() {
        let junit = r#"<?xml version="1.0"?><testsuites>
            <testsuite name="a" tests="3" skipped="1" failures="1" errors="0"/>
            <testsuite name="b" tests="2" skipped="0" failures="0" errors="1"/></testsuites>"#;
        let counts = TestCounts { passed: 2, failed: 2, skipped: 1 };
        assert_eq!(counts_of_junit(junit), Some(counts));
        let line = br#"{"type":"test_summary","test_summary":{"status":"fail","passed":2,"failed":1,"errored":1,"skipped":1}}"#;
        assert_eq!(counts_of_json_line(line), Some(counts));
        assert_eq!(counts_of_json_line(br#"{"type":"version"}"#), None);
        assert_eq!(counts.to_string(), "2 passed, 2 failed, 1 skipped");
    }
}
