//! Splits a JSON document while it is read, and buffers only the values that the caller asks for.
//!
//! A deserializer of `serde_json` that reads from a file has a limit for the depth of a document.
//! This one does not have a limit; `serde_json` checks the pieces themselves.

use std::io::{Error, ErrorKind, Read, Result};

use serde_json::value::RawValue;
use zeroize::Zeroizing;

/// The size of a read.
const CHUNK: usize = 64 * 1024;

/// A JSON document that is being read.
pub(super) struct Splitter<R> {
    input: R,
    chunk: Zeroizing<Vec<u8>>,
    position: usize,
    filled: usize,
    held: Zeroizing<Vec<u8>>,
}

impl<R: Read> Splitter<R> {
    pub(super) fn new(input: R) -> Self {
        Self {
            input,
            chunk: Zeroizing::new(vec![0; CHUNK]),
            position: 0,
            filled: 0,
            held: Zeroizing::new(Vec::new()),
        }
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
        let mut place = Inside::default();
        while self.available()? {
            let chunk = &self.chunk[self.position..self.filled];
            let end = place.end_in(chunk);
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

/// The state of the reader inside a value.
#[derive(Default)]
struct Inside {
    depth: usize,
    string: bool,
    escape: bool,
    /// Whether the bracket or quote that ends the value has been read.
    over: bool,
}

impl Inside {
    /// Where the value ends in `chunk`, the next bytes, if it does.
    fn end_in(&mut self, chunk: &[u8]) -> Option<usize> {
        let mut position = 0;
        while position < chunk.len() {
            if self.over {
                return Some(position);
            }
            let rest = &chunk[position..];
            if self.string {
                position += self.text(rest);
            } else if self.depth > 0 {
                // Only these bytes begin a string, or open or close a value.
                let next = |byte: &u8| matches!(byte, b'"' | b'{' | b'}' | b'[' | b']');
                let Some(skipped) = rest.iter().position(next) else { break };
                self.structure(rest[skipped]);
                position += skipped + 1;
            } else if is_end(rest[0]) {
                return Some(position);
            } else {
                self.structure(rest[0]);
                position += 1;
            }
        }
        None
    }

    /// Continues in a string, up to the next byte with a meaning. Returns the length of that part.
    fn text(&mut self, rest: &[u8]) -> usize {
        if std::mem::take(&mut self.escape) {
            return 1;
        }
        let Some(skipped) = memchr::memchr2(b'"', b'\\', rest) else { return rest.len() };
        self.escape = rest[skipped] == b'\\';
        if !self.escape {
            self.string = false;
            self.over = self.depth == 0;
        }
        skipped + 1
    }

    /// Consumes a byte outside of strings that does not end the value before it.
    fn structure(&mut self, byte: u8) {
        match byte {
            b'"' => self.string = true,
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => {
                self.depth -= 1;
                self.over = self.depth == 0;
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

    /// Hands out one byte at a time.
    struct Drops<'a>(&'a [u8]);

    impl Read for Drops<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
            self.0.read(&mut buffer[..1])
        }
    }

    #[test]
    fn values_come_out_as_they_were_written() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        let values =
            ["1.50", "\"a\\\"]}\\\\\"", "{ \"x\" : [1, \"}\"] }", "null", "[]", "-0e1", &deep];
        let document = format!(" [ {} ] \n", values.join(" ,\n"));
        let mut splitter = Splitter::new(Drops(document.as_bytes()));
        splitter.take(b'[').unwrap();
        let mut found = Vec::new();
        while splitter.advance(found.is_empty(), b']').unwrap() {
            found.push(splitter.value().unwrap().get().to_owned());
        }
        splitter.end().unwrap();
        assert_eq!(found, values);
    }

    #[test]
    fn what_is_no_json_is_refused() {
        for json in ["", "\"endless", "[1", "{\"a\"}", "12\"x\"", "}", "{]"] {
            assert!(Splitter::new(json.as_bytes()).value().is_err(), "{json}");
        }
        assert!(Splitter::new(&b"1 2"[..]).end().is_err());
    }
}
