//! Addresses of repositories.

use crate::mirror::join;

/// The address as a server takes it: `user@host:path` becomes `ssh://user@host/path`.
pub(super) fn repository_url(text: &str) -> String {
    let is_url = text.contains("://");
    match text.split_once(':') {
        Some((host, path)) if !is_url && !host.contains('/') => {
            format!("ssh://{host}/{}", path.trim_start_matches('/'))
        }
        _ => text.to_owned(),
    }
}

/// The last part of the address without `.git`, as a name.
pub(super) fn repository_name(url: &str) -> String {
    let last = url.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    valid_name(last.strip_suffix(".git").unwrap_or(last))
}

/// A name with the characters that layers and repositories can have.
pub(super) fn valid_name(text: &str) -> String {
    let valid = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let name: String = text.chars().map(|c| if valid(c) { c } else { '-' }).take(200).collect();
    if matches!(&*name, "" | "." | "..") { "imported".to_owned() } else { name }
}

/// The directory or glob `path`, which begins in the directory `base` of the repository; `None` if it leads out of
/// the repository.
pub(super) fn in_repository(base: &str, path: &str) -> Option<String> {
    let base = if path.starts_with('/') { "" } else { base };
    join(&join("", base)?, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_names_are_those_of_a_server() {
        for (text, url, name) in [
            ("git@github.com:acme/infra.git", "ssh://git@github.com/acme/infra.git", "infra"),
            ("git@host:/srv/infra", "ssh://git@host/srv/infra", "infra"),
            ("https://github.com/acme/infra", "https://github.com/acme/infra", "infra"),
            ("ssh://git@host:22/a/b c.git/", "ssh://git@host:22/a/b c.git/", "b-c"),
        ] {
            assert_eq!((&*repository_url(text), &*repository_name(url)), (url, name));
        }
        assert_eq!(valid_name(".."), "imported");
    }

    #[test]
    fn paths_begin_in_the_directory_of_the_layer() {
        for (base, path, expected) in [
            ("envs/dev", "../../modules/*.tf", Some("modules/*.tf")),
            ("envs/dev", "./x", Some("envs/dev/x")),
            ("envs/dev", "/modules/a", Some("modules/a")),
            ("", "a/b/", Some("a/b")),
            ("envs", "../../x", None),
        ] {
            assert_eq!(in_repository(base, path).as_deref(), expected, "{path}");
        }
    }
}
