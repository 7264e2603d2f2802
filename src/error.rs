//! How errors read: what failed, on what, and what to do next.
//!
//! Each module has its own `thiserror` enum. Its message says what failed; [`Advice`] says what to
//! do about it, apart from the message, so that the edge can print the two on lines of their own.

use std::error::Error;

/// An error that knows what its reader can do next.
pub trait Advice: Error {
    /// One line of advice, where there is any; a fragment without a full stop.
    fn advice(&self) -> Option<String> {
        None
    }
}

/// The message of `error` and of everything below it, joined by `: `, each said once.
///
/// Some libraries repeat their source in their own message; a repeated part is left out.
#[must_use]
pub fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let message = cause.to_string();
        if !text.contains(&message) {
            text.push_str(": ");
            text.push_str(&message);
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("outer on `a`")]
    struct Outer(#[source] Inner);

    #[derive(Debug, thiserror::Error)]
    #[error("inner")]
    struct Inner(#[source] std::io::Error);

    #[test]
    fn chain_names_every_cause_once() {
        let error = Outer(Inner(std::io::Error::other("inner")));
        assert_eq!(chain(&error), "outer on `a`: inner");
    }
}
