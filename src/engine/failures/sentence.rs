//! Cuts the first sentence out of the detail of an error.

/// The longest sentence that is quoted, in bytes.
const MAX_SENTENCE: usize = 600;

/// What the tool puts in front of the message of a lock's backend.
const LOCK_PREFIX: &str = "Error message: ";

/// The first paragraph of `detail` in one line, without the details of a lock.
pub(super) fn first_paragraph(detail: &str) -> String {
    let lines = detail.lines().map(str::trim).skip_while(|line| line.is_empty());
    let lines = lines.take_while(|line| !line.is_empty() && *line != "Lock Info:");
    let words: Vec<_> = lines.flat_map(str::split_whitespace).collect();
    let text = words.join(" ");
    match text.strip_prefix(LOCK_PREFIX) {
        Some(message) => message.to_owned(),
        None => text,
    }
}

/// The first sentence of a paragraph, which must be redacted: it may be cut within a word. Without its full
/// stop, because a reason continues behind it. None if there is none.
pub(super) fn first_sentence(paragraph: &str) -> Option<String> {
    let mut ends = paragraph.match_indices(". ").map(|(at, _)| at);
    let end = ends.find(|at| ends_sentence(&paragraph[..*at], &paragraph[at + 2..]));
    let sentence = &paragraph[..end.unwrap_or(paragraph.len())];
    let sentence = sentence.trim_end_matches(['.', ' ', ':']);
    if sentence.len() <= MAX_SENTENCE {
        return (!sentence.is_empty()).then(|| sentence.to_owned());
    }
    let cut = &sentence[..sentence.floor_char_boundary(MAX_SENTENCE)];
    let cut = cut.rsplit_once(' ').map_or(cut, |(whole_words, _)| whole_words);
    Some(format!("{cut} …"))
}

/// Whether a full stop between these two is the end of a sentence, and not of an abbreviation.
fn ends_sentence(before: &str, after: &str) -> bool {
    let word = before.rsplit([' ', '(']).next().unwrap_or_default();
    let is_short = word.len() <= 1 || word.contains('.') && !word.contains('/') && word.len() <= 3;
    let begins = after.chars().next().is_some_and(|first| !first.is_lowercase());
    begins && !is_short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_sentence_is_one_line_without_what_follows() {
        let sentence = |detail: &str| first_sentence(&first_paragraph(detail));
        for (detail, expected) in [
            ("One thing\nfailed. Another did too.", Some("One thing failed")),
            ("\n\nOne thing failed.\n\nSee there.", Some("One thing failed")),
            (
                "Get \"http://a.b/c.json\": no such host\n",
                Some("Get \"http://a.b/c.json\": no such host"),
            ),
            (
                "Use a name, e.g. Example, i.e. this. Or not.",
                Some("Use a name, e.g. Example, i.e. this"),
            ),
            (
                "Error message: Workspace is already\nlocked: default\nLock Info:\n  ID:  x\n\nTerraform acquires",
                Some("Workspace is already locked: default"),
            ),
            ("Reason:", Some("Reason")),
            ("", None),
            ("\n \n", None),
            (".", None),
        ] {
            assert_eq!(sentence(detail).as_deref(), expected, "{detail:?}");
        }
        let long = sentence(&"wörd ".repeat(500)).unwrap();
        assert!(long.len() <= MAX_SENTENCE + 4 && long.ends_with("wörd …"), "{long}");
    }
}
