//! Submodules of the commits of a mirror, recursively, from the host of the repository only.
//!
//! Their commits get into the same repository, so that a reader finds them by the ids in a tree. The
//! author of the repository writes `.gitmodules`, so it is not trusted.

use git2::{Oid, Repository};

use super::super::failure::FetchError;
use super::super::history::has_files;
use super::super::login::Audience;
use super::super::url::{RepositoryUrl, Scheme};
use super::depth::Depth;
use super::mirror_fetch::{Wanted, obtain};
use super::mirror_store;
use super::transfer::Transfer;
use crate::gitmodules::{self, Submodule};
use crate::reach::{MOST_NESTED, below};

/// The submodules of a commit.
#[derive(Default)]
pub(super) struct Submodules {
    /// The commits of those that are in the mirror.
    pub(super) commits: Vec<Oid>,
    /// Those that are wanted and are not there, by their paths.
    pub(super) failures: Vec<(String, FetchError)>,
}

/// Fetches those submodules of `commit` that are not there and are wanted, by their paths. The commit came from `url`.
///
/// # Errors
/// When `.gitmodules` or the mirror cannot be read.
pub(super) fn fetch(
    transfer: &Transfer<'_>,
    repository: &Repository,
    url: &RepositoryUrl,
    commit: Oid,
    is_wanted: &dyn Fn(&str) -> bool,
) -> Result<Submodules, FetchError> {
    let fetch = Fetch { transfer, repository, root: url, is_wanted };
    let mut found = Submodules::default();
    fetch.all(&mut found, (url, ""), commit, 1)?;
    Ok(found)
}

struct Fetch<'a> {
    transfer: &'a Transfer<'a>,
    repository: &'a Repository,
    /// The repository of the mirror.
    root: &'a RepositoryUrl,
    is_wanted: &'a dyn Fn(&str) -> bool,
}

impl Fetch<'_> {
    /// Looks at the submodules of `commit`, which is in `directory` and came from `url`.
    fn all(
        &self,
        found: &mut Submodules,
        (url, directory): (&RepositoryUrl, &str),
        commit: Oid,
        depth: usize,
    ) -> Result<(), FetchError> {
        let failed = |error| FetchError::git("read .gitmodules", &error);
        let tree = self.repository.find_commit(commit).and_then(|it| it.tree()).map_err(failed)?;
        for submodule in gitmodules::submodules(self.repository, &tree).map_err(failed)? {
            let path = below(directory, &submodule.path);
            // An earlier commit may have the same submodule. Nothing is fetched in part.
            let is_there = has_files(self.repository, submodule.commit);
            if !is_there && (submodule.is_left_out || !(self.is_wanted)(&path)) {
                continue;
            }
            match self.one(url, &submodule, &path, is_there, depth) {
                Ok(url) => {
                    found.commits.push(submodule.commit);
                    self.all(found, (&url, &path), submodule.commit, depth + 1)?;
                }
                Err(error) if (self.is_wanted)(&path) => found.failures.push((path, error)),
                Err(_) => {}
            }
        }
        Ok(())
    }

    /// Fetches a submodule, unless it is there. Returns its address.
    fn one(
        &self,
        parent: &RepositoryUrl,
        submodule: &Submodule,
        path: &str,
        is_there: bool,
        depth: usize,
    ) -> Result<RepositoryUrl, FetchError> {
        let path = path.escape_debug().to_string();
        if depth > MOST_NESTED {
            let reason = format!("it is nested more than {MOST_NESTED} levels deep");
            return Err(FetchError::ForbiddenSubmodule { path, reason });
        }
        let (url, _) = RepositoryUrl::parse(&resolve(parent.as_str(), &submodule.url))?;
        if is_there {
            return Ok(url);
        }
        let is_allowed = match url.scheme {
            Scheme::File => self.root.scheme == Scheme::File,
            _ => Audience::of(self.root).includes(&url),
        };
        if !is_allowed {
            let reason = format!("`{url}` is on another host than the repository");
            return Err(FetchError::ForbiddenSubmodule { path, reason });
        }
        mirror_store::remove_leftovers(self.repository)?;
        self.transfer.progress.print(&format!("Fetching the submodule `{path}` from {url}"));
        let mut remote = self.transfer.remote(self.repository, &url)?;
        let server = self.transfer.connect(self.repository, &mut remote, &url)?;
        let wanted = Wanted::commit(submodule.commit, &server.heads);
        if obtain(self.transfer, &server, &[wanted], Depth::ONE)? != [Some(submodule.commit)] {
            let reference = submodule.commit.to_string();
            return Err(FetchError::ReferenceNotFound { reference, similar: Vec::new() });
        }
        Ok(url.clone())
    }
}

/// The address of a submodule. One that begins with `./` or `../` is relative to that of its parent
/// (git-submodule(1)).
fn resolve(parent: &str, written: &str) -> String {
    if !written.starts_with("./") && !written.starts_with("../") {
        return written.to_owned();
    }
    let (mut base, mut separator) = (parent.trim_end_matches('/'), '/');
    let mut rest = written;
    loop {
        if let Some(next) = rest.strip_prefix("./") {
            rest = next;
        } else if let Some(next) = rest.strip_prefix("../") {
            rest = next;
            let cut = base.rfind(['/', ':']).unwrap_or(0);
            separator = if base[cut..].starts_with(':') { ':' } else { '/' };
            base = &base[..cut];
        } else {
            return format!("{base}{separator}{rest}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_addresses_are_resolved_against_the_parent() {
        for (parent, written, expected) in [
            ("https://h/team/a.git", "../b.git", "https://h/team/b.git"),
            ("https://h/team/a.git/", "../../other/b", "https://h/other/b"),
            ("https://h/team/a", "./b", "https://h/team/a/b"),
            ("https://h/a", "https://h/b", "https://h/b"),
            ("git@h:team/a", "../b", "git@h:team/b"),
            ("git@h:a", "../b", "git@h:b"),
            ("file:///srv/a", "../b", "file:///srv/b"),
        ] {
            assert_eq!(resolve(parent, written), expected);
        }
    }

    #[test]
    fn relative_address_cannot_name_another_host() {
        for written in ["../../evil.org/b", "../../../evil.org/b", "../../../../b"] {
            let resolved = resolve("https://h/a", written);
            let url = RepositoryUrl::parse(&resolved).map(|(url, _)| url);
            let root = RepositoryUrl::parse("https://h/a").unwrap().0;
            assert!(
                !url.is_ok_and(|url| Audience::of(&root).includes(&url)),
                "{written}: {resolved}"
            );
        }
    }
}
