//! A batch of log lines, as the body of one request (registry API, POST logs).

use std::io::Write;
use std::ops::RangeInclusive;

use bytes::Bytes;

use super::spool::Receiver;
use butler_base::event::LogLineRef;
use butler_base::event::Stream;

/// The most lines in a batch. The registry accepts 13,107: five parameters for each, of 65,535 in one SQL
/// statement.
pub(in crate::report) const MOST_LINES: usize = 10_000;

/// The largest body, in bytes; a single longer line is a batch of its own. The registry accepts 52,428,800
/// bytes, but a batch that is kept for a retry is the largest part of the log in the runner's memory.
pub(in crate::report) const LARGEST_BODY: usize = 2 * 1024 * 1024;

const OPENING: &[u8] = br#"{"logs":["#;
const CLOSING: &[u8] = b"]}";

/// An estimate of the JSON around a line's text, in bytes.
const JSON_OVERHEAD: usize = 64;

/// Log lines in their order, at least one, ready to be posted.
#[derive(Clone, Debug)]
pub struct Batch {
    body: Bytes,
    lines: Vec<LinePosition>,
}

#[derive(Clone, Copy, Debug)]
struct LinePosition {
    sequence: u32,
    /// The start of its object in the body.
    offset: usize,
}

impl Batch {
    /// Takes queued lines up to the limits; none if the queue is empty.
    pub(in crate::report) fn fill(receiver: &mut Receiver, largest_body: usize) -> Option<Self> {
        let (lines, bytes) = receiver.waiting();
        let mut body = Vec::with_capacity((bytes + lines * JSON_OVERHEAD).min(largest_body));
        body.extend_from_slice(OPENING);
        let mut lines: Vec<LinePosition> = Vec::new();
        receiver.take_while(|entry| {
            let end = body.len();
            if lines.len() == MOST_LINES {
                return false;
            }
            if !lines.is_empty() {
                body.push(b',');
            }
            let offset = body.len();
            write(&mut body, entry);
            let fits = lines.is_empty() || body.len() + CLOSING.len() <= largest_body;
            if fits {
                lines.push(LinePosition { sequence: entry.sequence, offset });
            } else {
                body.truncate(end);
            }
            fits
        });
        if lines.is_empty() {
            return None;
        }
        body.extend_from_slice(CLOSING);
        Some(Self { body: body.into(), lines })
    }

    /// A batch of one line, which replaces a line with the same number.
    pub(in crate::report) fn note(sequence: u32, content: &str) -> Self {
        let mut body = OPENING.to_vec();
        let offset = body.len();
        write(&mut body, LogLineRef { sequence, stream: Stream::Stdout, content });
        body.extend_from_slice(CLOSING);
        Self { body: body.into(), lines: vec![LinePosition { sequence, offset }] }
    }

    /// The JSON body. Every call returns the same bytes without copying them.
    #[must_use]
    pub fn body(&self) -> Bytes {
        self.body.clone()
    }

    /// The number of lines.
    #[must_use]
    pub fn lines(&self) -> usize {
        self.lines.len()
    }

    /// The numbers of the first and the last line.
    #[must_use]
    pub fn numbers(&self) -> RangeInclusive<u32> {
        let number = |line: Option<&LinePosition>| line.map_or(0, |line| line.sequence);
        number(self.lines.first())..=number(self.lines.last())
    }

    /// The lines as JSON objects.
    pub(in crate::report) fn objects(&self) -> impl Iterator<Item = &[u8]> {
        // Objects are separated by one comma.
        let ends = self.lines.iter().skip(1).map(|next| next.offset - 1);
        let ends = ends.chain([self.body.len() - CLOSING.len()]);
        self.lines.iter().zip(ends).map(|(line, end)| &self.body[line.offset..end])
    }

    /// The first and the second half; none for a single line.
    pub(in crate::report) fn halves(&self) -> Option<[Self; 2]> {
        let (first, second) = self.lines.split_at(self.lines.len() / 2);
        let (start, cut) = (first.first()?.offset, second.first()?.offset);
        let end = self.body.len() - CLOSING.len();
        // The comma between the halves belongs to neither.
        Some([self.part(first, start, cut - 1), self.part(second, cut, end)])
    }

