//! JSON paths (RFC 9535).

use std::fmt;

use jsonpath_rust::parser::model::JpQuery;
use jsonpath_rust::parser::parse_json_path;
use jsonpath_rust::query::js_path_process;
use serde_json::Value;

/// A checked JSON path, such as `$.status.conditions[?(@.type=='Complete')].status`.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPath {
    text: String,
    query: JpQuery,
}

/// A text that is not a JSON path.
#[derive(Debug, thiserror::Error)]
#[error("cannot parse the JSON path `{0}`; write it as in RFC 9535, such as `$.status.phase`")]
pub struct JsonPathError(String);

impl JsonPath {
    /// Parses a path.
    ///
    /// # Errors
    /// The text is not a path of RFC 9535.
    pub fn parse(text: &str) -> Result<Self, JsonPathError> {
        match parse_json_path(text) {
            Ok(query) => Ok(Self { text: text.to_owned(), query }),
            Err(_) => Err(JsonPathError(crate::text::shorten(text, 200))),
        }
    }

    /// The path as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The values at the path, in the order of the document. A path that does not fit the document
    /// selects nothing.
    #[must_use]
    pub fn select<'a>(&self, document: &'a Value) -> Vec<&'a Value> {
        let found = js_path_process(&self.query, document).unwrap_or_default();
        found.into_iter().map(|found| found.val).collect()
    }
}

impl fmt::Display for JsonPath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_select_conditions_annotations_and_variables() {
        let object = json!({
            "metadata": {"annotations": {"example.com/commit": "abc"}},
            "spec": {"containers": [{"env": [{"name": "COMMIT", "value": "abc"}]}, {}]},
            "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Other"}]},
        });
        let select = |path: &str| JsonPath::parse(path).unwrap().select(&object).len();
        assert_eq!(select("$.status.conditions[?(@.type=='Ready')].status"), 1);
        assert_eq!(select("$.metadata.annotations['example.com/commit']"), 1);
        assert_eq!(select("$.spec.containers[*].env[?(@.name=='COMMIT')].value"), 1);
        assert_eq!(select("$.status.missing.deeper"), 0);
        assert!(JsonPath::parse("status.phase").is_err());
        assert!(JsonPath::parse("$.a[").is_err());
    }
}
