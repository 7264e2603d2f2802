//! Formats the diagnostics of `validate -json` as Terraform prints them.

use serde::Deserialize;

use butler_plan::counted;

/// The output of `validate -json`.
#[derive(Debug, Deserialize)]
pub(super) struct Validation {
    pub(super) valid: bool,
    #[serde(default)]
    pub(super) error_count: u32,
    #[serde(default)]
    pub(super) warning_count: u32,
    #[serde(default)]
    diagnostics: Vec<Diagnostic>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Diagnostic {
    severity: String,
    summary: String,
    #[serde(default)]
    detail: String,
    range: Option<Range>,
    snippet: Option<Snippet>,
}

#[derive(Debug, Deserialize)]
struct Range {
    filename: String,
    start: Position,
}

#[derive(Debug, Deserialize)]
struct Position {
    line: u32,
}

#[derive(Debug, Deserialize)]
struct Snippet {
    context: Option<String>,
    #[serde(default)]
    code: String,
    start_line: u32,
}

impl Validation {
    /// All diagnostics as Terraform prints them.
    pub(super) fn lines(&self) -> Vec<String> {
        self.diagnostics.iter().flat_map(Diagnostic::lines).collect()
    }

    /// One line for users; the reason if the configuration is not valid.
    pub(super) fn summary(&self) -> String {
        match (self.valid, self.warning_count) {
            (true, 0) => "The configuration is valid.".to_owned(),
            (true, warnings) => {
                format!("The configuration is valid, with {}.", counted(warnings, "warning"))
            }
            (false, warnings) => format!(
                "the configuration is not valid: {}, {}",
                counted(self.error_count, "error"),
                counted(warnings, "warning")
            ),
        }
    }
}

impl Diagnostic {
    pub(super) fn lines(&self) -> Vec<String> {
        let severity = if self.severity == "warning" { "Warning" } else { "Error" };
        let mut lines = vec![format!("{severity}: {}", self.summary), String::new()];
        if let Some(range) = &self.range {
            let context = self.snippet.as_ref().and_then(|snippet| snippet.context.as_ref());
            let block = context.map(|context| format!(", in {context}")).unwrap_or_default();
            lines.push(format!("  on {} line {}{block}:", range.filename, range.start.line));
            if let Some(snippet) = &self.snippet {
                let code = snippet.code.lines().zip(snippet.start_line..);
                lines.extend(code.map(|(code, number)| format!("  {number:>2}: {code}")));
            }
            lines.push(String::new());
        }
        lines.extend(self.detail.lines().map(str::to_owned));
        lines.push(String::new());
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn diagnostic_names_file_and_line() {
        let json = r#"{"format_version":"1.0","valid":false,"error_count":1,"warning_count":0,"diagnostics":[
            {"severity":"error","summary":"Missing newline after argument","detail":"An argument ends\nwith a newline.",
             "range":{"filename":"main.tf","start":{"line":3,"column":22,"byte":67},"end":{"line":3,"column":23,"byte":68}},
             "snippet":{"context":"resource \"terraform_data\" \"r\"","code":"triggers_replace = 3 }","start_line":3,
               "highlight_start_offset":21,"highlight_end_offset":22,"values":[]}}]}"#;
        let validation: Validation = serde_json::from_str(json).unwrap();
        assert_eq!(
            validation.lines(),
            [
                "Error: Missing newline after argument",
                "",
                "  on main.tf line 3, in resource \"terraform_data\" \"r\":",
                "   3: triggers_replace = 3 }",
                "",
                "An argument ends",
                "with a newline.",
                "",
            ]
        );
        assert_eq!(validation.summary(), "the configuration is not valid: 1 error, 0 warnings");
    }
}
