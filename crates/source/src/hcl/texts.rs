//! Finds the texts in HCL expressions, so that they can be masked.

use hcl_edit::expr::{Expression, ObjectKey};
use hcl_edit::repr::Spanned;
use hcl_edit::visit::Visit;
use hcl_edit::{Decorated, Formatted, Number, Span};
use secrecy::SecretString;
use serde::de::IgnoredAny;

use super::{is_literal, parenthesized};
use crate::unparsed;

/// The literal strings and numbers in `text` without keys, if it is an HCL list, map or object;
/// otherwise nothing.
#[must_use]
pub fn collection_texts(text: &str) -> Vec<String> {
    let Ok(Expression::Parenthesis(inner)) = hcl_edit::parser::parse_expr(&parenthesized(text))
    else {
        return Vec::new();
    };
    let mut texts = Texts::default();
    if matches!(inner.inner(), Expression::Array(_) | Expression::Object(_)) {
        texts.visit_expr(inner.inner());
    }
    texts.0
}

/// Whether `text` can only be HCL: a literal list, map, object or heredoc that is not JSON.
#[must_use]
pub fn is_only_hcl(text: &str) -> bool {
    let Ok(Expression::Parenthesis(inner)) = hcl_edit::parser::parse_expr(&parenthesized(text))
    else {
        return false;
    };
    let is_hcl = matches!(
        inner.inner(),
        Expression::Array(_) | Expression::Object(_) | Expression::HeredocTemplate(_)
    );
    is_hcl && is_literal(inner.inner()) && serde_json::from_str::<IgnoredAny>(text).is_err()
}

/// The literal strings and numbers in `expression` without keys, as JSON. If it is not a literal
/// value, also what it is written with in `source`: Terraform evaluates or refuses it, and quotes it.
pub fn expression_texts(expression: &Expression, source: &str) -> Vec<SecretString> {
    let mut texts = Texts::default();
    texts.visit_expr(expression);
    if !is_literal(expression) {
        let written = expression.span().and_then(|range| source.get(range)).unwrap_or_default();
        texts.0.extend(unparsed::values(written.lines()).into_iter().map(str::to_owned));
    }
    let texts = texts.0.iter().filter_map(|text| serde_json::to_string(text.as_str()).ok());
    texts.map(SecretString::from).collect()
}

/// The text of a literal string or number.
pub(super) fn literal_text(expression: &Expression) -> String {
    let mut texts = Texts::default();
    texts.visit_expr(expression);
    texts.0.concat()
}

#[derive(Default)]
struct Texts(Vec<String>);

impl Visit for Texts {
    fn visit_string(&mut self, text: &Decorated<String>) {
        self.0.push(text.as_str().to_owned());
    }

    fn visit_number(&mut self, number: &Formatted<Number>) {
        // The source text, because the parsed value has only about sixteen digits.
        let written =
            number.as_repr().map_or_else(|| number.value().to_string(), |it| it.to_string());
        self.0.push(written);
    }

    fn visit_literal(&mut self, text: &Spanned<String>) {
        self.0.push(text.as_str().to_owned());
    }

    fn visit_object_key(&mut self, _: &ObjectKey) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_collection_that_json_cannot_write_is_only_hcl() {
        for text in [
            "{ a = 1 }",
            "[\"a\",]",
            " # why\n{\n  \"a\" = true\n}",
            "<<EOT\na\nEOT\n",
            "{ a : 1 }",
        ] {
            assert!(is_only_hcl(text), "{text}");
        }
        for text in [
            "012345678901",
            "1.10",
            "1e5",
            "-1",
            "true",
            "null",
            "(555)",
            "([1, 2,])",
            "\"a\"",
            "[1, 2]",
            "{}",
            "{\"a\": 1}",
            "[]",
            "a-b",
            "[a]",
            "{ a = f() }",
            "{ a = 1 + 1 }",
            "",
            "plain text",
            "1) + (2",
            "[1,]\nb",
            "\"a\" \"b\"",
            "{{ a }}",
            "[section]\nkey",
        ] {
            assert!(!is_only_hcl(text), "{text}");
        }
    }
}
