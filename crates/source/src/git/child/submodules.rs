//! Fetches submodules: each from its own server, with the credentials of that server.
//!
//! The author of the module writes `.gitmodules`, so it is not trusted: it may name only remote URLs
//! (and file URLs if the module has one), and only paths inside the clone.

use std::collections::BTreeMap;
use std::path::{Component, Path};

use git2::{Oid, Repository, Submodule, SubmoduleUpdate};

use super::super::failure::FetchError;
use super::super::submodules::Submodules;
use super::super::task::CloneJob;
use super::super::url::{RepositoryUrl, Scheme};
use super::check_out::check_out;
use super::gitmodules;
use super::progress::Progress;
use super::transfer::Transfer;
use crate::reach::{
    GitTree, LayerFiles, MOST_NESTED, Needs, ParentFiles, ReferenceCache, Tree as _, TreeError,
    is_in, join, needs,
};
use butler_base::error::chain;

/// The prefix of the address of a local repository.
const FILE: &str = "file:///";

/// How many submodules that are left out a line names.
const NAMED: usize = 10;

/// Fetches and checks out the submodules of `commit`, which came from `url`, that `job` asks for. Says which ones are
/// left out.
///
/// # Errors
/// When one of them is not allowed or cannot be fetched, unless the module does not read it.
pub(super) fn update(
    repository: &Repository,
    url: &RepositoryUrl,
    commit: Oid,
    job: &CloneJob,
    transfer: &Transfer<'_>,
) -> Result<(), FetchError> {
    let files_allowed = url.scheme == Scheme::File;
    let update = Update { files_allowed, transfer, progress: transfer.progress };
    match job.submodules {
        Submodules::All => update.all(repository, 1)?,
        Submodules::Needed => update.needed(repository, commit, job)?,
        Submodules::None => {
            let absent = absent(repository, commit)?;
            let reached = match reached(repository, commit, job) {
                Ok(Some(needs)) => needs.absent.into_iter().filter(|it| it.is_required).collect(),
                _ => Vec::new(),
            };
            let why = if reached.is_empty() { "" } else { ", although the module may read them" };
            update.print_left_out(&absent, &format!("--submodules none{why}"));
        }
    }
    restore(repository)
}

/// The entries that the module of a job needs. `None` if it has no directory.
fn reached(
    repository: &Repository,
    commit: Oid,
    job: &CloneJob,
) -> Result<Option<Needs>, TreeError> {
    let tree = GitTree::of(repository, &commit.to_string())?;
    let layer = LayerFiles {
        path: &join("", &job.working_directory).unwrap_or_default(),
        values: job.values.iter().map(String::as_str).collect(),
        triggers: None,
        is_terragrunt: false,
        is_full: false,
    };
    needs(&tree, &layer, &mut ParentFiles::default(), &mut ReferenceCache::default())
}

/// The submodules that are not there.
fn absent(repository: &Repository, commit: Oid) -> Result<Vec<String>, FetchError> {
    let tree = GitTree::of(repository, &commit.to_string());
    tree.and_then(|tree| tree.absent()).map_err(|error| FetchError::Git {
        act: "find the submodules".to_owned(),
        reason: error.to_string(),
    })
}

fn restore(repository: &Repository) -> Result<(), FetchError> {
    gitmodules::restore(repository).map_err(|error| FetchError::git("write .gitmodules", &error))
}

struct Update<'a> {
    files_allowed: bool,
    transfer: &'a Transfer<'a>,
    progress: &'a Progress,
}

