//! Untrusted texts in Markdown of GitHub's and GitLab's flavour.
//!
//! They are always inside code: in spans, or in fences that are longer than any fence in the text, so
//! that they cannot become Markdown, HTML, a mention or a link.

use std::fmt::Write as _;

use crate::visible::visible;

/// How much of one text is shown, in bytes.
const LONGEST: usize = 4 * 1024;

/// A text as a code block that the text itself cannot end.
pub(super) fn fenced(language: &str, text: &str) -> String {
    let text = visible(text);
    let fence = "`".repeat(longest_run(&text).max(2) + 1);
    format!("{fence}{language}\n{}\n{fence}\n", text.trim_end_matches('\n'))
}

/// The length of the longest sequence of backticks.
fn longest_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or_default()
}

/// A text on one line as code. In a table, a pipe has to be escaped even in code.
pub(super) fn code(text: &str) -> String {
    let text = visible(cut(text)).replace('\n', " ");
    if text.contains(['`', '|', '\\']) || text.trim() != text || text.is_empty() {
        return format!("<code>{}</code>", plain(&text));
    }
    format!("`{text}`")
}

/// A text without Markdown or HTML: character references are never parsed as markup (`CommonMark`,
/// section 2.5).
pub(super) fn plain(text: &str) -> String {
    let mut written = String::with_capacity(text.len());
    for character in visible(text).chars() {
        match character {
            ' ' | ',' | '.' | ':' | ';' | '(' | ')' | '/' | '?' | '\'' | '%' | '=' => {
                written.push(character);
            }
            '\n' => written.push_str("<br>"),
            character if character.is_ascii_punctuation() => {
                let _ = write!(written, "&#{};", u32::from(character));
            }
            character => written.push(character),
        }
    }
    written
}

/// The beginning of a long text.
pub(super) fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(LONGEST)]
}
