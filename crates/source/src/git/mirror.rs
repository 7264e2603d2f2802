//! The parent's side of a mirror: a bare repository with the commits that the server reads.

use std::collections::BTreeMap;
use std::path::PathBuf;

use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};

use super::environment::GitEnvironment;
use super::failure::{FetchError, SourceError};
use super::history::MirrorHistory;
use super::launch::{ProgressSink, access, beside, execute, scratch_home};
use super::login::logins;
use super::submodules::MirrorSubmodules;
use super::task::{Job, MirrorJob, Task};
use super::url::RepositoryUrl;
use butler_base::cancel::Stop;
use butler_base::platform::fs::DirBuilderExt;
use butler_base::process::Sink;
use butler_protocol::spec::GitCredentials;

/// What a mirror must contain.
#[derive(Debug)]
pub struct MirrorRequest {
    /// The repository's address: https, http, ssh or file.
    pub repository: SecretString,
    /// How the server logs in, for the repository and its submodules.
    pub credentials: GitCredentials,
    /// Branches, tags, or full commit ids; each once. `HEAD` is the default branch. Abbreviated commit ids are not found.
    pub references: Vec<String>,
    /// Full ids of commits that must stay readable although no reference leads to them any more: those
    /// of unfinished runs, of applied revisions, and of the previous update, which a run may use before
    /// this one ends. All other commits may be removed. A commit that the mirror does not have is
    /// ignored.
    pub keep: Vec<String>,
    /// The bare repository. It is created with mode 0700 if it does not exist, and removed with
    /// everything in it if it is damaged.
    pub directory: PathBuf,
    /// Which submodules the mirror must contain.
    pub submodules: MirrorSubmodules,
    /// The history that the commits get.
    pub history: MirrorHistory,
    /// The most memory that the child may use for data, in bytes (`RLIMIT_DATA`; Linux only).
    pub memory_limit: u64,
}

/// What a mirror contains.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct MirrorUpdate {
    /// The full commit id of each requested reference. `None` if the repository does not have it.
    pub references: BTreeMap<String, Option<String>>,
    /// What people should know about a requested reference, in one sentence: a tag has the name of a branch.
    pub notes: BTreeMap<String, String>,
    /// The references whose commit was not in the mirror before.
    pub fetched: Vec<String>,
    /// Why submodules that are needed cannot be fetched, by reference and path.
    pub left_out: BTreeMap<String, BTreeMap<String, String>>,
}

/// Makes the mirror contain the commits of all requested references, with their files and the requested
/// submodules, and with a part of their history. The files of a submodule are in the same repository, at the commit
/// that the tree names.
///
/// Requests the references of the repository once. Fetches only what the mirror does not have; if that
/// is nothing, no file of it is written. Lines about what was fetched go to `sink`. A damaged mirror is
/// made again. Two updates of one mirror must not run at the same time; it may be read meanwhile.
///
/// # Errors
/// When the repository cannot be reached or read, or the mirror cannot be written; with
/// [`MirrorSubmodules::All`], also when a submodule cannot. A stop ends the update within a second; the mirror is usable afterwards.
pub async fn update_mirror(
    request: &MirrorRequest,
    environment: &GitEnvironment,
    sink: &impl Sink,
    stop: &Stop,
) -> Result<MirrorUpdate, SourceError> {
    let (repository, userinfo) =
        RepositoryUrl::parse(request.repository.expose_secret()).map_err(SourceError::Unusable)?;
    let failed = |source| SourceError::Mirror {
        url: repository.to_string(),
        memory_limit: request.memory_limit,
        source,
    };
    let logins =
        logins(&request.credentials, environment, &repository, userinfo).map_err(failed)?;
    let beside = beside(&request.directory);
    let scratch = std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(beside)
        .and_then(|()| scratch_home(&request.directory))
        .map_err(|error| {
            let act = format!("create a directory in `{}`", beside.display());
            failed(FetchError::file(&act, &error))
        })?;
    let job = Job::Mirror(MirrorJob {
        references: request.references.clone(),
        keep: request.keep.clone(),
        directory: request.directory.clone(),
        submodules: request.submodules.clone(),
        history: request.history,
        memory_limit: request.memory_limit,
    });
    let access = access(&repository, logins, &request.credentials, environment, &scratch);
    execute(&Task { access, job }, environment, &ProgressSink(sink), stop).await?.map_err(failed)
}
