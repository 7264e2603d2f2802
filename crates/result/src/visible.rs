//! Makes untrusted text safe to display: it cannot move a cursor, change the reading direction, or
//! hide other text.
//!
//! Escape sequences of terminals are dropped, and other invisible characters are replaced by their
//! names.

use std::borrow::Cow;
use std::fmt::Write as _;

/// `text` without terminal sequences, and with names for invisible characters. Newlines and tabs
/// remain.
#[must_use]
pub fn visible(text: &str) -> Cow<'_, str> {
    if !text.chars().any(|c| c == '\u{1b}' || is_sequence(c) || is_invisible(c)) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(character) = rest.next() {
        match character {
            '\u{1b}' => skip_sequence(&mut rest),
            '\u{9b}' => skip_parameters(&mut rest),
            '\u{9d}' | '\u{90}' | '\u{98}' | '\u{9e}' | '\u{9f}' => skip_string(&mut rest),
            character if is_invisible(character) => {
                let _ = write!(shown, "⟨U+{:04X}⟩", u32::from(character));
            }
            character => shown.push(character),
        }
    }
    Cow::Owned(shown)
}

/// Whether the character alone begins a sequence (ECMA-48, 8-bit controls).
const fn is_sequence(character: char) -> bool {
    matches!(character, '\u{90}' | '\u{98}' | '\u{9b}' | '\u{9d}'..='\u{9f}')
}

/// Controls, direction marks, and characters without width. Joiners remain: scripts and emoji need
/// them.
const fn is_invisible(character: char) -> bool {
    matches!(character,
        '\0'..='\u{8}' | '\u{b}'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{ad}' | '\u{61c}'
        | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

fn skip_sequence(rest: &mut std::str::Chars<'_>) {
    match rest.clone().next() {
        Some('[') => {
            rest.next();
            skip_parameters(rest);
        }
        Some(']' | 'P' | 'X' | '^' | '_') => {
            rest.next();
            skip_string(rest);
        }
        // The bytes between the escape and the last character of a short sequence.
        Some(' '..='/') => {
            rest.next();
            skip_sequence(rest);
        }
        Some('0'..='~') => {
            rest.next();
        }
        _ => {}
    }
}

/// Skips to the last character of a control sequence. A sequence without an end ends with its line:
/// it cannot hide more than that.
fn skip_parameters(rest: &mut std::str::Chars<'_>) {
    while let Some(' '..='?') = rest.clone().next() {
        rest.next();
    }
    if let Some('@'..='~') = rest.clone().next() {
        rest.next();
    }
}

/// Skips to the end of a title or a similar sequence. If it does not end on its line, its content
/// is shown.
fn skip_string(rest: &mut std::str::Chars<'_>) {
    let text = rest.as_str();
    let line = text.lines().next().unwrap_or_default();
    let end = ["\u{7}", "\u{1b}\\", "\u{9c}"].into_iter();
    let end = end.filter_map(|end| Some(line.find(end)? + end.len())).min();
    if let Some(end) = end {
        *rest = text[end..].chars();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_are_dropped_and_invisible_characters_are_named() {
        for (text, expected) in [
            ("plain\ttext ä 👩‍💻\n", "plain\ttext ä 👩‍💻\n"),
            ("\u{1b}[1;31mred\u{1b}[0m\u{1b}(B", "red"),
            ("\u{1b}]8;;https://x.example\u{7}link\u{1b}]8;;\u{1b}\\", "link"),
            ("\u{9b}2Jgone\u{9d}0;t\u{9c}", "gone"),
            ("\u{1b}]0;no end\nnext", "0;no end\nnext"),
            ("ab\u{202e}dc\u{2066}\r\u{8}\u{feff}", "ab⟨U+202E⟩dc⟨U+2066⟩⟨U+000D⟩⟨U+0008⟩⟨U+FEFF⟩"),
            ("\u{1b}", ""),
            ("\u{1b}[31", ""),
            ("\u{1b}[31ä", "ä"),
        ] {
            assert_eq!(visible(text), expected, "{text:?}");
        }
    }
}
