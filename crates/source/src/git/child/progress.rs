//! Progress lines of the child process.

use std::cell::RefCell;
use std::io::Write;

/// Writes progress lines to standard error, which the parent forwards to the log.
pub(super) struct Progress(RefCell<Box<dyn Write>>);

impl Progress {
    pub(super) fn new(output: impl Write + 'static) -> Self {
        Self(RefCell::new(Box::new(output)))
    }

    pub(super) fn print(&self, text: &str) {
        // If the parent has closed the pipe, it is about to end this process.
        let _ = writeln!(self.0.borrow_mut(), "{text}");
    }
}
