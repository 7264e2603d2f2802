//! Finds what can be the value of an assignment in a text that cannot be parsed.
//!
//! Terraform quotes the lines of such a text in its errors. So this module prefers a text too many to
//! a text too few: what it finds is only masked.

use std::collections::HashSet;

/// The shortest text that is found, in bytes.
const SHORTEST: usize = 4;

/// The separators between a name and its value.
const SEPARATORS: [char; 2] = ['=', ':'];

/// The largest number of separators in one word that are looked at.
const MAX_PARTS: usize = 8;

const QUOTES: [char; 3] = ['"', '\'', '`'];

/// What stands right of the first `=` or `:` of each line of `text`, and each word of it. A line
/// whose beginning is not a name counts as a whole.
pub fn values<'text>(lines: impl IntoIterator<Item = &'text str>) -> HashSet<&'text str> {
    let mut found = HashSet::new();
    for line in lines {
        let value = match line.split_once(SEPARATORS) {
            Some((name, value)) if is_name(name) => value,
            _ => line,
        };
        let words = value.split(ends_word).flat_map(|word| {
            let parts = word.match_indices(SEPARATORS).take(MAX_PARTS);
            std::iter::once(word).chain(parts.map(|(at, _)| &word[at + 1..]))
        });
        let texts = [value.trim(), value.trim_matches(ends_word)].into_iter().chain(words);
        found.extend(texts.filter(|text| text.len() >= SHORTEST && !is_keyword(text)));
    }
    found
}

/// The lines of `text` that can belong to the default of a variable. They begin at the word
/// `default`, and end at a line that begins another argument or block and is not indented deeper.
pub fn lines_of_defaults(text: &str) -> impl Iterator<Item = &str> {
    let mut indentation = None;
    text.lines().filter_map(move |line| {
        let indented = line.len() - line.trim_start().len();
        if let Some(default) = value_of_default(line) {
            indentation = Some(indented);
            return Some(default);
        }
        let ends = indentation.is_some_and(|limit| indented <= limit && begins_argument(line));
        if ends {
            indentation = None;
        }
        indentation.map(|_| line)
    })
}

/// The lines of `text` that assign values to variables that are `wanted`, by the names at the
/// beginnings of lines that are not indented.
pub fn lines_of_variables(text: &str, wanted: impl Fn(&str) -> bool) -> impl Iterator<Item = &str> {
    let mut counts = true;
    text.lines().filter(move |line| {
        if !line.starts_with(char::is_whitespace)
            && let Some((name, _)) = line.split_once(SEPARATORS)
            && is_name(name)
        {
            counts = wanted(name.trim().trim_matches(QUOTES));
        }
        counts
    })
}

const fn ends_word(c: char) -> bool {
    matches!(c, '"' | '\'' | '`' | ',' | ';' | '{' | '}' | '[' | ']' | '(' | ')')
        || c.is_ascii_whitespace()
}

/// Words that are in every log.
fn is_keyword(text: &str) -> bool {
    matches!(text, "true" | "false" | "null")
}

/// Whether `text` is the left side of an assignment: a name, with or without quotes.
fn is_name(text: &str) -> bool {
    let text = text.trim().trim_start_matches(['{', ',', '[', '-']).trim();
    let text = text.strip_prefix("export ").unwrap_or(text).trim();
    let text = text.trim_matches(QUOTES);
    text.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.'))
}

/// What stands right of `default` and its separator in `line`.
fn value_of_default(line: &str) -> Option<&str> {
    line.match_indices("default").find_map(|(at, word)| {
        let before = line[..at].chars().next_back();
        let rest = line[at + word.len()..].trim_start_matches(QUOTES).trim_start();
        let rest = rest.strip_prefix(SEPARATORS)?;
        before.is_none_or(|c| !c.is_alphanumeric() && c != '_').then_some(rest)
    })
}

