//! Creates a `JUnit` file from the messages of `test -json`, for versions that cannot write one, and repairs
//! the files that Terraform writes.
//!
//! The file has the same format as that of Terraform since 1.11. Its texts are not redacted yet, as in
//! Terraform's own file, which may also contain characters that are not permitted in XML.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::io::Read;
use std::path::Path;

use serde::Deserialize;

use crate::engine::diagnostics::Diagnostic;
use butler_base::trust::open_regular;

/// The longest error text of one test, in bytes.
const MAX_TEXT: usize = 64 * 1024;

/// The results of single tests.
#[derive(Debug, Default)]
pub(in crate::engine) struct JunitCases(Vec<Case>);

#[derive(Debug)]
struct Case {
    file: String,
    name: String,
    status: String,
    /// The diagnostics.
    text: String,
}

/// The fields of a message that name a test.
#[derive(Deserialize)]
pub(in crate::engine) struct TestFields {
    #[serde(rename = "@testfile")]
    file: Option<String>,
    #[serde(rename = "@testrun")]
    name: Option<String>,
    test_run: Option<Run>,
}

#[derive(Deserialize)]
struct Run {
    #[serde(default)]
    status: Option<String>,
}

impl JunitCases {
    /// Records the status in a message, and its diagnostic.
    pub(in crate::engine) fn add(&mut self, fields: TestFields, diagnostic: Option<&Diagnostic>) {
        let TestFields { file: Some(file), name: Some(name), test_run } = fields else { return };
        let known = self.0.iter().position(|case| case.file == file && case.name == name);
        let index = known.unwrap_or_else(|| {
            let status = "pending".to_owned();
            self.0.push(Case { file, name, status, text: String::new() });
            self.0.len() - 1
        });
        let case = &mut self.0[index];
        if let Some(status) = test_run.and_then(|run| run.status) {
            case.status = status;
        }
        for line in diagnostic.into_iter().flat_map(Diagnostic::lines) {
            if case.text.len() < MAX_TEXT {
                case.text.push_str(&line);
                case.text.push('\n');
            }
        }
    }

    /// The file; none if no test was recorded.
    pub(in crate::engine) fn to_xml(&self) -> Option<String> {
        let mut suites: BTreeMap<&str, Vec<&Case>> = BTreeMap::new();
        for case in &self.0 {
            suites.entry(&case.file).or_default().push(case);
        }
        let mut xml = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n".to_owned();
        for (file, cases) in &suites {
            let count = |status: &[&str]| {
                cases.iter().filter(|case| status.contains(&&*case.status)).count()
            };
            let _ = writeln!(
                xml,
                "  <testsuite name=\"{}\" tests=\"{}\" skipped=\"{}\" failures=\"{}\" errors=\"{}\">",
                escape_xml(file),
                cases.len(),
                count(&["skip", "pending"]),
                count(&["fail"]),
                count(&["error"])
            );
            for case in cases {
                case.write(&mut xml);
            }
            xml.push_str("  </testsuite>\n");
        }
        xml.push_str("</testsuites>\n");
        (!suites.is_empty()).then_some(xml)
    }
}

impl Case {
    fn write(&self, xml: &mut String) {
        let (file, name, text) =
            (escape_xml(&self.file), escape_xml(&self.name), escape_xml(&self.text));
        let _ = write!(xml, "    <testcase name=\"{name}\" classname=\"{file}\"");
        let _ = match &*self.status {
            "fail" => writeln!(
                xml,
                ">\n      <failure message=\"Test run failed\">{text}</failure>\n    </testcase>"
            ),
            "error" => writeln!(
                xml,
                ">\n      <error message=\"Encountered an error\">{text}</error>\n    </testcase>"
            ),
            "skip" | "pending" => writeln!(xml, ">\n      <skipped/>\n    </testcase>"),
            _ => writeln!(xml, "/>"),
        };
    }
}

/// `text` with XML escapes.
pub(super) fn escape_xml(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' | '\t' => escaped.push(character),
            character if character.is_control() || is_forbidden(character) => {
                escaped.push(char::REPLACEMENT_CHARACTER);
            }
            character => escaped.push(character),
        }
    }
    escaped
}

/// Reads a `JUnit` file that the tool has written.
///
/// # Errors
/// If it cannot be read, or is not a regular file.
pub fn read_junit(file: &Path) -> std::io::Result<Vec<u8>> {
    let mut xml = Vec::new();
    open_regular(file)?.read_to_end(&mut xml)?;
    Ok(xml)
}

/// Replaces the characters of a `JUnit` file that are not permitted in XML 1.0. Terraform does not escape the
/// texts of tests, which may contain terminal colours.
#[must_use]
pub fn readable_junit(xml: &[u8]) -> String {
    String::from_utf8_lossy(xml).replace(is_forbidden, "\u{fffd}")
}

/// <https://www.w3.org/TR/xml/#charsets>
const fn is_forbidden(character: char) -> bool {
    matches!(
        character,
        '\0'..='\u{8}' | '\u{b}' | '\u{c}' | '\u{e}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}'
    )
}

#[cfg(test)]
mod tests {
    use super::super::counts::counts_of_junit;
    use super::*;
    use butler_result::TestCounts;

    #[test]
    fn file_contains_each_test_once_with_its_diagnostics() {
        let mut cases = JunitCases::default();
        let mut add = |json: &str, diagnostic: Option<&str>| {
            let diagnostic = diagnostic.map(|json| serde_json::from_str(json).unwrap());
            cases.add(serde_json::from_str(json).unwrap(), diagnostic.as_ref());
        };
        let run = |name: &str, status: &str| {
            format!(
                r#"{{"@testfile":"a.tftest.hcl","@testrun":"{name}","test_run":{{"run":"{name}"{status}}}}}"#
            )
        };
        add(r#"{"@message":"Found 1 file"}"#, None);
        add(&run("one", r#","progress":"starting""#), None);
        add(&run("one", r#","status":"pass""#), None);
        add(&run("<two>", r#","status":"error""#), None);
        let wrong = r#"{"severity":"error","summary":"not \"a\" & b\u0007","detail":"it is <c>"}"#;
        add(r#"{"@testfile":"a.tftest.hcl","@testrun":"<two>"}"#, Some(wrong));
        add(&run("three", r#","status":"skip""#), None);
        let xml = cases.to_xml().unwrap();
        expect_test::expect![[r#"
            <?xml version="1.0" encoding="UTF-8"?>
            <testsuites>
              <testsuite name="a.tftest.hcl" tests="3" skipped="1" failures="0" errors="1">
                <testcase name="one" classname="a.tftest.hcl"/>
                <testcase name="&lt;two&gt;" classname="a.tftest.hcl">
                  <error message="Encountered an error">Error: not &quot;a&quot; &amp; b�

            it is &lt;c&gt;

            </error>
                </testcase>
                <testcase name="three" classname="a.tftest.hcl">
                  <skipped/>
                </testcase>
              </testsuite>
            </testsuites>
        "#]]
        .assert_eq(&xml);
        let counts = TestCounts { passed: 1, failed: 1, skipped: 1 };
        assert_eq!(counts_of_junit(&xml), Some(counts));
        assert_eq!(JunitCases::default().to_xml(), None);
    }
}
