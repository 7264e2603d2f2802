//! Resources that `test` could not destroy at its end. They are in no state, so only the output names them.

use serde::Deserialize;

use super::junit::escape_xml;

/// The number of resources that are recorded.
const MAX_RESOURCES: usize = 1000;

/// The resources that the clean-up has left.
#[derive(Debug, Default)]
pub(in crate::engine) struct LeftResources {
    /// Whether the lines are in a list of such resources.
    within: bool,
    resources: Vec<String>,
}

/// The message of `test -json` about a clean-up that failed.
#[derive(Debug, Deserialize)]
pub(in crate::engine) struct FailedCleanup {
    #[serde(default)]
    failed_resources: Vec<FailedResource>,
}

#[derive(Debug, Deserialize)]
struct FailedResource {
    instance: String,
}

impl LeftResources {
    /// Reads a line of standard error.
    pub(in crate::engine) fn read(&mut self, line: &[u8]) {
        let line = String::from_utf8_lossy(line);
        let text = line.trim();
        if text.contains(" left the following resources in state") {
            self.within = true;
        } else if let Some(resource) = text.strip_prefix("- ").filter(|_| self.within) {
            self.add(resource);
        } else if text.is_empty() || text.starts_with("Error: ") {
            self.within = false;
        }
    }

    /// Reads a message of `test -json`.
    pub(in crate::engine) fn add_all(&mut self, cleanup: FailedCleanup) {
        cleanup.failed_resources.into_iter().for_each(|failed| self.add(&failed.instance));
    }

    fn add(&mut self, resource: &str) {
        if self.resources.len() < MAX_RESOURCES {
            self.resources.push(resource.to_owned());
        }
    }

    /// Their addresses.
    pub(in crate::engine) fn into_addresses(self) -> Vec<String> {
        self.resources
    }
}

/// The `JUnit` file `xml` with a test for the clean-up, which has left `resources`. None if it is not such a file.
pub(in crate::engine) fn with_failed_cleanup(xml: &str, resources: &[String]) -> Option<String> {
    let (before, after) = xml.rsplit_once("</testsuites>")?;
    let list = escape_xml(&resources.join("\n"));
    Some(format!(
        "{before}  <testsuite name=\"clean-up\" tests=\"1\" skipped=\"0\" failures=\"0\" errors=\"1\">\n    \
         <testcase name=\"resources are destroyed\" classname=\"clean-up\">\n      <error message=\"Resources \
         are left\">{list}</error>\n    </testcase>\n  </testsuite>\n</testsuites>{after}"
    ))
}

#[cfg(test)]
mod tests {
    use super::super::counts::counts_of_junit;
    use super::*;

    #[test]
    fn left_resources_are_read_from_text_and_from_json() {
        let mut left = LeftResources::default();
        for line in [
            "- before.it",
            "Terraform left the following resources in state after executing",
            "main.tftest.hcl/second, and they need to be cleaned up manually:",
            "  - terraform_data.left",
            "  - aws_vpc.a[\"b c\"] (deposed object 1)",
            "",
            "- behind.it",
        ] {
            left.read(line.as_bytes());
        }
        let json = r#"{"failed_resources":[{"instance":"a.b"}]}"#;
        left.add_all(serde_json::from_str(json).unwrap());
        let expected = ["terraform_data.left", "aws_vpc.a[\"b c\"] (deposed object 1)", "a.b"];
        assert_eq!(left.into_addresses(), expected);
    }

    #[test]
    fn junit_file_has_a_failed_test_for_the_clean_up() {
        let xml = "<testsuites>\n  <testsuite name=\"a\" tests=\"2\"/>\n</testsuites>\n";
        let with =
            with_failed_cleanup(xml, &["a.b[\"<c>\"]".to_owned(), "d.e".to_owned()]).unwrap();
        let counts = counts_of_junit(&with).unwrap();
        assert_eq!((counts.passed, counts.failed), (2, 1));
        assert!(with.contains("a.b[&quot;&lt;c&gt;&quot;]\nd.e"), "{with}");
        assert_eq!(with_failed_cleanup("<html/>", &[]), None);
    }
}