/// Whether `line` begins with a name that an argument or a block can have.
fn begins_argument(line: &str) -> bool {
    let line = line.trim_start().trim_start_matches(QUOTES);
    let end = line.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(line.len());
    let (name, rest) = line.split_at(end);
    let rest = rest.trim_start_matches(QUOTES).trim_start();
    !name.is_empty() && rest.starts_with(['=', ':', '{', '"'])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether `secret` is found as a whole in what the line shows right of its name.
    fn finds(text: &str, secret: &str) -> bool {
        values(text.lines()).contains(secret)
    }

    #[test]
    fn value_of_every_mistake_is_found() {
        for line in [
            "s = 'hunter2'",
            "s = \"hunter2",
            "s = hunter2\"",
            "s: hunter2",
            "s : \"hunter2\"",
            "export s=hunter2",
            "s=hunter2",
            "s := hunter2",
            "s => hunter2",
            "s == hunter2",
            "s hunter2",
            "\"s\" \"hunter2\"",
            "hunter2",
            "  \"hunter2\",",
            "a = \"x\" s = \"hunter2\"",
            "s = \"hunter2\" b = \"x\"",
            "a=x,s=hunter2",
            "{\"s\": \"hunter2\",}",
            "{\"a\": 1, \"s\": hunter2}",
            "- s: hunter2",
            "s = { password = 'hunter2' }",
            "s = [hunter2, x]",
            "s = hunter2 # why",
            "a b = hunter2",
            "s = \"hunter2\"\r",
        ] {
            assert!(finds(line, "hunter2"), "{line}: {:?}", values([line]));
        }
    }

    #[test]
    fn whole_rest_of_a_quoted_line_is_found() {
        for (line, rest) in [
            ("s = 'one two'", "'one two'"),
            ("s = \"one\" + two,", "\"one\" + two,"),
            ("\"one two\" three", "\"one two\" three"),
            ("one two = three", "one two = three"),
        ] {
            assert!(finds(line, rest), "{line}: {:?}", values([line]));
        }
    }

    #[test]
    fn names_and_words_of_every_log_are_not_found() {
        let found = values(["region = \"x\"", "flag = true", "nothing: null,", "}", "  ]", ""]);
        assert_eq!(found, HashSet::from(["null,"]));
        assert_eq!(values(["=".repeat(1 << 20).as_str()]).len(), 1 + MAX_PARTS);
    }

    #[test]
    fn lines_of_defaults_end_at_the_next_argument() {
        let text = "variable \"s\" {\n  type = string\n  default = {\n    a = 'one'\n    b = [\n'two',\n    ]\n  }\n  \
            sensitive = true\n}\nvariable \"t\" { default = three }\nresource \"default_x\" \"y\" {\n  z = \"no\"\n}\n";
        let found = values(lines_of_defaults(text));
        for secret in ["one", "two", "three"] {
            let length = secret.len();
            assert_eq!(found.contains(secret), length >= SHORTEST, "{secret}: {found:?}");
        }
        assert!(found.contains("'one'") && !found.iter().any(|text| text.contains("no")));
        let json = "{\"variable\": {\"s\": {\n  \"default\": [\n    \"hunter2\",,\n  ],\n  \"sensitive\": true\n}}}";
        let found = values(lines_of_defaults(json));
        assert!(found.contains("hunter2") && !found.contains("sensitive"), "{found:?}");
    }

    #[test]
    fn lines_of_other_variables_are_left_out() {
        let text = "a = [\n  \"one1\",\n]\nb = [\n  \"two2\",\n  a = 1\n]\n# three\n\"c\" = 4444\nd = <<X\nfive\nX\n";
        let wanted = |name: &str| matches!(name, "b" | "c");
        let lines: Vec<_> = lines_of_variables(text, wanted).collect();
        assert_eq!(lines, ["b = [", "  \"two2\",", "  a = 1", "]", "# three", "\"c\" = 4444"]);
    }
}
