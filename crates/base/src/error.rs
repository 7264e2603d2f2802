//! The format of errors: what failed, on what, and what to do next.
//!
//! Each module has its own `thiserror` enum. Its message describes the failure. [`Advice`] is
//! separate, so that the two can be printed in separate lines.

mod certificate;
mod class;

use std::error::Error;

pub use certificate::is_about_certificate;
use certificate::message;
pub use class::FailureClass;

/// An error with advice for the user.
pub trait Advice: Error {
    /// One line of advice, if there is any; a fragment without a full stop.
    fn advice(&self) -> Option<String> {
        None
    }

    /// What kind of failure it is, if that is known.
    fn class(&self) -> Option<FailureClass> {
        None
    }
}

/// The message of `error` and of all its sources, joined by `: `.
///
/// Some libraries repeat their source in their own message; a repeated part is omitted.
#[must_use]
pub fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = message(error);
    let mut source = error.source();
    while let Some(cause) = source {
        let message = message(cause);
        if !text.contains(&message) {
            text.push_str(": ");
            text.push_str(&message);
        }
        source = cause.source();
    }
    text
}

/// User input for display: characters that could control a terminal are escaped as in source code,
/// the rest is unchanged.
pub fn visible(text: &str) -> impl Iterator<Item = char> {
    text.chars().flat_map(|character| {
        let is_plain = matches!(character, '\'' | '"' | '\\');
        let escaped = (!is_plain).then(|| character.escape_debug());
        is_plain.then_some(character).into_iter().chain(escaped.into_iter().flatten())
    })
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

    #[test]
    fn only_control_characters_are_escaped_for_display() {
        let shown = |text| visible(text).collect::<String>();
        assert_eq!(shown(r#"it's "ü" C:\x"#), r#"it's "ü" C:\x"#);
        assert_eq!(shown("a\u{1b}[2J\nb\u{202e}"), "a\\u{1b}[2J\\nb\\u{202e}");
    }
}
