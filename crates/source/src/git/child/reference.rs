//! Resolves a reference against the references that the server advertises.
//!
//! The order is git's own (gitrevisions): a full commit id, a full name `refs/…`, then a tag, then a
//! branch, then an abbreviated commit id.

use git2::Oid;

/// Git takes no abbreviation that is shorter than 4; below 7 a typing error finds something.
const SHORTEST_ID: usize = 7;

/// A full commit id.
const FULL_ID: usize = 40;

/// How many similar references an error names.
const SIMILAR: usize = 5;

/// What a reference turned out to be.
#[derive(Debug, Eq, PartialEq)]
pub(super) enum Meaning {
    /// A reference of the server's, by its full name.
    Reference { name: String, hides: Option<String> },
    /// The object at the tip of this reference of the server's.
    Tip { name: String, id: Oid },
    /// A commit that no reference of the server's points at.
    Commit(Oid),
    /// The beginning of a commit id that no reference of the server's points at.
    Abbreviation(String),
    /// The beginning of several.
    Ambiguous,
    /// Nothing; these look alike.
    Unknown { similar: Vec<String> },
}

/// Finds out what `reference` means where the server advertises `heads`.
pub(super) fn meaning(reference: &str, heads: &[(String, Oid)]) -> Meaning {
    let exists = |name: &str| heads.iter().any(|(head, _)| head == name);
    let hexadecimal = reference.bytes().all(|byte| byte.is_ascii_hexdigit());
    // A branch with such a name must not replace a pinned commit.
    if hexadecimal && reference.len() == FULL_ID {
        return by_id(reference, heads);
    }
    if reference.starts_with("refs/") {
        return if exists(reference) {
            Meaning::Reference { name: reference.to_owned(), hides: None }
        } else {
            Meaning::Unknown { similar: similar(reference, heads) }
        };
    }
    let (tag, branch) = (format!("refs/tags/{reference}"), format!("refs/heads/{reference}"));
    match (exists(&tag), exists(&branch)) {
        (true, true) => return Meaning::Reference { name: tag, hides: Some(branch) },
        (true, false) => return Meaning::Reference { name: tag, hides: None },
        (false, true) => return Meaning::Reference { name: branch, hides: None },
        (false, false) => {}
    }
    if hexadecimal && (SHORTEST_ID..FULL_ID).contains(&reference.len()) {
        by_id(reference, heads)
    } else {
        Meaning::Unknown { similar: similar(reference, heads) }
    }
}

/// A reference that points at the commit can be fetched from any server.
fn by_id(reference: &str, heads: &[(String, Oid)]) -> Meaning {
    let prefix = reference.to_ascii_lowercase();
    let mut tips: Vec<&(String, Oid)> =
        heads.iter().filter(|(_, id)| id.to_string().starts_with(&prefix)).collect();
    // Branches and tags first: they have a name in the clone too.
    tips.sort_by_key(|(name, _)| {
        (!name.starts_with("refs/heads/"), !name.starts_with("refs/tags/"))
    });
    match tips.first() {
        Some((_, id)) if tips.iter().any(|(_, other)| other != id) => Meaning::Ambiguous,
        // `^{}` marks the commit below an annotated tag.
        Some((name, id)) if name != "HEAD" => {
            Meaning::Tip { name: name.trim_end_matches("^{}").to_owned(), id: *id }
        }
        _ => match (prefix.len(), Oid::from_str(&prefix)) {
            (FULL_ID, Ok(id)) => Meaning::Commit(id),
            _ => Meaning::Abbreviation(prefix),
        },
    }
}

/// Up to five names that resemble `reference`, the most similar first.
pub(super) fn similar(reference: &str, heads: &[(String, Oid)]) -> Vec<String> {
    let wanted = reference.to_lowercase();
    let mut names: Vec<(usize, &str)> = heads
        .iter()
        .filter(|(name, _)| !name.ends_with("^{}"))
        .filter_map(|(name, _)| {
            if reference.starts_with("refs/") {
                return Some(name.as_str());
            }
            name.strip_prefix("refs/heads/").or_else(|| name.strip_prefix("refs/tags/"))
        })
        .filter_map(|name| {
            let candidate = name.to_lowercase();
            let contains = candidate.contains(&wanted) || wanted.contains(&candidate);
            let distance = distance(&wanted, &candidate);
            let close = distance * 3 <= wanted.chars().count().max(3);
            (contains || close).then_some((distance, name))
        })
        .collect();
    names.sort_unstable();
    names.dedup();
    names.into_iter().take(SIMILAR).map(|(_, name)| name.to_owned()).collect()
}

