//! Splits texts that are more than one path, such as commands, into words.

use super::path_text::{Part, PathText};

/// What separates words: what a shell, a list and a URL put between them.
fn separates(character: char) -> bool {
    character.is_whitespace() || "\"'`=:,;|&<>()[]{}".contains(character)
}

/// The words of a text. A part that is known only later belongs to the word that it stands in.
pub(super) fn words(text: &PathText) -> Vec<PathText> {
    let mut words = vec![PathText::default()];
    for part in &text.0 {
        let Part::Text(text) = part else {
            if let Some(word) = words.last_mut() {
                word.push(PathText(vec![part.clone()]));
            }
            continue;
        };
        for (index, piece) in text.split(separates).enumerate() {
            if index > 0 {
                words.push(PathText::default());
            }
            // The path of a URL such as `file://../a`.
            let is_new = words.last().is_none_or(|word| word.0.is_empty());
            let piece =
                if is_new && index > 0 && piece.starts_with("//") { &piece[2..] } else { piece };
            if let Some(word) = words.last_mut() {
                word.push(PathText::text(piece));
            }
        }
    }
    words.retain(|word| !word.0.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_keep_their_unknown_parts() {
        let text = PathText(vec![
            Part::Text("cd ../a && X=\"".to_owned()),
            Part::Unknown,
            Part::Text("/../b\" file://../c".to_owned()),
        ]);
        let expected = [
            PathText::text("cd"),
            PathText::text("../a"),
            PathText::text("X"),
            PathText(vec![Part::Unknown, Part::Text("/../b".to_owned())]),
            PathText::text("file"),
            PathText::text("../c"),
        ];
        assert_eq!(words(&text), expected);
    }
}
