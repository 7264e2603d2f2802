//! Checks HCL expressions of users, and writes values as HCL literals.
//!
//! Text of users must be exactly one expression before it is written to a file, so that it cannot add
//! a second setting. Errors do not contain the text.

mod json;
mod texts;

use std::collections::BTreeMap;
use std::fmt::Write;

use hcl_edit::expr::{BinaryOp, Conditional, Expression, ForExpr, FuncCall, UnaryOp};
use hcl_edit::visit::{self, Visit};
use serde_json::value::RawValue;

pub use json::{expression_as_json, literal_as_json};
pub use texts::{collection_texts, expression_texts, is_only_hcl};

/// The deepest nesting of JSON values, the same as in the parser of hcl-edit.
const MAX_DEPTH: usize = 64;

/// The kind of an expression.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Shape {
    /// A literal value.
    Literal,
    /// A value that must be evaluated, for example with operators.
    Computed,
    /// An expression with names or functions, which a variable file cannot use.
    Reference,
}

/// A text is not an HCL expression.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
#[error("not an HCL expression at line {line}, column {column}")]
pub struct HclError {
    /// The line, from 1.
    pub line: usize,
    /// The column, from 1.
    pub column: usize,
}

/// A value that cannot be written as HCL.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
pub enum JsonError {
    /// It is not JSON.
    #[error("the value is not JSON")]
    Syntax,
    /// It is nested too deeply.
    #[error("the value nests deeper than {MAX_DEPTH} levels")]
    TooDeep,
}

/// Whether `name` can be the name of a variable, setting or block.
#[must_use]
pub fn is_identifier(name: &str) -> bool {
    hcl_edit::Ident::try_new(name).is_ok()
}

/// `text` in parentheses, in which an expression may span lines and have comments.
#[must_use]
pub fn parenthesized(text: &str) -> String {
    format!("(\n{text}\n)")
}

/// The kind of the expression `text`.
///
/// # Errors
/// When it is not exactly one expression.
pub fn shape(text: &str) -> Result<Shape, HclError> {
    let expression = hcl_edit::parser::parse_expr(&parenthesized(text)).map_err(|error| {
        let location = error.location();
        HclError { line: location.line().saturating_sub(1).max(1), column: location.column() }
    })?;
    // `1) + (2` is an expression only because of the parentheses that are not its own.
    let Expression::Parenthesis(inner) = &expression else {
        return Err(HclError { line: 1, column: 1 });
    };
    Ok(shape_of(inner.inner()))
}

/// Whether `expression` is a literal value.
#[must_use]
pub fn is_literal(expression: &Expression) -> bool {
    shape_of(expression) == Shape::Literal
}

fn shape_of(expression: &Expression) -> Shape {
    let mut inspection = Inspection { shape: Shape::Literal };
    inspection.visit_expr(expression);
    inspection.shape
}

struct Inspection {
    shape: Shape,
}

impl Visit for Inspection {
    fn visit_expr(&mut self, expression: &Expression) {
        if matches!(expression, Expression::Variable(_)) {
            self.shape = Shape::Reference;
        }
        visit::visit_expr(self, expression);
    }

    fn visit_func_call(&mut self, _: &FuncCall) {
        self.shape = Shape::Reference;
    }

    fn visit_for_expr(&mut self, _: &ForExpr) {
        // A `for` expression defines names. Terraform checks whether all names are defined.
        self.compute();
    }

    fn visit_binary_op(&mut self, operation: &BinaryOp) {
        self.compute();
        visit::visit_binary_op(self, operation);
    }

    fn visit_unary_op(&mut self, operation: &UnaryOp) {
        let negative_number = matches!(operation.expr, Expression::Number(_));
        if !negative_number {
            self.compute();
        }
        visit::visit_unary_op(self, operation);
    }

    fn visit_conditional(&mut self, conditional: &Conditional) {
        self.compute();
        visit::visit_conditional(self, conditional);
    }
}

impl Inspection {
    fn compute(&mut self) {
        if self.shape == Shape::Literal {
            self.shape = Shape::Computed;
        }
    }
}

/// The decoded text of `json` if it is a string.
#[must_use]
pub fn json_string(json: &str) -> Option<String> {
    json.trim_start().starts_with('"').then_some(())?;
    serde_json::from_str::<String>(json).ok()
}

/// Whether a JSON text nests deeper than the limit of the parsers here, masking included.
/// The text is scanned and not parsed, because a check needs no copy of it.
#[must_use]
pub fn nests_too_deep(json: &str) -> bool {
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    json.bytes().any(|byte| {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => depth += 1,
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth > MAX_DEPTH
    })
}

