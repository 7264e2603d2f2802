//! Submodules of the commits of a mirror, recursively, from the host of the repository only.
//!
//! Their commits get into the same repository, so that a reader finds them by the ids in a tree. The
//! author of the repository writes `.gitmodules`, so it is not trusted.

use std::path::Path;

use git2::{ObjectType, Oid, Repository};

use super::super::failure::FetchError;
use super::super::login::Audience;
use super::super::url::{RepositoryUrl, Scheme};
use super::gitmodules::{self, Setting};
use super::mirror_fetch::{Wanted, obtain};
use super::submodules::MAX_DEPTH;
use super::transfer::Transfer;

/// Fetches all submodules of `commit`, which came from `url`. Returns their commits.
///
/// # Errors
/// When one of them is not allowed or cannot be fetched.
pub(super) fn fetch(
    transfer: &Transfer<'_>,
    repository: &Repository,
    url: &RepositoryUrl,
    commit: Oid,
) -> Result<Vec<Oid>, FetchError> {
    let mut submodules = Submodules { transfer, repository, root: url, commits: Vec::new() };
    submodules.fetch(url, commit, 1)?;
    Ok(submodules.commits)
}

struct Submodules<'a> {
    transfer: &'a Transfer<'a>,
    repository: &'a Repository,
    /// The repository of the mirror.
    root: &'a RepositoryUrl,
    /// All commits until now.
    commits: Vec<Oid>,
}

/// An entry of `.gitmodules`.
struct Entry {
    path: String,
    url: String,
    /// `update = none`.
    is_left_out: bool,
}

impl Submodules<'_> {
    /// Fetches the submodules of `commit`, which came from `url`.
    fn fetch(&mut self, url: &RepositoryUrl, commit: Oid, depth: usize) -> Result<(), FetchError> {
        let failed = |error| FetchError::git("read .gitmodules", &error);
        let tree = self.repository.find_commit(commit).and_then(|it| it.tree()).map_err(failed)?;
        for entry in self.entries(&tree).map_err(failed)? {
            // Git also ignores an entry of .gitmodules without a commit in the tree.
            let Ok(found) = tree.get_path(Path::new(&entry.path)) else { continue };
            if found.kind() != Some(ObjectType::Commit) {
                continue;
            }
            let path = entry.path.escape_debug().to_string();
            if depth > MAX_DEPTH {
                let reason = format!("it is nested more than {MAX_DEPTH} levels deep");
                return Err(FetchError::ForbiddenSubmodule { path, reason });
            }
            self.fetch_one(url, &entry, found.id(), depth).map_err(|error| match error {
                FetchError::ForbiddenSubmodule { .. } => error,
                source => FetchError::Submodule { path, source: Box::new(source) },
            })?;
        }
        Ok(())
    }

    fn fetch_one(
        &mut self,
        parent: &RepositoryUrl,
        entry: &Entry,
        commit: Oid,
        depth: usize,
    ) -> Result<(), FetchError> {
        let path = entry.path.escape_debug().to_string();
        let progress = self.transfer.progress;
        if entry.is_left_out {
            progress.print(&format!("The submodule `{path}` says `update = none`: left out"));
            return Ok(());
        }
        let (url, _) = RepositoryUrl::parse(&resolve(parent.as_str(), &entry.url))?;
        let is_allowed = match url.scheme {
            Scheme::File => self.root.scheme == Scheme::File,
            _ => Audience::of(self.root).includes(&url),
        };
        if !is_allowed {
            let reason = format!("`{url}` is on another host than the repository");
            return Err(FetchError::ForbiddenSubmodule { path, reason });
        }
        // An earlier commit may have the same submodule. Nothing is fetched in part.
        if self.repository.find_commit(commit).is_err() {
            progress.print(&format!("Fetching the submodule `{path}` from {url}"));
            let mut remote = self.transfer.remote(self.repository, &url)?;
            let server = self.transfer.connect(self.repository, &mut remote, &url)?;
            let wanted = Wanted::commit(commit, &server.heads);
            if obtain(self.transfer, &server, &[wanted])? != [Some(commit)] {
                let (reference, similar) = (commit.to_string(), Vec::new());
                return Err(FetchError::ReferenceNotFound { reference, similar });
            }
        }
        self.commits.push(commit);
        self.fetch(&url, commit, depth + 1)
    }

    /// The entries of `.gitmodules` in `tree`.
    fn entries(&self, tree: &git2::Tree<'_>) -> Result<Vec<Entry>, git2::Error> {
        let Some(file) = tree.get_name(".gitmodules") else { return Ok(Vec::new()) };
        if file.kind() != Some(ObjectType::Blob) {
            return Ok(Vec::new());
        }
        let content = self.repository.find_blob(file.id())?;
        let settings = gitmodules::settings(content.content())?;
        let setting = |submodule: &str, key: &str| {
            // The last one counts, as in git.
            let mut all = settings.iter().rev();
            let found = all.find(|it| it.submodule == submodule && it.key == key);
            found.map(|it| it.value.clone()).unwrap_or_default()
        };
        let mut entries = Vec::new();
        for Setting { submodule, value, .. } in settings.iter().filter(|it| it.key == "path") {
            entries.push(Entry {
                path: value.clone(),
                url: setting(submodule, "url"),
                is_left_out: setting(submodule, "update") == "none",
            });
        }
        Ok(entries)
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
