//! Which known name was probably meant by one that is not known, for "did you mean".
//!
//! A name is near when few letters have to change, or when it was only begun. Where nothing is
//! near there is no suggestion: a wrong one costs more time than none.

/// How many letters of a name have to be there for the rest of it to be guessed.
const SHORTEST_BEGINNING: usize = 2;

/// No name is longer; what is compared is bounded by it.
const LONGEST: usize = 80;

/// The one of `names` that `typed` is probably meant to be. Case does not count.
pub fn closest<'a>(typed: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let typed: String = typed.chars().take(LONGEST).flat_map(char::to_lowercase).collect();
    let rank = |name: &str| {
        let name = name.to_lowercase();
        let distance = strsim::damerau_levenshtein(&typed, &name);
        let is_begun = typed.len() >= SHORTEST_BEGINNING && name.starts_with(&typed);
        // A third of the letters: `man` is not near to `plan`, `instal` is near to `install`.
        (is_begun || distance <= name.len() / 3).then_some((!is_begun, distance))
    };
    let near = names.into_iter().filter_map(|name| Some((rank(name)?, name)));
    near.min().map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_name_is_the_one_that_was_meant() {
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
