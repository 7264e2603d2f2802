//! The width of texts in columns, and short durations.

use std::borrow::Cow;
use std::time::Duration;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// The mark for text that was cut off.
const CUT: &str = "...";

/// The width of `text`, in columns.
pub(super) fn width(text: &str) -> usize {
    text.width()
}

/// The end of `text` in at most `columns` columns, because the last part of an address identifies it best.
pub(super) fn end(text: &str, columns: usize) -> Cow<'_, str> {
    if width(text) <= columns {
        return Cow::Borrowed(text);
    }
    let room = columns.saturating_sub(CUT.len());
    let mut taken = 0;
    let kept = text.char_indices().rev().take_while(|(_, letter)| {
        taken += letter.width().unwrap_or(0);
        taken <= room
    });
    let start = kept.last().map_or(text.len(), |(index, _)| index);
    Cow::Owned(format!("{}{}", &CUT[..columns.min(CUT.len())], &text[start..]))
}

/// The beginning of `text` in at most `columns` columns.
pub(super) fn beginning(text: &str, columns: usize) -> Cow<'_, str> {
    if width(text) <= columns {
        return Cow::Borrowed(text);
    }
    let room = columns.saturating_sub(CUT.len());
    let mut taken = 0;
    let kept = text.char_indices().take_while(|(_, letter)| {
        taken += letter.width().unwrap_or(0);
        taken <= room
    });
    let end = kept.last().map_or(0, |(index, letter)| index + letter.len_utf8());
    Cow::Owned(format!("{}{}", &text[..end], &CUT[..columns.min(CUT.len())]))
}

/// `text` without characters that move the cursor.
pub(super) fn printable(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).collect()
}

/// `4s`, `1m04s`, `2h05m`.
pub(super) fn time(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_by_columns_and_not_by_characters() {
        assert_eq!(end("module.a.thing.b", 16), "module.a.thing.b");
        assert_eq!(end("module.a.thing.b", 10), "...thing.b");
        assert_eq!(end("x[\"東京大阪\"]", 9), "...大阪\"]");
        assert_eq!(end("abcdef", 2), "..");
        assert_eq!(beginning("東京大阪", 7), "東京...");
        assert_eq!(beginning("abcdef", 0), "");
        assert_eq!(width("東京"), 4);
        for columns in 0..12 {
            assert!(width(&end("ä東b京c大d", columns)) <= columns);
            assert!(width(&beginning("ä東b京c大d", columns)) <= columns);
        }
    }

    #[test]
    fn durations_are_formatted_briefly() {
        let said = [0, 59, 60, 3599, 3600, 7500].map(|it| time(Duration::from_secs(it)));
        assert_eq!(said, ["0s", "59s", "1m00s", "59m59s", "1h00m", "2h05m"]);
    }
}
