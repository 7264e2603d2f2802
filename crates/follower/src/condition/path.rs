//! JSON paths (RFC 9535).

use std::fmt;

use jsonpath_rust::parser::model::{
    Comparable, Comparison, Filter, FilterAtom, JpQuery, Literal, Segment, Selector, SingularQuery,
    SingularQuerySegment,
};
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

    /// The name of the member that the path ends with.
    pub(super) fn member(&self) -> Option<&str> {
        match self.query.segments.last()? {
            Segment::Selector(Selector::Name(name)) => Some(name),
            _ => None,
        }
    }

    /// The values that can have the member that the path ends with, and its name.
    pub(super) fn holders<'a>(&self, document: &'a Value) -> Option<(Vec<&'a Value>, &str)> {
        let member = self.member()?;
        let (_, before) = self.query.segments.split_last()?;
        let query = JpQuery::new(before.to_vec());
        let found = js_path_process(&query, document).unwrap_or_default();
        Some((found.into_iter().map(|found| found.val).collect(), member))
    }

    /// The member and the text that the last filter of the path compares, such as `type` and `Ready`.
    pub(super) fn compared(&self) -> Option<(&str, &str)> {
        self.query.segments.iter().rev().find_map(|segment| match segment {
            Segment::Selector(Selector::Filter(filter)) => compared(filter),
            _ => None,
        })
    }
}

fn compared(filter: &Filter) -> Option<(&str, &str)> {
    let comparison = match filter {
        Filter::Or(filters) | Filter::And(filters) => return filters.iter().find_map(compared),
        Filter::Atom(FilterAtom::Comparison(comparison)) => comparison,
        Filter::Atom(FilterAtom::Filter { expr, not: false }) => return compared(expr),
        Filter::Atom(FilterAtom::Filter { .. } | FilterAtom::Test { .. }) => return None,
    };
    let Comparison::Eq(left, right) = &**comparison else { return None };
    match (left, right) {
        (Comparable::SingularQuery(query), Comparable::Literal(Literal::String(text)))
        | (Comparable::Literal(Literal::String(text)), Comparable::SingularQuery(query)) => {
            let SingularQuery::Current(segments) = query else { return None };
            let [SingularQuerySegment::Name(name)] = &segments[..] else { return None };
            Some((name, text))
        }
        _ => None,
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

    #[test]
    fn member_and_filter_of_a_path_are_known() {
        let all = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Other"}]}});
        for (path, member, compared) in [
            (
                "$.status.conditions[?(@.type=='Ready')].status",
                Some("status"),
                Some(("type", "Ready")),
            ),
            ("$.a[?@['name'] == \"COMMIT\"]['value']", Some("value"), Some(("name", "COMMIT"))),
            ("$.a[?('x' == @.type && @.b == 1)]", None, Some(("type", "x"))),
            ("$.a[?(!(@.type=='x'))].b", Some("b"), None),
            ("$['metadata'].annotations['example.com/commit']", Some("example.com/commit"), None),
            ("$.a[*]", None, None),
            ("$", None, None),
        ] {
            let path = JsonPath::parse(path).unwrap();
            assert_eq!((path.member(), path.compared()), (member, compared), "{path}");
        }
        let path = JsonPath::parse("$.status.conditions[?(@.type=='Ready')].status").unwrap();
        let (holders, member) = path.holders(&all).unwrap();
        assert_eq!((holders, member), (vec![&all["status"]["conditions"][0]], "status"));
    }
}