impl Update<'_> {
    /// Fetches all, recursively.
    fn all(&self, repository: &Repository, depth: usize) -> Result<(), FetchError> {
        let submodules =
            repository.submodules().map_err(|error| FetchError::git("read .gitmodules", &error))?;
        for mut submodule in submodules {
            let path = printable(submodule.path());
            let fetched = self.one(repository, &mut submodule, depth);
            if let Some(clone) = fetched.map_err(|error| of_submodule(path, error))? {
                self.all(&clone, depth + 1)?;
                restore(&clone)?;
            }
        }
        Ok(())
    }

    /// Fetches those that the module reaches. What is fetched can lead to others.
    fn needed(
        &self,
        repository: &Repository,
        commit: Oid,
        job: &CloneJob,
    ) -> Result<(), FetchError> {
        let mut left = absent(repository, commit)?;
        if left.is_empty() {
            return Ok(());
        }
        let (mut clones, mut failures) = (BTreeMap::new(), BTreeMap::new());
        loop {
            let needed: Vec<(String, bool)> = match reached(repository, commit, job) {
                Ok(Some(needs)) => {
                    if let Some(cause) = needs.unknown.filter(|_| clones.is_empty()) {
                        self.progress.print(&format!(
                            "Fetching all submodules: it is not known what the module reads ({cause})"
                        ));
                    }
                    needs.absent.into_iter().map(|it| (it.path, it.is_required)).collect()
                }
                // The checks of the clone say that the module's directory is missing.
                Ok(None) => return Ok(()),
                // A link that leads out of the repository.
                Err(_) => left.iter().map(|path| (path.clone(), true)).collect(),
            };
            let mut has_new = false;
            for (path, is_required) in needed {
                if failures.contains_key(&path) || clones.contains_key(&path) {
                    continue;
                }
                match self.at(repository, &clones, &path) {
                    Ok(Some(clone)) => {
                        share(repository, &clone)?;
                        clones.insert(path, clone);
                        has_new = true;
                    }
                    Ok(None) => {}
                    Err(error) if is_required => {
                        return Err(of_submodule(printable(Path::new(&path)), error));
                    }
                    Err(error) => {
                        remove(repository, &path)?;
                        failures.insert(path, error);
                    }
                }
            }
            if !has_new {
                break;
            }
            left = absent(repository, commit)?;
        }
        clones.values().try_for_each(restore)?;
        for (path, error) in &failures {
            let (path, why) = (printable(Path::new(path)), chain(error));
            self.progress.print(&format!(
                "Left out the submodule `{path}`, which the module does not name: it cannot be fetched: {why}"
            ));
        }
        left.retain(|path| !failures.contains_key(path));
        self.print_left_out(&left, "the module does not read them; --submodules all fetches them");
        Ok(())
    }

    fn print_left_out(&self, paths: &[String], why: &str) {
        let shown: Vec<String> =
            paths.iter().take(NAMED).map(|path| format!("`{}`", path.escape_debug())).collect();
        let more = paths.len().saturating_sub(NAMED);
        let more = if more == 0 { String::new() } else { format!(" and {more} others") };
        if !paths.is_empty() {
            self.progress
                .print(&format!("Left out submodules: {}{more} ({why})", shown.join(", ")));
        }
    }

    /// Fetches the submodule at `path`, which can be in another one.
    fn at(
        &self,
        root: &Repository,
        clones: &BTreeMap<String, Repository>,
        path: &str,
    ) -> Result<Option<Repository>, FetchError> {
        let parents: Vec<&String> = clones.keys().filter(|parent| is_in(path, parent)).collect();
        let (parent, rest) = match parents.iter().max_by_key(|parent| parent.len()) {
            Some(parent) => (&clones[*parent], path[parent.len()..].trim_start_matches('/')),
            None => (root, path),
        };
        let failed = |error| FetchError::git("read .gitmodules", &error);
        let all = parent.submodules().map_err(failed)?;
        let is_at = |it: &Submodule<'_>| {
            it.path().to_str().and_then(|it| join("", it)).as_deref() == Some(rest)
        };
        match all.into_iter().find(is_at) {
            Some(mut submodule) => self.one(parent, &mut submodule, parents.len() + 1),
            None => Err(FetchError::ForbiddenSubmodule {
                path: printable(Path::new(path)),
                reason: "its entry in .gitmodules cannot be used".to_owned(),
            }),
        }
    }

    /// Fetches a submodule, unless git does not either.
    fn one(
        &self,
        repository: &Repository,
        submodule: &mut Submodule<'_>,
        depth: usize,
    ) -> Result<Option<Repository>, FetchError> {
        let path = submodule.path().to_owned();
        let forbidden = |reason: &str| FetchError::ForbiddenSubmodule {
            path: printable(&path),
            reason: reason.to_owned(),
        };
        if depth > MOST_NESTED {
            return Err(forbidden(&format!("it is nested more than {MOST_NESTED} levels deep")));
        }
        // Git also ignores an entry of .gitmodules without a commit in the tree.
        let Some(commit) = submodule.index_id() else { return Ok(None) };
        if submodule.update_strategy() == SubmoduleUpdate::None {
            self.progress.print(&format!(
                "The submodule `{}` says `update = none`: left out",
                printable(&path)
            ));
            return Ok(None);
        }
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
        Ok(Some(clone))
    }
}

fn of_submodule(path: String, error: FetchError) -> FetchError {
    match error {
        FetchError::ForbiddenSubmodule { .. } => error,
        source => FetchError::Submodule { path, source: Box::new(source) },
    }
}

/// Makes the objects of a submodule readable in the repository, so that its files can be looked at with those around
/// it.
fn share(repository: &Repository, submodule: &Repository) -> Result<(), FetchError> {
    let failed = |error| FetchError::git("read the submodule", &error);
    let objects = submodule.commondir().join("objects");
    // The clone is in a directory whose path is UTF-8.
    let objects = objects.to_str().unwrap_or_default();
    repository.odb().and_then(|odb| odb.add_disk_alternate(objects)).map_err(failed)
}

/// Empties the directory of a submodule that cannot be fetched.
fn remove(repository: &Repository, path: &str) -> Result<(), FetchError> {
    let Some(root) = repository.workdir() else { return Ok(()) };
    // What is not allowed was not begun.
    if refuse_outside(repository, Path::new(path)).is_err() {
        return Ok(());
    }
    let directory = root.join(path);
    let removed = butler_base::secret::remove_directory(&directory);
    removed
        .and_then(|()| fs_err::create_dir_all(&directory))
        .map_err(|error| FetchError::file("empty the directory of a submodule", &error))
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