/// Levenshtein's distance.
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (line, character) in left.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], line + 1);
        for (column, other) in right.iter().enumerate() {
            let replaced = diagonal + usize::from(character != *other);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(row[column] + 1).min(diagonal + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(digit: char) -> Oid {
        Oid::from_str(&digit.to_string().repeat(40)).unwrap()
    }

    fn heads() -> Vec<(String, Oid)> {
        [
            ("HEAD", '1'),
            ("refs/heads/main", '1'),
            ("refs/heads/both", '2'),
            ("refs/heads/deadbeef", '3'),
            ("refs/tags/both", '4'),
            ("refs/tags/v1.2.0", '5'),
            ("refs/tags/v1.2.0^{}", '6'),
            ("refs/pull/7/head", '7'),
        ]
        .map(|(name, digit)| (name.to_owned(), id(digit)))
        .to_vec()
    }

    fn reference(name: &str) -> Meaning {
        Meaning::Reference { name: name.to_owned(), hides: None }
    }

    #[test]
    fn names_take_precedence_over_commit_ids_and_tags_over_branches() {
        assert_eq!(meaning("main", &heads()), reference("refs/heads/main"));
        assert_eq!(meaning("v1.2.0", &heads()), reference("refs/tags/v1.2.0"));
        assert_eq!(meaning("refs/pull/7/head", &heads()), reference("refs/pull/7/head"));
        assert_eq!(meaning("deadbeef", &heads()), reference("refs/heads/deadbeef"));
        assert_eq!(
            meaning("both", &heads()),
            Meaning::Reference {
                name: "refs/tags/both".to_owned(),
                hides: Some("refs/heads/both".to_owned())
            }
        );
    }

    #[test]
    fn commit_id_at_the_tip_of_a_reference_resolves_to_it() {
        let tip = |name: &str, digit| Meaning::Tip { name: name.to_owned(), id: id(digit) };
        assert_eq!(meaning(&"1".repeat(40), &heads()), tip("refs/heads/main", '1'));
        assert_eq!(meaning("6666666", &heads()), tip("refs/tags/v1.2.0", '6'));
        let mut trap = heads();
        trap.push((format!("refs/heads/{}", "c".repeat(40)), id('d')));
        assert_eq!(meaning(&"c".repeat(40), &trap), Meaning::Commit(id('c')));
        assert_eq!(meaning("abcdef0", &heads()), Meaning::Abbreviation("abcdef0".to_owned()));
        assert_eq!(meaning("ABCDEF0", &heads()), Meaning::Abbreviation("abcdef0".to_owned()));
        assert_eq!(meaning(&"a".repeat(40), &heads()), Meaning::Commit(id('a')));
        let mut twins = heads();
        twins.push((
            "refs/heads/twin".to_owned(),
            Oid::from_str(&format!("{}2", "1".repeat(39))).unwrap(),
        ));
        assert_eq!(meaning("1111111", &twins), Meaning::Ambiguous);
    }

    #[test]
    fn unknown_reference_lists_similar_names() {
        let unknown = |names: &[&str]| Meaning::Unknown {
            similar: names.iter().map(ToString::to_string).collect(),
        };
        assert_eq!(meaning("mian", &heads()), unknown(&[]));
        assert_eq!(meaning("maim", &heads()), unknown(&["main"]));
        assert_eq!(meaning("1.2.0", &heads()), unknown(&["v1.2.0"]));
        assert_eq!(meaning("v1.2.1", &heads()), unknown(&["v1.2.0"]));
        assert_eq!(meaning("HEAD", &heads()), unknown(&[]));
        assert_eq!(meaning("abc123", &heads()), unknown(&[]));
    }
}