    fn part(&self, lines: &[LinePosition], start: usize, end: usize) -> Self {
        let body = [OPENING, &self.body[start..end], CLOSING].concat();
        let moved = |line: &LinePosition| LinePosition {
            offset: line.offset - start + OPENING.len(),
            ..*line
        };
        Self { body: body.into(), lines: lines.iter().map(moved).collect() }
    }
}

/// Writes a line's object member by member, because a run can have millions of lines.
fn write(body: &mut Vec<u8>, entry: LogLineRef<'_>) {
    let LogLineRef { sequence, stream, content } = entry;
    body.extend_from_slice(br#"{"sequence":"#);
    write!(body, "{sequence}").expect("a vector takes all of it");
    body.extend_from_slice(br#","stream":""#);
    body.extend_from_slice(stream.name().as_bytes());
    body.extend_from_slice(br#"","content":"#);
    // Most lines need no escapes. This check has no early exit, so that the compiler can vectorise it.
    if content.bytes().fold(true, |plain, byte| plain & is_plain(byte)) {
        body.push(b'"');
        body.extend_from_slice(content.as_bytes());
        body.push(b'"');
    } else {
        serde_json::to_writer(&mut *body, content)
            .expect("text is always JSON, and a vector takes all of it");
    }
    body.push(b'}');
}

/// Whether a JSON string contains the byte without an escape (RFC 8259, section 7).
const fn is_plain(byte: u8) -> bool {
    !matches!(byte, 0..b' ' | b'"' | b'\\')
}

#[cfg(test)]
mod tests {
    use super::super::spool::{Sender, channel};
    use super::*;

    fn queue(lines: &[&str]) -> (Sender, Receiver) {
        let (sender, receiver) = channel(1 << 20, "/nonexistent/overflow".into());
        for (content, sequence) in lines.iter().zip(1..) {
            sender.send(LogLineRef { sequence, stream: Stream::Stderr, content });
        }
        (sender, receiver)
    }

    #[test]
    fn body_has_the_format_of_the_registry() {
        let (_sender, mut receiver) = queue(&["say \"hi\"\t\u{1b}[1m", "schön"]);
        let batch = Batch::fill(&mut receiver, LARGEST_BODY).unwrap();
        let body: serde_json::Value = serde_json::from_slice(&batch.body()).unwrap();
        assert_eq!(
            body,
            serde_json::json!({"logs": [
                {"sequence": 1, "stream": "stderr", "content": "say \"hi\"\t\u{1b}[1m"},
                {"sequence": 2, "stream": "stderr", "content": "schön"},
            ]})
        );
        assert_eq!((batch.lines(), batch.numbers()), (2, 1..=2));
        assert!(Batch::fill(&mut receiver, LARGEST_BODY).is_none());
    }

    #[test]
    fn batch_has_a_limit_in_bytes_except_for_a_single_line() {
        let long = "x".repeat(300);
        let (_sender, mut receiver) = queue(&["a", "b", &long, "c"]);
        let numbers: Vec<_> = std::iter::from_fn(|| Batch::fill(&mut receiver, 200))
            .map(|batch| {
                assert!(batch.body().len() <= 200 || batch.lines() == 1);
                batch.numbers()
            })
            .collect();
        assert_eq!(numbers, [1..=2, 3..=3, 4..=4]);
    }

    #[test]
    fn batch_has_a_limit_in_lines() {
        let lines = vec!["x"; MOST_LINES + 1];
        let (_sender, mut receiver) = queue(&lines);
        assert_eq!(Batch::fill(&mut receiver, LARGEST_BODY).unwrap().lines(), MOST_LINES);
        assert_eq!(Batch::fill(&mut receiver, LARGEST_BODY).unwrap().lines(), 1);
    }

    #[test]
    fn halves_contain_every_line_once() {
        let (_sender, mut receiver) = queue(&["a,]}", "b", "c"]);
        let whole = Batch::fill(&mut receiver, LARGEST_BODY).unwrap();
        let [first, second] = whole.halves().unwrap();
        let [third, fourth] = second.halves().unwrap();
        let content = |batch: &Batch| {
            let body: serde_json::Value = serde_json::from_slice(&batch.body()).unwrap();
            body["logs"].as_array().unwrap().clone()
        };
        let parts = [content(&first), content(&third), content(&fourth)].concat();
        assert_eq!(parts, content(&whole));
        assert_eq!([first.numbers(), third.numbers(), fourth.numbers()], [1..=1, 2..=2, 3..=3]);
        assert!(first.halves().is_none());
    }
}
