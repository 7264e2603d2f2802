//! Splits a JSON document while it is read, so that a plan of any size needs little memory.
//!
//! `Walk` pulls: it looks at the next byte, decides whether it enters an object or array or reads the
//! next value as a whole, and calls the method for that.
//!
//! ```text
//!            read, 64 KiB at a time           peek, take, advance, end
//!  document ───────────────────────► chunk ───────────────────────────► Walk
//!                                      │ hold                             ▲
//!                                      ▼                                  │ name, value
//!                                    held ──► serde_json checks it ───────┘
//! ```
//!
//! # Guarantees
//!
//! - A name or value is returned byte for byte as it is in the document (`RawValue`), so that numbers keep
//!   their digits and strings keep their escapes.
//! - A returned name or value is valid JSON: the splitter only finds its end, then `serde_json` checks it.
//!   A name is any valid JSON value; the caller checks that it is a string.
//! - Between values the splitter itself checks brackets, commas and colons. A caller that walks until
//!   [`Splitter::end`] has checked the whole document.
//! - A value can be nested without a limit: neither this file nor the check of a `RawValue` recurses. (The
//!   deserializer of `serde_json` for readers has a depth limit and cannot continue after it.) The
//!   recursion of `Walk` has a limit of its own.
//! - A wrong document is an error of kind `InvalidData` or `UnexpectedEof`, and never a panic. After an
//!   error the position is undefined, and the splitter must be dropped.
//!
//! # States inside a value
//!
//! [`ValueEnd`] reads each byte of a value once and decides only whether the value ends there:
//!
//! | State | Byte | Next state |
//! | --- | --- | --- |
//! | start, number or word | `"` | string |
//! | | `{` `[` | nested, depth 1 |
//! | | `}` `]` `,` `:`, white space | the value ended before this byte |
//! | | any other | number or word |
//! | string | `\` | string, and the next byte has no meaning |
//! | | `"` | nested; complete if the depth is 0 |
//! | nested | `"` | string |
//! | | `{` `[` | nested, depth + 1 |
//! | | `}` `]` | nested, depth − 1; complete if the depth is 0 then |
//! | complete | any | the value ended before this byte |
//!
//! Brackets are only counted: `{]` is complete after two bytes, and `serde_json` rejects it. The state
//! continues across chunks, so a value, a string or an escape can be cut anywhere by a read.
//!
//! # Memory
//!
//! One chunk of 64 KiB, and a buffer as long as the longest name or value so far, which is reused. `Walk`
//! reads resources, outputs and module calls one by one, so that the longest value of a plan is usually one
//! resource. While the buffer grows, its old and new block exist at the same time. Both buffers contain
//! secrets in clear text; the allocator zeroes them when they are freed.
//!
//! # Back pressure
//!
//! Nothing is read ahead beyond the current chunk, and only a call reads: a slow consumer stops the reading.

use std::io::{Error, ErrorKind, Read, Result};

use serde_json::value::RawValue;

/// The size of a read.
const CHUNK: usize = 64 * 1024;

/// A JSON document that is being read.
pub(super) struct Splitter<R> {
    input: R,
    chunk: Vec<u8>,
    /// The next byte in `chunk`.
    position: usize,
    /// The end of the bytes that were read into `chunk`.
    filled: usize,
    /// The last name or value.
    held: Vec<u8>,
}

impl<R: Read> Splitter<R> {
    pub(super) fn new(input: R) -> Self {
        Self { input, chunk: vec![0; CHUNK], position: 0, filled: 0, held: Vec::new() }
    }

    /// The next byte that is not white space; it is not consumed.
    pub(super) fn peek(&mut self) -> Result<u8> {
        loop {
            if !self.available()? {
                return Err(malformed("unexpected end of the document"));
            }
            let next = self.chunk[self.position];
            if !is_space(next) {
                return Ok(next);
            }
            self.position += 1;
        }
    }

    /// Consumes `byte`, which must come next.
    pub(super) fn take(&mut self, byte: u8) -> Result<()> {
        if self.peek()? != byte {
            return Err(malformed("a bracket, comma or colon is missing"));
        }
        self.position += 1;
        Ok(())
    }

    /// Consumes the separator before the next element of an object or array, or its end. Returns
    /// whether there is a next element.
    pub(super) fn advance(&mut self, first: bool, closing: u8) -> Result<bool> {
        if self.peek()? == closing {
            self.position += 1;
            return Ok(false);
        }
        if !first {
            self.take(b',')?;
        }
        Ok(true)
    }

    /// Consumes a name and its colon.
    pub(super) fn name(&mut self) -> Result<&RawValue> {
        self.hold()?;
        self.take(b':')?;
        self.held()
    }

