//! How a run ended, in Markdown, for a page of the CI system.

use std::fmt::Write;

use crate::result::{RunResult, table};

/// The summary of a run.
#[must_use]
pub fn summary(result: &RunResult) -> String {
    let mut text = String::new();
    let operation = result.operation.as_deref().unwrap_or("run");
    let _ = writeln!(text, "## {operation}: {}\n", result.status);
    if let Some(counts) = result.counts {
        let _ =
            writeln!(text, "| add | change | destroy | replace | import |\n|---|---|---|---|---|");
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} |\n",
            counts.add, counts.change, counts.destroy, counts.replace, counts.import
        );
    }
    let problem = result.error.iter().map(|it| format!("{}: {}", it.phase, it.message));
    let said: Vec<String> = problem.chain(result.summary.clone()).collect();
    for part in [said.join("\n"), result.warnings.join("\n"), table(&result.timings)] {
        if !part.is_empty() {
            // No line of the text can end what begins with more.
            let fence = "`".repeat(longest_fence(&part).max(2) + 1);
            let _ = writeln!(text, "{fence}text\n{part}\n{fence}\n");
        }
    }
    text
}

/// How many backticks follow one another at most.
fn longest_fence(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or_default()
}
