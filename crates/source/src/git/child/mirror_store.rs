//! The bare repository of a mirror: its creation, its checks, and which commits it has.
//!
//! A commit is complete if `refs/mirror/COMMIT/COMMIT` exists. The references beside it lead to the commits of those of
//! its submodules that are there.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use git2::{ErrorClass, ErrorCode, Oid, Repository, RepositoryInitOptions};

use super::super::failure::{FetchError, is_out_of_memory};
use super::super::history::MirrorHistory;
use super::depth::Depth;
use super::local;
use super::mirror_fetch::INCOMING;
use super::progress::Progress;
use super::transfer::FOLLOW_REDIRECTS;
use butler_base::platform::fs::DirBuilderExt;

/// The references of commits.
const COMMITS: &str = "refs/mirror";

/// The most packs. Each fetch adds one, and a reader searches all of them.
const MAX_PACKS: usize = 50;

/// Opens the mirror, or creates it if it does not exist. A damaged one is removed and created again.
///
/// # Errors
/// When it cannot be opened, removed or created.
pub(super) fn open(directory: &Path, progress: &Progress) -> Result<Repository, FetchError> {
    let act = |what: &str| format!("{what} the mirror `{}`", directory.display());
    if directory.symlink_metadata().is_ok() {
        match check(directory) {
            Ok(repository) => return Ok(repository),
            Err(error) if is_damage(&error) => {
                let reason = error.message();
                progress.print(&format!("The mirror is damaged ({reason}): it is made again"));
            }
            Err(error) => return Err(FetchError::git(&act("open"), &error)),
        }
        fs_err::remove_dir_all(directory)
            .map_err(|error| FetchError::file(&act("remove"), &error))?;
    }
    std::fs::DirBuilder::new()
        .mode(0o700)
        .create(directory)
        .map_err(|error| FetchError::file(&act("create"), &error))?;
    create(directory).map_err(|error| FetchError::git(&act("create"), &error))
}

fn create(directory: &Path) -> Result<Repository, git2::Error> {
    // The user's templates could add hooks and settings to the mirror.
    let mut options = RepositoryInitOptions::new();
    options.bare(true).external_template(false).no_reinit(true);
    let repository = Repository::init_opts(directory, &options)?;
    let mut config = repository.config()?;
    // Credentials must not follow a redirect to another host.
    config.set_str(FOLLOW_REDIRECTS, "false")?;
    // The repository may not have a kept commit any more, after a force push.
    config.set_bool("core.fsyncObjectFiles", true)?;
    // Bounds the memory of `compact`, which keeps this much for deltas.
    config.set_i64("pack.deltaCacheSize", 16 * 1024 * 1024)?;
    config.set_i64("pack.windowMemory", 64 * 1024 * 1024)?;
    Ok(repository)
}

/// Opens a mirror, and checks that every commit can be read.
fn check(directory: &Path) -> Result<Repository, git2::Error> {
    let repository = Repository::open_bare(directory)?;
    if repository.config()?.get_bool(FOLLOW_REDIRECTS)? {
        return Err(git2::Error::from_str("its settings are not those of a mirror"));
    }
    // libgit2 compares the end of a pack with its index before it reads the first object, and each
    // fetch brings a commit.
    for (_, commit) in commits(&repository)? {
        repository.find_commit(commit)?.tree()?;
    }
    Ok(repository)
}

/// Whether a mirror that cannot be opened must be made again. That does not help against too little
/// memory, or if the directory belongs to another user.
fn is_damage(error: &git2::Error) -> bool {
    !is_out_of_memory(error) && error.class() != ErrorClass::Os && error.code() != ErrorCode::Owner
}

/// The packs of the mirror.
fn packs(repository: &Repository) -> std::io::Result<Vec<PathBuf>> {
    let mut packs = Vec::new();
    for entry in fs_err::read_dir(repository.path().join("objects/pack"))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "pack") {
            packs.push(path);
        }
    }
    Ok(packs)
}

/// All commits of the mirror, with those of submodules, each with the commit that it belongs to.
fn commits(repository: &Repository) -> Result<Vec<(Oid, Oid)>, git2::Error> {
    let mut commits = Vec::new();
    for reference in repository.references_glob(&format!("{COMMITS}/*"))? {
        let reference = reference?;
        let owner = reference.name()?.split('/').nth(2).unwrap_or_default();
        let (owner, commit) = (Oid::from_str(owner)?, reference.target());
        commits.push((owner, commit.unwrap_or(owner)));
    }
    Ok(commits)
}

