//! Compares the text of an error with the phrases of the rules. A `*` in a phrase matches any text.

/// The longest text that a `*` at the beginning of a summary matches, in bytes.
const MAX_GAP: usize = 64;

/// The longest name, in bytes. A longer text in quotes is a message.
const MAX_NAME: usize = 128;

/// Words in front of a quoted word that is not a name: it is a code, or the name of a setting.
const NOT_KINDS: [&str; 24] = [
    "a",
    "an",
    "argument",
    "attribute",
    "code",
    "environment",
    "error",
    "errors",
    "field",
    "got",
    "header",
    "message",
    "option",
    "parameter",
    "property",
    "provide",
    "reason",
    "received",
    "response",
    "returned",
    "setting",
    "status",
    "variable",
    "with",
];

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
/// expired` are the same. Hyphens stay: they are between the words of names.
pub(super) fn dense(text: &str) -> String {
    text.replace([' ', '_', '.'], "")
}

/// Whether `text`, which is dense, contains `phrase`, whatever is between its words.
pub(super) fn says(text: &str, phrase: &str) -> bool {
    contains(text, &dense(phrase))
}

/// Whether `text`, which is dense, contains one of `phrases`.
pub(super) fn says_any(text: &str, phrases: &[&str]) -> bool {
    phrases.iter().any(|phrase| says(text, phrase))
}

/// Whether `text` begins with `phrase`, whose `*` only matches a short text: the words behind a summary can be
/// those of a server.
pub(super) fn begins(text: &str, phrase: &str) -> bool {
    let Some((first, second)) = phrase.split_once('*') else { return text.starts_with(phrase) };
    text.strip_prefix(first)
        .and_then(|behind| behind.find(second))
        .is_some_and(|gap| gap <= MAX_GAP)
}

/// `text`, which is normalised, without the names of things. A name can consist of any words, such as those of
/// `bucket "rate-limit"` and `creating Lambda Function (access-denied): `.
pub(super) fn without_names(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['"', '\'', '`']) {
        let (before, quoted) = rest.split_at(at);
        kept.push_str(before);
        let (quote, behind) = quoted.split_at(1);
        let inner = behind.split_once(quote).map(|(inner, _)| inner);
        let word = inner.filter(|it| !it.is_empty() && !it.contains(' ') && it.len() <= MAX_NAME);
        kept.push_str(quote);
        rest = match word {
            Some(word) if is_in_front_of_name(before) => {
                let is_address = word.contains("://");
                kept.push_str(if is_address { word } else { "" });
                kept.push_str(quote);
                &behind[word.len() + 1..]
            }
            _ => behind,
        };
    }
    kept.push_str(rest);
    without_identifier(&kept)
}

/// Whether a quoted word behind `before` is a name: it follows its kind, or `name: `.
fn is_in_front_of_name(before: &str) -> bool {
    let Some(before) = before.strip_suffix(' ') else { return false };
    let kind = before.rsplit(' ').next().unwrap_or_default();
    let is_word = !kind.is_empty() && kind.chars().all(char::is_alphabetic);
    kind == "name:" || is_word && !NOT_KINDS.contains(&kind)
}

/// Without the identifier in parentheses behind what a provider does, such as `creating Role (a): `.
fn without_identifier(text: &str) -> String {
    let is_act = text.split(' ').next().is_some_and(|word| word.ends_with("ing"));
    let parts = text.split_once(" (").and_then(|(act, rest)| {
        let (identifier, rest) = rest.split_once(')')?;
        (is_act && !identifier.contains(' ')).then(|| format!("{act} (){rest}"))
    });
    parts.unwrap_or_else(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_begins_with_a_phrase_whose_gap_is_short() {
        assert!(begins("expected length of name to be in the range", "expected * to be "));
        assert!(!begins("expected a record to not be", "expected * to be "));
        assert!(!begins("not expected name to be", "expected * to be "));
        let long = format!("expected http response code {} but the size to be 1", "x".repeat(60));
        assert!(!begins(&long, "expected * to be "));
    }

    #[test]
    fn names_are_removed_and_codes_stay() {
        for (text, kept) in [
            ("bucket \"rate-limit\" is invalid", "bucket \"\" is invalid"),
            ("virtual network name: \"throttled\")", "virtual network name: \"\")"),
            ("the resource 'a/token-expired' exists", "the resource '' exists"),
            ("creating iam role (access-denied): 400", "creating iam role (): 400"),
            ("get \"https://a/denied\": eof", "get \"https://a/denied\": eof"),
            ("status=403 code=\"forbidden\"", "status=403 code=\"forbidden\""),
            ("{\"errors\":[\"forbidden\"]}", "{\"errors\":[\"forbidden\"]}"),
            ("unable to log in (unauthorized)", "unable to log in (unauthorized)"),
            ("argument \"token\" is not set", "argument \"token\" is not set"),
            ("you don't have access, it isn't yours", "you don't have access, it isn't yours"),
            ("a message \"of many words\" and 'x", "a message \"of many words\" and 'x"),
            ("", ""),
        ] {
            assert_eq!(without_names(text), kept);
        }
    }
}
