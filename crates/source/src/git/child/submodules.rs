//! Fetches submodules recursively: each from its own server, with the credentials of that server.
//!
//! The author of the module writes `.gitmodules`, so it is not trusted: it may name only remote URLs
//! (and file URLs if the module has one), and only paths inside the clone.

use std::path::{Component, Path};

use git2::{Repository, Submodule, SubmoduleUpdate};

use super::super::failure::FetchError;
use super::super::url::{RepositoryUrl, Scheme};
use super::check_out::check_out;
use super::gitmodules;
use super::progress::Progress;
use super::transfer::Transfer;

/// The prefix of the address of a local repository.
const FILE: &str = "file:///";

/// The deepest accepted nesting: more is a mistake or an attack.
pub(super) const MAX_DEPTH: usize = 10;

/// Fetches and checks out all submodules of `repository`, which came from `url`.
///
/// # Errors
/// When one of them is not allowed or cannot be fetched.
pub(super) fn update(
    repository: &Repository,
    url: &RepositoryUrl,
    transfer: &Transfer<'_>,
    progress: &Progress,
) -> Result<(), FetchError> {
    Submodules { files_allowed: url.scheme == Scheme::File, transfer, progress }
        .update(repository, 1)
}

struct Submodules<'a> {
    files_allowed: bool,
    transfer: &'a Transfer<'a>,
    progress: &'a Progress,
}

impl Submodules<'_> {
    fn update(&self, repository: &Repository, depth: usize) -> Result<(), FetchError> {
        self.update_all(repository, depth)?;
        gitmodules::restore(repository)
            .map_err(|error| FetchError::git("write .gitmodules", &error))
    }

    fn update_all(&self, repository: &Repository, depth: usize) -> Result<(), FetchError> {
        let submodules =
            repository.submodules().map_err(|error| FetchError::git("read .gitmodules", &error))?;
        for mut submodule in submodules {
            let path = printable(submodule.path());
            if depth > MAX_DEPTH {
                return Err(FetchError::ForbiddenSubmodule {
                    path,
                    reason: format!("it is nested more than {MAX_DEPTH} levels deep"),
                });
            }
            self.update_one(repository, &mut submodule, depth).map_err(|error| match error {
                FetchError::ForbiddenSubmodule { .. } => error,
                source => FetchError::Submodule { path, source: Box::new(source) },
            })?;
        }
        Ok(())
    }

    fn update_one(
        &self,
        repository: &Repository,
        submodule: &mut Submodule<'_>,
        depth: usize,
    ) -> Result<(), FetchError> {
        let path = submodule.path().to_owned();
        // Git also ignores an entry of .gitmodules without a commit in the tree.
        let Some(commit) = submodule.index_id() else { return Ok(()) };
        if submodule.update_strategy() == SubmoduleUpdate::None {
            self.progress.print(&format!(
                "The submodule `{}` says `update = none`: left out",
                printable(&path)
            ));
            return Ok(());
        }
        let forbidden = |reason: &str| FetchError::ForbiddenSubmodule {
            path: printable(&path),
            reason: reason.to_owned(),
        };
        if submodule.opt_url_bytes().is_none() {
            return Err(forbidden(".gitmodules does not say where it is"));
        }
        refuse_outside(repository, &path).map_err(forbidden)?;
        let failed = |error| FetchError::git("set up the submodule", &error);
        // This resolves a relative URL against that of `origin`.
        submodule.init(true).map_err(failed)?;
        let name = submodule.name().map_err(|_| forbidden("its name is not valid UTF-8"))?;
        let setting = format!("submodule.{name}.url");
        let mut config = repository.config().map_err(failed)?;
        let mut resolved = config.get_string(&setting).map_err(failed)?;
        if is_relative_to_file(repository, submodule) && !resolved.starts_with(FILE) {
            resolved = resolved.replacen("file://", FILE, 1);
        }
        let (url, _) = RepositoryUrl::parse(&resolved)?;
        if url.scheme == Scheme::File && !self.files_allowed {
            return Err(forbidden(
                "a file URL is only allowed where the module is in a file URL too",
            ));
        }
        config.set_str(&setting, url.as_str()).map_err(failed)?;

        self.progress.print(&format!("Fetching the submodule `{}` from {url}", printable(&path)));
        let clone = submodule.repo_init(true).map_err(failed)?;
        clone.remote_set_url("origin", url.as_str()).map_err(failed)?;
        let commit = self.transfer.fetch_commit(&clone, &url, &commit.to_string())?;
        check_out(&clone, commit)?;
        self.update(&clone, depth + 1)
    }
}

/// Whether the address of `submodule` is relative to that of a local repository. libgit2 drops the first
/// slash of the path of such an address, so that a directory becomes a host.
fn is_relative_to_file(repository: &Repository, submodule: &Submodule<'_>) -> bool {
    let written = submodule.opt_url_bytes().unwrap_or_default();
    let is_relative = written.starts_with(b"./") || written.starts_with(b"../");
    is_relative
        && repository
            .find_remote("origin")
            .is_ok_and(|origin| origin.url().is_ok_and(|url| url.starts_with(FILE)))
}

/// The path for messages, because it may contain control characters.
fn printable(path: &Path) -> String {
    path.to_string_lossy().escape_debug().to_string()
}

/// Refuses a path that leads out of the working tree or through a symbolic link.
fn refuse_outside(repository: &Repository, path: &Path) -> Result<(), &'static str> {
    let mut walked = repository.workdir().ok_or("the clone has no working tree")?.to_owned();
    for component in path.components() {
        let Component::Normal(name) = component else { return Err("its path leaves the clone") };
        if name.eq_ignore_ascii_case(".git") {
            return Err("its path leads into a .git directory");
        }
        walked.push(name);
        match std::fs::symlink_metadata(&walked) {
            Ok(found) if !found.is_dir() => {
                return Err("its path leads through a file or a symbolic link");
            }
            _ => {}
        }
    }
    Ok(())
}
