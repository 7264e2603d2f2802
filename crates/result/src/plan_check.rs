//! What the program has said that checks the plan (`--after-plan`).

use serde::Serialize;

use crate::visible::visible;

/// The verdict of a program about a plan. Its text has no secrets.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct PlanCheck {
    /// The name of the program, without its directory.
    pub program: String,
    /// Whether it has accepted the plan.
    pub passed: bool,
    /// Its output: both streams, without escape sequences of terminals.
    pub output: String,
}

impl PlanCheck {
    /// The verdict of `program`, with its redacted `output`.
    #[must_use]
    pub fn new(program: String, passed: bool, output: &str) -> Self {
        Self { program, passed, output: visible(output).into_owned() }
    }

    /// The file `after-plan.json`.
    #[must_use]
    pub fn document(&self) -> Vec<u8> {
        serde_json::json!({"items": [self]}).to_string().into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn document_has_the_output_without_escape_sequences() {
        let check = PlanCheck::new("cost".to_owned(), true, "\u{1b}[31mred\u{1b}[0m\n\t\"4\"\n");
        let expected = r#"{"items":[{"output":"red\n\t\"4\"\n","passed":true,"program":"cost"}]}"#;
        assert_eq!(String::from_utf8(check.document()).unwrap(), expected);
    }
}
