//! Reads what the includes of a repository contain, from its mirror, and remembers the last valid
//! commits in the mirror. With them, a server that starts knows all layers before it has reached any
//! git host.

use std::collections::BTreeMap;
use std::path::Path;

use butler_cluster::KnownResources;

use super::desired::Desired;
use super::remembered::{self, INCLUDES};
use crate::config::IncludeSource;
use crate::data::DataDirectory;
use crate::layers::read_include;
use crate::mirror::TreeError;
use crate::model::Commit;

/// The last valid commits of includes, by [`IncludeSource::id`].
type ValidCommits = BTreeMap<String, Commit>;

/// Reads the includes of `repository` at these commits. Returns whether the configuration has changed.
///
/// # Errors
/// If the mirror cannot be read.
pub(super) fn read_includes(
    desired: &Desired,
    directory: &Path,
    repository: &str,
    references: &BTreeMap<String, Option<Commit>>,
) -> Result<bool, TreeError> {
    let mut is_changed = false;
    let sources = desired.includes_of(repository);
    for source in &sources {
        let commit = references.get(&source.reference).cloned().flatten();
        if !desired.is_current_include(source, commit.as_ref()) {
            is_changed |= take(desired, directory, source, commit.as_ref())?;
        }
    }
    if !sources.is_empty() {
        remember(desired, directory, &sources);
    }
    Ok(is_changed)
}

/// Takes what an earlier server has read, and custom resources, so that all layers are known before any repository
/// is read. Includes that were in force keep the names that resources have since then.
pub(super) fn recall(desired: &Desired, data: &DataDirectory, resources: KnownResources) {
    recall_includes(desired, data);
    desired.take_resources(resources);
    desired.recall(data);
}

/// Reads the includes of all repositories at the commits that were valid last.
fn recall_includes(desired: &Desired, data: &DataDirectory) {
    for name in desired.config().repositories.keys() {
        let directory = data.mirror(name);
        let sources = desired.includes_of(name);
        let known: Option<ValidCommits> =
            if sources.is_empty() { None } else { remembered::recall(&directory, INCLUDES) };
        for source in sources {
            let Some(commit) = known.as_ref().and_then(|known| known.get(&source.id())) else {
                continue;
            };
            desired.was_valid_include(&source, commit);
            if let Err(error) = take(desired, &directory, &source, Some(commit)) {
                tracing::warn!(include = %source, %error, "cannot read the last valid configuration");
            }
        }
    }
}

fn take(
    desired: &Desired,
    directory: &Path,
    source: &IncludeSource,
    commit: Option<&Commit>,
) -> Result<bool, TreeError> {
    let failed = |error: git2::Error| TreeError::Read {
        path: source.path.clone(),
        why: error.message().to_owned(),
    };
    let mirror = git2::Repository::open_bare(directory).map_err(failed)?;
    Ok(desired.include(source, commit, read_include(&mirror, source, commit)?))
}

fn remember(desired: &Desired, directory: &Path, sources: &[IncludeSource]) {
    let commits = desired.valid_includes(sources);
    let valid: ValidCommits =
        commits.into_iter().map(|(source, commit)| (source.id(), commit)).collect();
    if remembered::recall::<ValidCommits>(directory, INCLUDES).unwrap_or_default() == valid {
        return;
    }
    if let Err(error) = remembered::remember(directory, INCLUDES, &valid) {
        tracing::warn!(%error, "cannot keep which included configuration was valid last");
    }
}