    /// Consumes the next value, of any depth.
    pub(super) fn value(&mut self) -> Result<&RawValue> {
        self.hold()?;
        self.held()
    }

    /// Checks that only white space is left.
    pub(super) fn end(&mut self) -> Result<()> {
        while self.available()? {
            if !is_space(self.chunk[self.position]) {
                return Err(malformed("unexpected data after the end of the document"));
            }
            self.position += 1;
        }
        Ok(())
    }

    fn held(&self) -> Result<&RawValue> {
        Ok(serde_json::from_slice(&self.held)?)
    }

    /// Reads the next value into its buffer.
    fn hold(&mut self) -> Result<()> {
        self.peek()?;
        self.held.clear();
        let mut state = ValueEnd::default();
        while self.available()? {
            let chunk = &self.chunk[self.position..self.filled];
            let end = state.find_in(chunk);
            self.held.extend_from_slice(&chunk[..end.unwrap_or(chunk.len())]);
            self.position += end.unwrap_or(chunk.len());
            if end.is_some() {
                break;
            }
        }
        Ok(())
    }

    /// Whether there is another byte.
    fn available(&mut self) -> Result<bool> {
        while self.position == self.filled {
            match self.input.read(&mut self.chunk) {
                Ok(0) => return Ok(false),
                Ok(read) => (self.position, self.filled) = (0, read),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}

/// Finds the end of a value; see the table above.
#[derive(Default)]
struct ValueEnd {
    depth: usize,
    /// Whether the next byte is inside a string.
    string: bool,
    /// Whether the next byte follows a backslash.
    escape: bool,
    /// Whether the bracket or quote that ends the value has been read.
    complete: bool,
}

impl ValueEnd {
    /// Where the value ends in `chunk`, the next bytes, if it does.
    fn find_in(&mut self, chunk: &[u8]) -> Option<usize> {
        let mut position = 0;
        while position < chunk.len() {
            if self.complete {
                return Some(position);
            }
            let rest = &chunk[position..];
            if self.string {
                position += self.read_string(rest);
            } else if self.depth > 0 {
                // Only these bytes begin a string, or open or close a value.
                let next = |byte: &u8| matches!(byte, b'"' | b'{' | b'}' | b'[' | b']');
                let Some(skipped) = rest.iter().position(next) else { break };
                self.read_byte(rest[skipped]);
                position += skipped + 1;
            } else if is_end(rest[0]) {
                return Some(position);
            } else {
                self.read_byte(rest[0]);
                position += 1;
            }
        }
        None
    }

    /// Reads a string up to and including the next quote or backslash. Returns the length of that part.
    fn read_string(&mut self, rest: &[u8]) -> usize {
        if std::mem::take(&mut self.escape) {
            return 1;
        }
        let Some(skipped) = memchr::memchr2(b'"', b'\\', rest) else { return rest.len() };
        self.escape = rest[skipped] == b'\\';
        if !self.escape {
            self.string = false;
            self.complete = self.depth == 0;
        }
        skipped + 1
    }

    /// Consumes a byte outside of strings that does not end the value before it.
    fn read_byte(&mut self, byte: u8) {
        match byte {
            b'"' => self.string = true,
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => {
                self.depth -= 1;
                self.complete = self.depth == 0;
            }
            _ => {}
        }
    }
}

/// Whether `byte` ends a number or a word before it.
const fn is_end(byte: u8) -> bool {
    matches!(byte, b'}' | b']' | b',' | b':') || is_space(byte)
}

const fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

fn malformed(problem: &str) -> Error {
    Error::new(ErrorKind::InvalidData, format!("the JSON is malformed: {problem}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns one byte for each read.
    struct SingleBytes<'a>(&'a [u8]);

    impl Read for SingleBytes<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
            self.0.read(&mut buffer[..1])
        }
    }

    #[test]
    fn values_are_returned_byte_for_byte() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        let values =
            ["1.50", "\"a\\\"]}\\\\\"", "{ \"x\" : [1, \"}\"] }", "null", "[]", "-0e1", &deep];
        let document = format!(" [ {} ] \n", values.join(" ,\n"));
        let mut splitter = Splitter::new(SingleBytes(document.as_bytes()));
        splitter.take(b'[').unwrap();
        let mut found = Vec::new();
        while splitter.advance(found.is_empty(), b']').unwrap() {
            found.push(splitter.value().unwrap().get().to_owned());
        }
        splitter.end().unwrap();
        assert_eq!(found, values);
    }

    #[test]
    fn malformed_json_is_an_error() {
        for json in ["", "\"endless", "[1", "{\"a\"}", "12\"x\"", "}", "{]"] {
            assert!(Splitter::new(json.as_bytes()).value().is_err(), "{json}");
        }
        assert!(Splitter::new(&b"1 2"[..]).end().is_err());
    }
}