/// Whether the mirror has this commit.
pub(super) fn has(repository: &Repository, commit: Oid) -> bool {
    repository.find_reference(&name(commit, commit)).is_ok()
}

/// Notes that the mirror has `commit` and the commits of its submodules. Returns whether that was not known.
///
/// # Errors
/// When a reference cannot be written.
pub(super) fn complete(
    repository: &Repository,
    commit: Oid,
    submodules: &[Oid],
) -> Result<bool, FetchError> {
    let mut is_new = false;
    for member in submodules.iter().chain([&commit]) {
        let name = name(commit, *member);
        if repository.find_reference(&name).is_ok() {
            continue;
        }
        is_new = true;
        // libgit2 does not replace a file that a power cut left empty.
        remove(fs_err::remove_file(repository.path().join(&name)))?;
        repository
            .reference(&name, *member, true, "")
            .map_err(|error| FetchError::git("write the mirror", &error))?;
    }
    Ok(is_new)
}

fn name(owner: Oid, commit: Oid) -> String {
    format!("{COMMITS}/{owner}/{commit}")
}

/// Removes what an update left that was ended: locks, incomplete files and references.
///
/// # Errors
/// When it cannot be removed.
pub(super) fn remove_leftovers(repository: &Repository) -> Result<(), FetchError> {
    remove(fs_err::remove_dir_all(repository.path().join(INCOMING)))?;
    remove(remove_files(repository.path()))
}

/// The result of removing something that need not exist.
fn remove(removed: std::io::Result<()>) -> Result<(), FetchError> {
    match removed {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(FetchError::file("clean up the mirror", &error))
        }
        _ => Ok(()),
    }
}

fn remove_files(directory: &Path) -> std::io::Result<()> {
    // Not recursive, because names of references can have many parts.
    let mut waiting = vec![directory.to_owned()];
    while let Some(directory) = waiting.pop() {
        for entry in fs_err::read_dir(directory)? {
            let entry = entry?;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if entry.file_type()?.is_dir() {
                waiting.push(entry.path());
            } else if name.ends_with(".lock") || name.contains("_git2_") {
                // The names of libgit2's temporary files.
                fs_err::remove_file(entry.path())?;
            }
        }
    }
    Ok(())
}

/// Removes all commits except for `kept`, their submodules and their recent history, if there are too many packs.
///
/// A reader does not notice: it finds an object in the new pack if the old one is gone.
///
/// # Errors
/// When an object cannot be read or the mirror cannot be written.
pub(super) fn compact(
    repository: &Repository,
    kept: &BTreeSet<Oid>,
) -> Result<(), Box<dyn std::error::Error>> {
    let old = packs(repository)?;
    if old.len() <= MAX_PACKS {
        return Ok(());
    }
    let mut pack = repository.packbuilder()?;
    let (mut names, mut shallow, mut members) = (BTreeSet::new(), String::new(), Vec::new());
    // A server must not assume that the mirror has the parents of these commits (gitprotocol-pack(5)).
    for (owner, commit) in commits(repository)? {
        if kept.contains(&owner) {
            members.push(commit);
            names.insert(name(owner, commit));
            shallow.extend([commit.to_string(), "\n".to_owned()]);
        }
    }
    local::insert_commits(&mut pack, repository, &members, |_| false)?;
    // Without files: it only tells later whether a commit comes from this history.
    let depth = MirrorHistory::Recent.commits().map_or(Depth::All, Depth::Commits);
    local::insert_history(&mut pack, repository, &members, depth)?;
    pack.write(&repository.path().join("objects/pack"), 0)?;
    fs_err::write(repository.path().join("shallow"), shallow)?;
    for reference in repository.references()? {
        let mut reference = reference?;
        if !names.contains(reference.name()?) {
            reference.delete()?;
        }
    }
    let new = pack.name()?.map(|name| format!("pack-{name}.pack"));
    for pack in old {
        if pack.file_name().and_then(|name| name.to_str()) != new.as_deref() {
            fs_err::remove_file(pack.with_extension("idx"))?;
            fs_err::remove_file(pack)?;
        }
    }
    Ok(())
}
