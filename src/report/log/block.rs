//! Packed log lines: the same bytes in memory and in a file.
//!
//! A line takes its text and nine bytes, without an allocation of its own.

use butler_base::event::{LogLineRef, Stream};

/// Sequence (4 bytes), stream (1) and length (4), little-endian, come before each line's text.
const HEADER: usize = 9;

/// Consecutive lines.
#[derive(Debug, Default)]
pub(in crate::report) struct Block {
    bytes: Vec<u8>,
    first: u32,
    lines: usize,
}

impl Block {
    /// Restores a block that was written to a file.
    pub(in crate::report) fn restore(bytes: Vec<u8>, first: u32, lines: usize) -> Self {
        Self { bytes, first, lines }
    }

    /// Adds a line.
    pub(in crate::report) fn push(&mut self, entry: LogLineRef<'_>) {
        if self.lines == 0 {
            self.first = entry.sequence;
        }
        let length = u32::try_from(entry.content.len()).expect("a line is some MiB at most");
        let stream = match entry.stream {
            Stream::Stdout => 0,
            Stream::Stderr => 1,
        };
        self.bytes.extend_from_slice(&entry.sequence.to_le_bytes());
        self.bytes.push(stream);
        self.bytes.extend_from_slice(&length.to_le_bytes());
        self.bytes.extend_from_slice(entry.content.as_bytes());
        self.lines += 1;
    }

    /// The line at `offset`, and the offset of the next line.
    pub(in crate::report) fn entry(&self, offset: usize) -> Option<(LogLineRef<'_>, usize)> {
        let (header, rest) = self.bytes.get(offset..)?.split_at_checked(HEADER)?;
        let (sequence, header) = header.split_first_chunk()?;
        let (stream, header) = header.split_first()?;
        let length = usize::try_from(u32::from_le_bytes(*header.first_chunk()?)).ok()?;
        let entry = LogLineRef {
            sequence: u32::from_le_bytes(*sequence),
            stream: if *stream == 0 { Stream::Stdout } else { Stream::Stderr },
            content: std::str::from_utf8(rest.get(..length)?).ok()?,
        };
        Some((entry, offset + HEADER + length))
    }

    /// The lines, packed.
    pub(in crate::report) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The sequence of the first line.
    pub(in crate::report) fn first(&self) -> u32 {
        self.first
    }

    /// The number of lines.
    pub(in crate::report) fn lines(&self) -> usize {
        self.lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_lines_are_read_back_unchanged() {
        let lines =
            [(1, Stream::Stdout, "schön"), (2, Stream::Stderr, ""), (9, Stream::Stdout, "x")]
                .map(|(sequence, stream, content)| LogLineRef { sequence, stream, content });
        let mut block = Block::default();
        for line in lines {
            block.push(line);
        }
        let (mut offset, mut found) = (0, Vec::new());
        while let Some((line, next)) = block.entry(offset) {
            found.push(line);
            offset = next;
        }
        assert_eq!(found, lines);
        assert_eq!((block.first(), block.lines(), offset), (1, 3, block.bytes().len()));
    }
}
