//! Resolves a reference against the references that the server advertises.
//!
//! The order is a full commit id, a full name `refs/…`, then a branch, then a tag, then an abbreviated commit
//! id. Git prefers the tag (gitrevisions). Here a branch is what is followed and protected, and a user who may
//! push a tag must not be able to replace it.

use git2::Oid;

/// The shortest accepted abbreviation. Git accepts 4 digits, but a typing error of so few matches another
/// commit.
const MIN_ID: usize = 7;

/// The length of a full commit id.
pub(super) const FULL_ID: usize = 40;

/// How many similar references an error names.
const MAX_SIMILAR: usize = 5;

/// The result of resolving a reference.
#[derive(Debug, Eq, PartialEq)]
pub(super) enum ResolvedReference {
    /// A reference of the server, by its full name. `hides` is a tag of the same name.
    Reference { name: String, hides: Option<String> },
    /// The object at the tip of this reference of the server.
    Tip { name: String, id: Oid },
    /// A commit that is not at the tip of a reference.
    Commit(Oid),
    /// The beginning of a commit id that is not at the tip of a reference.
    Abbreviation(String),
    /// The beginning of several commit ids.
    Ambiguous,
    /// An unknown reference, with similar names.
    Unknown { similar: Vec<String> },
}

/// Resolves `reference` on a server that advertises `heads`.
pub(super) fn resolve_reference(reference: &str, heads: &[(String, Oid)]) -> ResolvedReference {
    let exists = |name: &str| heads.iter().any(|(head, _)| head == name);
    let hexadecimal = reference.bytes().all(|byte| byte.is_ascii_hexdigit());
    // A branch with such a name must not replace a pinned commit.
    if hexadecimal && reference.len() == FULL_ID {
        return resolve_id(reference, heads);
    }
    if reference.starts_with("refs/") {
        return if exists(reference) {
            ResolvedReference::Reference { name: reference.to_owned(), hides: None }
        } else {
            ResolvedReference::Unknown { similar: similar(reference, heads) }
        };
    }
    let (tag, branch) = (format!("refs/tags/{reference}"), format!("refs/heads/{reference}"));
    match (exists(&tag), exists(&branch)) {
        (true, true) => return ResolvedReference::Reference { name: branch, hides: Some(tag) },
        (true, false) => return ResolvedReference::Reference { name: tag, hides: None },
        (false, true) => return ResolvedReference::Reference { name: branch, hides: None },
        (false, false) => {}
    }
    if hexadecimal && (MIN_ID..FULL_ID).contains(&reference.len()) {
        resolve_id(reference, heads)
    } else {
        ResolvedReference::Unknown { similar: similar(reference, heads) }
    }
}

/// What people should know if a branch and a tag have one name.
pub(super) fn hidden_sentence(used: &str, hidden: &str) -> String {
    format!("`{used}` is used; `{hidden}` has the same name")
}

/// A reference that points at the commit can be fetched from any server.
fn resolve_id(reference: &str, heads: &[(String, Oid)]) -> ResolvedReference {
    let prefix = reference.to_ascii_lowercase();
    let mut tips: Vec<&(String, Oid)> =
        heads.iter().filter(|(_, id)| id.to_string().starts_with(&prefix)).collect();
    // Branches and tags first: they have a name in the clone too.
    tips.sort_by_key(|(name, _)| {
        (!name.starts_with("refs/heads/"), !name.starts_with("refs/tags/"))
    });
    match tips.first() {
        Some((_, id)) if tips.iter().any(|(_, other)| other != id) => ResolvedReference::Ambiguous,
        // `^{}` marks the commit below an annotated tag.
        Some((name, id)) if name != "HEAD" => {
            ResolvedReference::Tip { name: name.trim_end_matches("^{}").to_owned(), id: *id }
        }
        _ => match (prefix.len(), Oid::from_str(&prefix)) {
            (FULL_ID, Ok(id)) => ResolvedReference::Commit(id),
            _ => ResolvedReference::Abbreviation(prefix),
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
            let distance = edit_distance(&wanted, &candidate);
            let close = distance * 3 <= wanted.chars().count().max(3);
            (contains || close).then_some((distance, name))
        })
        .collect();
    names.sort_unstable();
    names.dedup();
    names.into_iter().take(MAX_SIMILAR).map(|(_, name)| name.to_owned()).collect()
}

/// The Levenshtein distance.
fn edit_distance(left: &str, right: &str) -> usize {
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

    fn reference(name: &str) -> ResolvedReference {
        ResolvedReference::Reference { name: name.to_owned(), hides: None }
    }

    #[test]
    fn names_take_precedence_over_commit_ids_and_branches_over_tags() {
        assert_eq!(resolve_reference("main", &heads()), reference("refs/heads/main"));
        assert_eq!(resolve_reference("v1.2.0", &heads()), reference("refs/tags/v1.2.0"));
        assert_eq!(resolve_reference("refs/pull/7/head", &heads()), reference("refs/pull/7/head"));
        assert_eq!(resolve_reference("deadbeef", &heads()), reference("refs/heads/deadbeef"));
        assert_eq!(
            resolve_reference("both", &heads()),
            ResolvedReference::Reference {
                name: "refs/heads/both".to_owned(),
                hides: Some("refs/tags/both".to_owned())
            }
        );
        for exact in ["refs/heads/both", "refs/tags/both"] {
            assert_eq!(resolve_reference(exact, &heads()), reference(exact));
        }
    }

    #[test]
    fn commit_id_at_the_tip_of_a_reference_resolves_to_it() {
        let tip =
            |name: &str, digit| ResolvedReference::Tip { name: name.to_owned(), id: id(digit) };
        assert_eq!(resolve_reference(&"1".repeat(40), &heads()), tip("refs/heads/main", '1'));
        assert_eq!(resolve_reference("6666666", &heads()), tip("refs/tags/v1.2.0", '6'));
        let mut trap = heads();
        trap.push((format!("refs/heads/{}", "c".repeat(40)), id('d')));
        assert_eq!(resolve_reference(&"c".repeat(40), &trap), ResolvedReference::Commit(id('c')));
        assert_eq!(
            resolve_reference("abcdef0", &heads()),
            ResolvedReference::Abbreviation("abcdef0".to_owned())
        );
        assert_eq!(
            resolve_reference("ABCDEF0", &heads()),
            ResolvedReference::Abbreviation("abcdef0".to_owned())
        );
        assert_eq!(
            resolve_reference(&"a".repeat(40), &heads()),
            ResolvedReference::Commit(id('a'))
        );
        let mut twins = heads();
        twins.push((
            "refs/heads/twin".to_owned(),
            Oid::from_str(&format!("{}2", "1".repeat(39))).unwrap(),
        ));
        assert_eq!(resolve_reference("1111111", &twins), ResolvedReference::Ambiguous);
    }

    #[test]
    fn unknown_reference_lists_similar_names() {
        let unknown = |names: &[&str]| ResolvedReference::Unknown {
            similar: names.iter().map(ToString::to_string).collect(),
        };
        assert_eq!(resolve_reference("mian", &heads()), unknown(&[]));
        assert_eq!(resolve_reference("maim", &heads()), unknown(&["main"]));
        assert_eq!(resolve_reference("1.2.0", &heads()), unknown(&["v1.2.0"]));
        assert_eq!(resolve_reference("v1.2.1", &heads()), unknown(&["v1.2.0"]));
        assert_eq!(resolve_reference("HEAD", &heads()), unknown(&[]));
        assert_eq!(resolve_reference("abc123", &heads()), unknown(&[]));
    }
}
