//! Renders the log of the page, line by line.

use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt::{Display, Formatter};
use std::io::{Error, Result};

use crate::LogCopy;
use crate::visible::visible;
use askama::filters::{Html, escape};
use butler_base::event::{LogLineRef, Stream};

/// How many lines a browser renders at once.
const CHUNK: usize = 100;

/// The lines of a log as HTML. They can be written once.
pub(super) struct LogLines {
    copy: RefCell<Option<LogCopy>>,
    outcome: RefCell<Result<()>>,
}

impl LogLines {
    pub(super) const fn new(copy: Option<LogCopy>) -> Self {
        Self { copy: RefCell::new(copy), outcome: RefCell::new(Ok(())) }
    }

    /// Whether the whole log could be read.
    pub(super) fn outcome(self) -> Result<()> {
        self.outcome.into_inner()
    }
}

impl Display for LogLines {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> std::fmt::Result {
        let Some(mut copy) = self.copy.take() else { return Ok(()) };
        let (mut in_chunk, mut last) = (0, 0);
        let read = copy.each(|line| {
            write_line(formatter, &line, &mut in_chunk, &mut last).map_err(Error::other)
        });
        if in_chunk > 0 {
            formatter.write_str("</div>")?;
        }
        *self.outcome.borrow_mut() = read;
        Ok(())
    }
}

fn write_line(
    formatter: &mut Formatter<'_>,
    line: &LogLineRef<'_>,
    in_chunk: &mut usize,
    last: &mut u32,
) -> std::fmt::Result {
    let missing = line.sequence.saturating_sub(*last + 1);
    let is_full = *in_chunk == CHUNK || missing > 0;
    if *in_chunk > 0 && is_full {
        formatter.write_str("</div>")?;
        *in_chunk = 0;
    }
    if missing > 0 {
        write!(
            formatter,
            "<p class=\"gap\">… {missing} lines omitted: the log is too long for this page</p>"
        )?;
    }
    if *in_chunk == 0 {
        formatter.write_str("<div class=\"chunk\">")?;
    }
    (*in_chunk, *last) = (*in_chunk + 1, line.sequence);
    formatter.write_str(&log_line(line))
}

/// A line as HTML: an element whose id is the line's number.
#[must_use]
pub fn log_line(line: &LogLineRef<'_>) -> String {
    let (content, style) = shown_line(line);
    let Ok(escaped) = escape(&*content, Html);
    let class = if style.is_empty() { String::new() } else { format!(" class=\"{style}\"") };
    format!("<span id=\"{}\"{class}>{escaped}</span>", line.sequence)
}

/// The text of a line without invisible characters, and the name of its style, which may be empty.
#[must_use]
pub fn shown_line<'text>(line: &LogLineRef<'text>) -> (Cow<'text, str>, &'static str) {
    (visible(line.content), style(line))
}

/// The style of a line; only a line that begins with the word counts as an error or warning.
fn style(line: &LogLineRef<'_>) -> &'static str {
    let text = line.content.trim_start_matches(['│', '╷', ' ']);
    match text {
        text if text.starts_with("Error: ") => "bad",
        text if text.starts_with("Warning: ") => "warn",
        _ if line.stream == Stream::Stderr => "e",
        _ => "",
    }
}
