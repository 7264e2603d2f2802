//! The report files that GitLab collects from a job.

use serde_json::json;

use butler_result::{ChangeCounts, Output, Shown};

/// The default limit for the variables of a `dotenv` report. A larger report fails the job.
const MAX_VARIABLES: usize = 20;

/// The default limit for the bytes of a `dotenv` report.
const MAX_BYTES: usize = 5 * 1024 - 1;

/// The prefix of all variables: without it, an output could replace a variable that later jobs use.
const PREFIX: &str = "TF_OUTPUT_";

/// The `terraform` report, which the widget of a merge request shows.
#[must_use]
pub fn terraform_report(counts: ChangeCounts) -> String {
    let ChangeCounts { add, change, destroy, .. } = counts;
    format!("{}\n", json!({"create": add, "update": change, "delete": destroy}))
}

/// The `dotenv` report, and a text with the reason for each output that it cannot contain.
#[must_use]
pub fn dotenv(outputs: &[Output]) -> (String, Vec<String>) {
    let mut left_out = Vec::new();
    let mut lines: Vec<String> = Vec::new();
    let mut length = 0;
    for output in outputs {
        let line = match line(output) {
            _ if is_ambiguous(output, outputs) => Err("another output would have the same name"),
            Ok(_) if lines.len() == MAX_VARIABLES => Err("there are 20 already"),
            Ok(line) if length + line.len() > MAX_BYTES => Err("no room left"),
            line => line,
        };
        match line {
            Ok(line) => {
                length += line.len();
                lines.push(line);
            }
            Err(why) => left_out.push(format!("`{}` ({why})", output.name)),
        }
    }
    (lines.concat(), left_out)
}

fn line(output: &Output) -> Result<String, &'static str> {
    let Shown::Value(json) = &output.value else { return Err("it is sensitive") };
    if !output.name.is_ascii() {
        return Err("its name has characters that variables cannot have");
    }
    let value: Option<String> = serde_json::from_str(json).ok();
    let value = value.as_ref().unwrap_or(json);
    if value.contains(['\n', '\r', '\0']) {
        return Err("it has several lines");
    }
    if value.trim() != value {
        return Err("it begins or ends with a space");
    }
    Ok(format!("{}={value}\n", variable(&output.name)))
}

fn variable(name: &str) -> String {
    format!("{PREFIX}{}", name.replace('-', "_"))
}

fn is_ambiguous(output: &Output, outputs: &[Output]) -> bool {
    let alike = |other: &&Output| variable(&other.name) == variable(&output.name);
    outputs.iter().filter(alike).count() > 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(name: &str, value: Shown) -> Output {
        Output { name: name.to_owned(), value }
    }

    fn value(name: &str, json: &str) -> Output {
        output(name, Shown::Value(json.to_owned()))
    }

    #[test]
    fn outputs_that_the_report_cannot_contain_are_named() {
        let outputs = [
            value("vpc-id", r#""vpc-1 = \"x\"""#),
            value("subnets", r#"["a","b"]"#),
            value("count", "3"),
            output("password", Shown::Sensitive),
            value("lines", r#""a\nPATH=/tmp""#),
            value("space", r#"" a""#),
            value("größe", "1"),
            value("a-b", "1"),
            value("a_b", "2"),
            value("large", &format!("\"{}\"", "x".repeat(5 * 1024))),
        ];
        let (text, left_out) = dotenv(&outputs);
        expect_test::expect![[r#"
            TF_OUTPUT_vpc_id=vpc-1 = "x"
            TF_OUTPUT_subnets=["a","b"]
            TF_OUTPUT_count=3
        "#]]
        .assert_eq(&text);
        expect_test::expect![[r"
            `password` (it is sensitive)
            `lines` (it has several lines)
            `space` (it begins or ends with a space)
            `größe` (its name has characters that variables cannot have)
            `a-b` (another output would have the same name)
            `a_b` (another output would have the same name)
            `large` (no room left)"]]
        .assert_eq(&left_out.join("\n"));
    }

    #[test]
    fn report_contains_at_most_as_many_variables_as_the_limit() {
        let outputs: Vec<_> = (0..25).map(|number| value(&format!("o{number}"), "1")).collect();
        let (text, left_out) = dotenv(&outputs);
        assert_eq!((text.lines().count(), left_out.len()), (20, 5));
        assert_eq!(left_out[0], "`o20` (there are 20 already)");
    }
}
