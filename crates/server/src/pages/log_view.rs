//! The log of an attempt as HTML, part by part.

use std::fmt::Write as _;

use butler_base::blocking::blocking;
use butler_base::event::LogLineRef;
use butler_result::log_line;

use crate::api::ApiError;
use crate::attempts::{AttemptDirectory, LogPart, LogPosition};

/// How many lines a browser renders at once.
const CHUNK: usize = 100;

/// A piece of a log.
#[derive(Debug, Default)]
pub(super) struct LogView {
    pub(super) html: String,
    /// The sequence number of the last line.
    pub(super) last: u32,
    /// Whether lines follow that did not fit.
    pub(super) has_more: bool,
    /// What was left out at the end, because the log has reached its limit; may be empty.
    pub(super) left_out: String,
}

impl LogView {
    /// The lines after this one.
    pub(super) async fn read(directory: AttemptDirectory, after: u32) -> Result<Self, ApiError> {
        let read = blocking(move |_| {
            let log = directory.log();
            Ok::<_, std::io::Error>((log.page(LogPosition::after(after))?, log.left_out()?))
        });
        let (page, left_out) = read.await.map_err(|error| ApiError::internal(&error))?;
        let lines: Vec<LogLineRef<'_>> = page
            .lines
            .iter()
            .map(|line| LogLineRef {
                sequence: line.sequence,
                stream: line.stream,
                content: &line.content,
            })
            .collect();
        let left_out = left_out.filter(|_| !page.has_more);
        Ok(Self {
            html: html(&lines, after > 0),
            last: lines.last().map_or(after, |line| line.sequence),
            has_more: page.has_more,
            left_out: left_out
                .map(|it| {
                    format!("{} more lines were left out: the log has reached its limit.", it.lines)
                })
                .unwrap_or_default(),
        })
    }
}

/// Lines in parts, which can be folded. The first part of lines that begin in the middle is not known.
fn html(lines: &[LogLineRef<'_>], in_the_middle: bool) -> String {
    let (mut html, mut part, mut in_chunk) = (String::new(), None, 0);
    for line in lines {
        let begins = LogPart::beginning_with(line.content).or_else(|| {
            // The first line of a piece that begins in the middle says nothing about its part.
            part.is_none().then_some(LogPart::Prepare)
        });
        if let Some(begins) = begins.filter(|begins| part.is_none_or(|part| part < *begins)) {
            if part.is_some() {
                html.push_str("</div></details>");
            }
            let _ = write!(
                html,
                "<details class=\"part\" data-part=\"{}\" open><summary>{}</summary><div class=\"chunk\">",
                begins as u8,
                if in_the_middle && part.is_none() { "Continued" } else { begins.title() }
            );
            (part, in_chunk) = (Some(begins), 0);
        }
        if in_chunk == CHUNK {
            html.push_str("</div><div class=\"chunk\">");
            in_chunk = 0;
        }
        in_chunk += 1;
        html.push_str(&log_line(line));
    }
    if part.is_some() {
        html.push_str("</div></details>");
    }
    html
}

#[cfg(test)]
mod tests {
    use butler_base::event::Stream;

    use super::*;

    #[test]
    fn lines_are_escaped_and_each_part_begins_once() {
        let contents = [
            "Using terraform",
            "Initializing the backend...",
            "<script>alert(1)</script>\u{1b}[31m\u{202e}",
            "a: Refreshing state...",
            "Initializing modules...",
            "Error: no",
        ];
        let lines: Vec<LogLineRef<'_>> = (1..)
            .zip(contents)
            .map(|(sequence, content)| LogLineRef { sequence, stream: Stream::Stdout, content })
            .collect();
        let html = html(&lines, false);
        let titles: Vec<&str> =
            html.split("<summary>").skip(1).map(|rest| rest.split('<').next().unwrap()).collect();
        assert_eq!(titles, ["Prepare", "Init", "Plan"]);
        assert_eq!(html.matches("<details").count(), html.matches("</details>").count());
        assert_eq!(html.matches("<div").count(), html.matches("</div>").count());
        assert!(!html.contains("<script") && !html.contains('\u{202e}'), "{html}");
        assert!(html.contains("<span id=\"6\" class=\"bad\">Error: no</span>"), "{html}");
    }
}
