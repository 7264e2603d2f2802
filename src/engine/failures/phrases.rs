//! Compares the text of an error with the phrases of the rules. A `*` in a phrase matches any text.

/// In lower case, with one space between words: the tool breaks lines anywhere.
pub(super) fn normalised(text: &str) -> String {
    let words: Vec<_> = text.split_whitespace().collect();
    words.join(" ").to_lowercase()
}

/// Whether `text` contains the parts of `phrase` in their order.
pub(super) fn contains(text: &str, phrase: &str) -> bool {
    let mut rest = text;
    phrase.split('*').map(str::trim).all(|part| match rest.split_once(part) {
        Some((_, behind)) => {
            rest = behind;
            true
        }
        None => false,
    })
}

/// Without the characters that codes and sentences put between words: `token_expired`, `TokenExpired` and `token
/// expired` are the same.
pub(super) fn dense(text: &str) -> String {
    text.replace([' ', '_', '-', '.'], "")
}

/// Whether `text`, which is dense, contains `phrase`, whatever is between its words.
pub(super) fn says(text: &str, phrase: &str) -> bool {
    contains(text, &dense(phrase))
}

/// Whether `text`, which is dense, contains one of `phrases`.
pub(super) fn says_any(text: &str, phrases: &[&str]) -> bool {
    phrases.iter().any(|phrase| says(text, phrase))
}

/// Whether `text` begins with `phrase`.
pub(super) fn begins(text: &str, phrase: &str) -> bool {
    let first = phrase.split('*').next().unwrap_or_default();
    text.starts_with(first) && contains(text, phrase)
}
