//! Suggests the known name that is most similar to an unknown one, for "did you mean".
//!
//! A name is similar if few letters differ, or if the typed one is its beginning. If no name is
//! similar, it does not make a suggestion, because a wrong one wastes time.

/// The shortest typed beginning that can be completed.
const SHORTEST_BEGINNING: usize = 2;

/// The longest text that is compared.
const LONGEST: usize = 80;

/// The one of `names` that is most similar to `typed`. Not case-sensitive.
pub fn closest<'a>(typed: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let typed: String = typed.chars().take(LONGEST).flat_map(char::to_lowercase).collect();
    let rank = |name: &str| {
        let name = name.to_lowercase();
        let distance = strsim::damerau_levenshtein(&typed, &name);
        let is_begun = typed.len() >= SHORTEST_BEGINNING && name.starts_with(&typed);
        // A third of the letters: `man` is not similar to `plan`, `instal` is similar to `install`.
        (is_begun || distance <= name.len() / 3).then_some((!is_begun, distance))
    };
    let near = names.into_iter().filter_map(|name| Some((rank(name)?, name)));
    near.min().map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_similar_name_is_suggested() {
        let names = ["list", "install", "uninstall", "man", "gitlab-ci", "github-actions"];
        for (typed, meant) in [
            ("instal", Some("install")),
            ("unistall", Some("uninstall")),
            ("INSTALL", Some("install")),
            ("lsit", Some("list")),
            ("github", Some("github-actions")),
            ("gitlab", Some("gitlab-ci")),
            ("git", Some("gitlab-ci")),
            ("plan", None),
            ("m", None),
            ("", None),
        ] {
            assert_eq!(closest(typed, names), meant, "{typed}");
        }
    }
}
