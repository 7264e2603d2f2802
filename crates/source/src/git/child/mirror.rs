//! Updates a mirror: fetches the commits that it does not have, with their submodules.

use std::collections::BTreeSet;

use git2::Oid;

use super::super::failure::FetchError;
use super::super::history::MirrorHistory;
use super::super::mirror::MirrorUpdate;
use super::super::submodules::MirrorSubmodules;
use super::super::task::{Access, MirrorJob};
use super::super::url::RepositoryUrl;
use super::depth::Depth;
use super::mirror_fetch::{DEFAULT_BRANCH, Wanted, find, obtain};
use super::progress::Progress;
use super::transfer::Transfer;
use super::{mirror_store, mirror_submodules};

/// Why a repository without any reference has no default branch.
const EMPTY: &str = "the repository is empty: push a branch";

/// Why another repository has none.
const NO_DEFAULT_BRANCH: &str = "the default branch of the repository does not exist: its HEAD names a branch that is \
    gone or was never pushed; change it at the host, or set `ref`";

/// Executes `job`.
///
/// # Errors
/// When the repository or a submodule cannot be fetched, or the mirror cannot be written. What the
/// mirror had before stays.
pub(super) fn update(
    access: &Access,
    job: &MirrorJob,
    progress: &Progress,
) -> Result<MirrorUpdate, FetchError> {
    let (url, _) = RepositoryUrl::parse(&access.url)?;
    let repository = mirror_store::open(&job.directory, progress)?;
    let transfer = Transfer::new(access, progress);
    let mut remote = transfer.remote(&repository, &url)?;
    let server = transfer.connect(&repository, &mut remote, &url)?;

    let is_deepened = job.history != MirrorHistory::Recent;
    let depth = job.history.commits().map_or(Depth::All, Depth::Commits);
    let mut update = MirrorUpdate::default();
    let mut missing = Vec::new();
    for reference in &job.references {
        let wanted = find(reference, &server.heads);
        let commit = wanted.as_ref().map(|wanted| wanted.commit.to_string());
        if let Some(note) = wanted.as_ref().and_then(|wanted| wanted.note.clone()) {
            update.notes.insert(reference.clone(), note);
        }
        update.references.insert(reference.clone(), commit);
        if wanted.is_none() && reference == DEFAULT_BRANCH {
            let has_none = server.heads.iter().all(|(name, _)| !name.starts_with("refs/"));
            let why = if has_none { EMPTY } else { NO_DEFAULT_BRANCH };
            update.notes.insert(reference.clone(), why.to_owned());
        }
        if let Some(wanted) = wanted
            && (is_deepened || !mirror_store::has(&repository, wanted.commit))
        {
            missing.push((reference, wanted));
        }
    }
    if !missing.is_empty() {
        mirror_store::remove_leftovers(&repository)?;
        let (names, wanted): (Vec<&String>, Vec<Wanted>) = missing.into_iter().unzip();
        let shown: Vec<&str> = names.iter().map(|name| name.as_str()).collect();
        progress.print(&format!("Fetching {} from {url}", shown.join(", ")));
        let commits = obtain(&transfer, &server, &wanted, depth)?;
        for (name, commit) in names.into_iter().zip(commits) {
            update.fetched.extend(commit.map(|_| name.clone()));
            update.references.insert(name.clone(), commit.map(|commit| commit.to_string()));
        }
    }
    let mut has_more = !update.fetched.is_empty();
    for (reference, commit) in &update.references {
        let Some(commit) = commit.as_ref().and_then(|id| Oid::from_str(id).ok()) else { continue };
        let has_commit = mirror_store::has(&repository, commit);
        let is_wanted = |path: &str| job.submodules.wants(reference, path);
        if has_commit && !job.submodules.wants_any(reference) {
            continue;
        }
        let found = mirror_submodules::fetch(&transfer, &repository, &url, commit, &is_wanted)?;
        has_more |= mirror_store::complete(&repository, commit, &found.commits)?;
        for (path, error) in found.failures {
            if job.submodules == MirrorSubmodules::All {
                return Err(match error {
                    FetchError::ForbiddenSubmodule { .. } => error,
                    source => FetchError::Submodule { path, source: Box::new(source) },
                });
            }
            let why = error.in_a_sentence(job.memory_limit);
            update.left_out.entry(reference.clone()).or_default().insert(path, why);
        }
    }
    // The history that was asked for must not be removed at once.
    if !has_more || is_deepened {
        return Ok(update);
    }
    let current = update.references.values().flatten();
    let kept: BTreeSet<Oid> =
        current.chain(&job.keep).filter_map(|id| Oid::from_str(id).ok()).collect();
    // The next update tries again.
    if let Err(error) = mirror_store::compact(&repository, &kept) {
        progress.print(&format!("The mirror is larger than necessary: {error}"));
    }
    Ok(update)
}
