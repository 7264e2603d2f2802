//! Redacts lines one after the other, and secrets that continue in the next line.

use std::ops::Range;

use super::patterns::merged;
use super::redactor::{Redactor, replaced};

/// The most bytes of lines that are held back. A secret is shorter, unless its line breaks consist of
/// much white space.
const MOST_HELD: usize = 256 * 1024;

/// Text that is shown piece by piece.
#[derive(Debug, Default)]
pub(super) struct HeldText {
    pub(super) text: Vec<u8>,
    /// The parts of the text that are known to belong to secrets, in ascending order: the secret may
    /// have begun in a piece that was shown.
    hidden: Vec<Range<usize>>,
}

impl HeldText {
    /// How many bytes of the first `length`, which end with a line feed, can be shown.
    pub(super) fn showable_lines(&self, redactor: &Redactor, length: usize) -> usize {
        let end = redactor.continued(&self.text[..length]);
        if length - end > MOST_HELD { length } else { end }
    }

    /// Removes the first `length` bytes. Also returns the parts of them that belong to secrets.
    pub(super) fn take(
        &mut self,
        redactor: &Redactor,
        length: usize,
    ) -> (Vec<u8>, Vec<Range<usize>>) {
        let mut hidden = std::mem::take(&mut self.hidden);
        hidden.extend(redactor.covered(&self.text));
        let hidden = merged(hidden);
        let behind = hidden.iter().filter(|range| range.end > length);
        let behind = behind.map(|range| range.start.max(length) - length..range.end - length);
        self.hidden = behind.collect();
        let rest = self.text.split_off(length);
        let shown = std::mem::replace(&mut self.text, rest);
        (shown, within(&hidden, 0..length).collect())
    }
}

/// The parts of `ranges` in `part`, relative to it.
fn within(ranges: &[Range<usize>], part: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let first = ranges.partition_point(|range| range.end <= part.start);
    ranges[first..].iter().take_while(move |range| range.start < part.end).map(move |range| {
        range.start.max(part.start) - part.start..range.end.min(part.end) - part.start
    })
}

/// Lines that end with the beginning of a secret, which may continue in the next line of the same
/// output. A line that does not is shown at once.
#[derive(Debug, Default)]
pub struct LineRedactor(HeldText);

impl LineRedactor {
    /// Adds the next line, without its line feed. Calls `show` with each redacted line that cannot
    /// be the beginning of a secret any more, in order.
    pub fn push(&mut self, redactor: &Redactor, line: &[u8], mut show: impl FnMut(&str)) {
        let held = &mut self.0;
        if held.text.is_empty() && !redactor.continues(line) {
            return show(&redactor.redact(line));
        }
        held.text.extend_from_slice(line);
        held.text.push(b'\n');
        let end = held.showable_lines(redactor, held.text.len());
        let end = if end == held.text.len() { end } else { start_of_line(&held.text, end) };
        self.show(redactor, end, show);
    }

    /// Shows the held lines: the output has ended.
    pub fn flush(&mut self, redactor: &Redactor, show: impl FnMut(&str)) {
        self.show(redactor, self.0.text.len(), show);
    }

    /// How many bytes of the incomplete line `pending`, which follows the pushed ones, can be shown.
    #[must_use]
    pub fn showable(&self, redactor: &Redactor, pending: &[u8]) -> usize {
        if self.0.text.is_empty() { redactor.showable(pending) } else { 0 }
    }

    /// Shows the lines in the first `length` bytes.
    fn show(&mut self, redactor: &Redactor, length: usize, mut show: impl FnMut(&str)) {
        if length == 0 {
            return;
        }
        let (text, hidden) = self.0.take(redactor, length);
        let mut start = 0;
        for end in memchr::memchr_iter(b'\n', &text) {
            let parts: Vec<_> = within(&hidden, start..end).collect();
            show(&replaced(&text[start..end], &parts));
            start = end + 1;
        }
    }
}

fn start_of_line(text: &[u8], position: usize) -> usize {
    memchr::memrchr(b'\n', &text[..position]).map_or(0, |line_feed| line_feed + 1)
}

#[cfg(test)]
#[path = "held_tests.rs"]
mod tests;
