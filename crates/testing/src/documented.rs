//! Tables and outputs in the documentation that tests check.

use std::path::PathBuf;

use super::project::project_path;

/// Asserts that the table below `<!-- marker -->` in `file` (a path in the repository) consists of
/// exactly these rows, after its two header lines. With `BUTLER_TEST_WRITE_DOCS` set, writes them
/// there instead.
pub fn assert_documented(file: &str, marker: &str, rows: &[String]) {
    let place = Place::find(file, marker);
    let table: Vec<&str> = place.after.lines().take_while(|line| line.starts_with('|')).collect();
    let (header, written) = table.split_at(table.len().min(2));
    if is_writing() {
        place.write(table.len(), &[header.join("\n"), rows.join("\n")].join("\n"));
    } else {
        assert_eq!(written, rows, "{file} says something else; see CONTRIBUTING.md");
    }
}

/// Asserts that the block of code below `<!-- marker -->` in `file` is `output`, apart from ids, times
/// and the width of columns. With `BUTLER_TEST_WRITE_DOCS` set, writes it there instead.
pub fn assert_output_documented(file: &str, marker: &str, output: &str) {
    let place = Place::find(file, marker);
    let mut lines = place.after.lines();
    assert_eq!(lines.next(), Some("```console"), "{marker}");
    let written: Vec<&str> = lines.take_while(|line| *line != "```").collect();
    let output: Vec<&str> = output.lines().map(str::trim_end).collect();
    if is_writing() {
        place.write(written.len() + 2, &format!("```console\n{}\n```", output.join("\n")));
    } else {
        let comparable = |lines: &[&str]| lines.iter().map(|line| stable(line)).collect::<Vec<_>>();
        let message = format!("{file} says something else at `{marker}`; see CONTRIBUTING.md");
        assert_eq!(comparable(&written), comparable(&output), "{message}");
    }
}

/// The block of code below `<!-- marker -->` in `file`.
pub fn documented_block(file: &str, marker: &str) -> String {
    let place = Place::find(file, marker);
    let block = place.after.strip_prefix("```").and_then(|block| block.split_once("\n```"));
    let (_, text) = block.and_then(|(block, _)| block.split_once('\n')).expect("a block of code");
    format!("{text}\n")
}

/// A line without what differs from one execution to the next.
fn stable(line: &str) -> String {
    let word = |word: &str| {
        let bare = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
        let is_id = bare.len() >= 8 && bare.bytes().all(|byte| byte.is_ascii_hexdigit());
        let is_time = bare.len() >= 20 && bare.starts_with("20") && bare.ends_with('Z');
        let is_duration =
            bare.strip_suffix('s').is_some_and(|number| number.parse::<f64>().is_ok());
        if is_id || is_time || is_duration { word.replace(bare, "…") } else { word.to_owned() }
    };
    line.split_whitespace().map(word).collect::<Vec<_>>().join(" ")
}

fn is_writing() -> bool {
    std::env::var_os("BUTLER_TEST_WRITE_DOCS").is_some()
}

/// A marker in a document.
struct Place {
    path: PathBuf,
    /// Up to the end of the line with the marker.
    before: String,
    after: String,
}

impl Place {
    fn find(file: &str, marker: &str) -> Self {
        let path = project_path(file);
        let text = std::fs::read_to_string(&path).unwrap();
        let mark = format!("<!-- {marker} -->\n");
        let found = text.find(&mark).unwrap_or_else(|| panic!("{file} has no `{marker}`"));
        let (before, after) = text.split_at(found + mark.len());
        Self { path, before: before.to_owned(), after: after.to_owned() }
    }

    /// Replaces the first lines after the marker.
    fn write(&self, lines: usize, text: &str) {
        let rest = self.after.lines().skip(lines).flat_map(|line| [line, "\n"]);
        let rest: String = rest.collect();
        std::fs::write(&self.path, format!("{}{text}\n{rest}", self.before)).unwrap();
    }
}

#[test]
fn outputs_are_compared_without_ids_times_and_widths() {
    let line = "b53ed90e…  run 0123456789abcdef:  2026-01-02T03:04:05.678Z  after 1.5s (+2 ~0 -0)";
    assert_eq!(stable(line), "…… run …: … after … (+2 ~0 -0)");
    assert_eq!(stable("network  Noop"), "network Noop");
    assert_ne!(stable("2 of 5 changes"), stable("3 of 5 changes"));
}
