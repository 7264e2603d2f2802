//! Writes literal HCL values as JSON, so that they can be compared with a plan's.

use hcl_edit::expr::{Expression, ObjectKey};

use super::{is_literal, parenthesized};
use crate::hcl::texts::literal_text;

/// The JSON of the HCL expression `text`; none if it is not a literal value.
#[must_use]
pub fn literal_as_json(text: &str) -> Option<String> {
    expression_as_json(&hcl_edit::parser::parse_expr(&parenthesized(text)).ok()?)
}

/// The JSON of `expression`; none if it is not a literal value.
#[must_use]
pub fn expression_as_json(expression: &Expression) -> Option<String> {
    is_literal(expression).then(|| written(expression)).flatten()
}

fn written(expression: &Expression) -> Option<String> {
    Some(match expression {
        Expression::Null(_) => "null".to_owned(),
        Expression::Bool(value) => value.to_string(),
        // The source text, because the parsed value has only about sixteen digits.
        Expression::Number(number) => number
            .as_repr()
            .map_or_else(|| number.value().to_string(), |written| written.trim().to_owned()),
        Expression::UnaryOp(operation) => format!("-{}", written(&operation.expr)?),
        Expression::Parenthesis(inner) => written(inner.inner())?,
        Expression::Array(array) => {
            let elements: Option<Vec<_>> = array.iter().map(written).collect();
            format!("[{}]", elements?.join(","))
        }
        Expression::Object(object) => {
            let members = object.iter().map(|(key, value)| {
                let name = match key {
                    ObjectKey::Ident(name) => name.as_str().to_owned(),
                    ObjectKey::Expression(name) => literal_text(name),
                };
                Some(format!("{}:{}", json_text(&name)?, written(value.expr())?))
            });
            format!("{{{}}}", members.collect::<Option<Vec<_>>>()?.join(","))
        }
        text => json_text(&literal_text(text))?,
    })
}

fn json_text(text: &str) -> Option<String> {
    serde_json::to_string(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_are_written_as_equal_json() {
        for (text, json) in [
            ("null", "null"),
            ("true", "true"),
            ("12345678901234567890.50", "12345678901234567890.50"),
            ("-1", "-1"),
            ("\"a\\nb $${c}\"", r#""a\nb ${c}""#),
            ("([\"a\", 1,])", r#"["a",1]"#),
            ("{ a = 1, \"b c\" : [], 3 = {} }", r#"{"a":1,"b c":[],"3":{}}"#),
            ("<<EOT\na\nEOT\n", r#""a\n""#),
        ] {
            assert_eq!(literal_as_json(text).as_deref(), Some(json), "{text}");
        }
        for text in ["a", "f()", "1 + 1", "[for x in []: x]", "\"${a}\"", "!true", "", "{"] {
            assert_eq!(literal_as_json(text), None, "{text}");
        }
    }
}
