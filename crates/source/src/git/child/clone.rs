//! A complete clone: transfer, checkout, submodules, and checks of the result.

use git2::{Repository, RepositoryInitOptions};

use super::super::failure::FetchError;
use super::super::module_directory::{check_relative, module_directory};
use super::super::task::{Access, CloneJob, Fetched};
use super::super::url::RepositoryUrl;
use super::check_out::{check_out, subject};
use super::progress::Progress;
use super::submodules;
use super::transfer::Transfer;

/// Executes `job`.
///
/// # Errors
/// When any step fails. Files that exist by then are not removed.
pub(super) fn clone(
    access: &Access,
    job: &CloneJob,
    progress: &Progress,
) -> Result<Fetched, FetchError> {
    check_relative(&job.working_directory)?;
    let (url, _) = RepositoryUrl::parse(&access.url)?;
    if job.destination.symlink_metadata().is_ok() {
        return Err(FetchError::Git {
            act: "create the clone".to_owned(),
            reason: format!("`{}` exists already", job.destination.display()),
        });
    }
    // The user's templates could add hooks and settings to the clone.
    let mut options = RepositoryInitOptions::new();
    options.external_template(false).no_reinit(true).mkpath(true);
    let repository = Repository::init_opts(&job.destination, &options)
        .map_err(|error| FetchError::git("create the clone", &error))?;
    // Modules may read the address of their repository, and relative submodules depend on it.
    repository
        .remote("origin", url.as_str())
        .map_err(|error| FetchError::git("configure the clone", &error))?;

    let transfer = Transfer::new(access, progress);
    let commit = transfer.fetch_commit(&repository, &url, &job.reference)?;
    check_out(&repository, commit)?;
    progress.print(&format!("Checked out {commit} (\"{}\")", subject(&repository, commit)));
    submodules::update(&repository, &url, commit, job, &transfer)?;

    let (root, directory) = module_directory(&job.destination, &job.working_directory)?;
    let used_tokens = transfer.authenticator.attempts().used_tokens.clone();
    Ok(Fetched { root, directory, commit: commit.to_string(), used_tokens })
}