/// Appends `json` to `target` as an HCL expression: numbers digit by digit, strings without any
/// template in them.
///
/// # Errors
/// When it is not JSON or nests too deep.
pub fn append_json(json: &str, target: &mut String) -> Result<(), JsonError> {
    append_value(json, target, 0)
}

/// Appends a block of that name for the object `json`, or one for each object of an array.
///
/// # Errors
/// When it is not an object or nests too deep.
pub fn append_blocks(name: &str, json: &str, target: &mut String) -> Result<(), JsonError> {
    if let Ok(blocks) = serde_json::from_str::<Vec<&RawValue>>(json) {
        return blocks.into_iter().try_for_each(|json| append_blocks(name, json.get(), target));
    }
    let body: BTreeMap<String, &RawValue> =
        serde_json::from_str(json).map_err(|_| JsonError::Syntax)?;
    target.push_str(name);
    target.push_str(" {\n");
    for (name, value) in body {
        if !is_identifier(&name) {
            return Err(JsonError::Syntax);
        }
        target.push_str(&name);
        target.push_str(" = ");
        append_value(value.get(), target, 0)?;
        target.push('\n');
    }
    target.push_str("}\n");
    Ok(())
}

fn append_value(json: &str, target: &mut String, depth: usize) -> Result<(), JsonError> {
    if depth > MAX_DEPTH {
        return Err(JsonError::TooDeep);
    }
    let syntax = |_| JsonError::Syntax;
    // Each step parses one level only, so that numbers stay text.
    let json = serde_json::from_str::<&RawValue>(json).map_err(syntax)?.get();
    match json.as_bytes().first() {
        Some(b'"') => append_string(&json_string(json).ok_or(JsonError::Syntax)?, target),
        Some(b'[') => {
            target.push('[');
            for value in serde_json::from_str::<Vec<&RawValue>>(json).map_err(syntax)? {
                append_value(value.get(), target, depth + 1)?;
                target.push(',');
            }
            target.push(']');
        }
        Some(b'{') => {
            target.push('{');
            for (name, value) in
                serde_json::from_str::<BTreeMap<String, &RawValue>>(json).map_err(syntax)?
            {
                append_string(&name, target);
                target.push('=');
                append_value(value.get(), target, depth + 1)?;
                target.push(',');
            }
            target.push('}');
        }
        _ => target.push_str(json),
    }
    Ok(())
}

/// Appends `text` as a quoted string without templates.
fn append_string(text: &str, target: &mut String) {
    target.push('"');
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '"' => target.push_str("\\\""),
            '\\' => target.push_str("\\\\"),
            '\n' => target.push_str("\\n"),
            '\r' => target.push_str("\\r"),
            '\t' => target.push_str("\\t"),
            // A doubled sign escapes the template.
            '$' | '%' if characters.peek() == Some(&'{') => {
                target.push(character);
                target.push(character);
            }
            character if character.is_control() => {
                let _ = write!(target, "\\u{:04x}", u32::from(character));
            }
            character => target.push(character),
        }
    }
    target.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_single_expression_has_a_shape() {
        for (text, expected) in [
            ("[1, 2] # why", Some(Shape::Literal)),
            (" # why\n{\n  a = \"b\"\n  \"c\" : -1.50 }\n", Some(Shape::Literal)),
            ("<<EOT\ntext\nEOT\n", Some(Shape::Literal)),
            ("1 + 2", Some(Shape::Computed)),
            ("[for x in [1]: x]", Some(Shape::Computed)),
            ("[var.a]", Some(Shape::Reference)),
            ("a-b", Some(Shape::Reference)),
            ("{ a = \"${b}\" }", Some(Shape::Reference)),
            ("{ (a) = 1 }", Some(Shape::Reference)),
            ("f()", Some(Shape::Reference)),
            ("", None),
            ("1\nb = 2", None),
            ("1, 2", None),
            ("1) + (2", None),
            ("1)\nb = (2", None),
            ("\u{0}", None),
        ] {
            assert_eq!(shape(text).ok(), expected, "{text}");
        }
    }

    #[test]
    fn json_is_written_as_equal_hcl() {
        let mut text = String::new();
        let json =
            r#"{"a b": [1.10, -1e40, true, null], "s": "${x} $${ %{ $ \" \\ \n\t\u0000\u007f é"}"#;
        append_json(json, &mut text).unwrap();
        assert_eq!(
            text,
            r#"{"a b"=[1.10,-1e40,true,null,],"s"="$${x} $$${ %%{ $ \" \\ \n\t\u0000\u007f é",}"#
        );
        assert_eq!(shape(&text), Ok(Shape::Literal));
        assert_eq!(append_json("{", &mut text), Err(JsonError::Syntax));
        let deep = format!("{}{}", "[".repeat(66), "]".repeat(66));
        assert_eq!(append_json(&deep, &mut text), Err(JsonError::TooDeep));
    }
}
