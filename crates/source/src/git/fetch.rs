//! The parent's side of a clone of one commit.

use std::path::Path;

use secrecy::{ExposeSecret, SecretString};

use super::environment::{Checkout, GitEnvironment};
use super::failure::{FetchError, SourceError};
use super::launch::{ProgressSink, access, beside, execute, scratch_home};
use super::login::logins;
use super::task::{CloneJob, Fetched, Job, Task};
use super::url::RepositoryUrl;
use butler_base::cancel::Stop;
use butler_base::process::Sink;
use butler_protocol::spec::GitSource;

/// A module to clone, and how.
#[derive(Clone, Copy, Debug)]
pub struct CloneRequest<'a> {
    /// The module.
    pub source: &'a GitSource,
    /// Texts that the module gets, which can be paths of its repository: values of variables and of its environment.
    /// They can be secret.
    pub values: &'a [SecretString],
    /// The directory of the clone, which must not exist yet.
    pub destination: &'a Path,
}

/// Fetches a module. Progress goes to `sink`, with the submodules that are left out.
///
/// # Errors
/// When the repository cannot be fetched, the reference does not exist, or the working directory
/// is not inside the clone. A stop ends the fetch within a second. The caller must remove the files
/// that a failed fetch leaves in the directory of the clone.
pub async fn fetch(
    request: &CloneRequest<'_>,
    environment: &GitEnvironment,
    sink: &impl Sink,
    stop: &Stop,
) -> Result<Checkout, SourceError> {
    let CloneRequest { source, values, destination } = *request;
    let (repository, userinfo) =
        RepositoryUrl::parse(source.repository.expose_secret()).map_err(SourceError::Unusable)?;
    let failed = |source| SourceError::Fetch { url: repository.to_string(), source };
    check_reference(&source.reference).map_err(SourceError::Unusable)?;
    let logins = logins(&source.credentials, environment, &repository, userinfo).map_err(failed)?;
    let scratch = scratch_home(destination).map_err(|source| SourceError::File {
        act: "create a directory in",
        path: beside(destination).to_owned(),
        source,
    })?;
    let job = Job::Clone(CloneJob {
        reference: source.reference.clone(),
        working_directory: source.working_directory.clone(),
        destination: destination.to_owned(),
        submodules: environment.submodules,
        values: values.iter().map(|value| value.expose_secret().to_owned()).collect(),
    });
    let access = access(&repository, logins, &source.credentials, environment, &scratch);
    let progress = ProgressSink(sink);
    progress.print(&format!("Fetching {repository} at {}", source.reference));
    let fetched: Fetched =
        execute(&Task { access, job }, environment, &progress, stop).await?.map_err(failed)?;
    Ok(Checkout {
        root: fetched.root,
        directory: fetched.directory,
        commit: fetched.commit,
        used_tokens: environment
            .tokens
            .iter()
            .map(|token| token.variable)
            .filter(|name| fetched.used_tokens.iter().any(|used| used == name))
            .collect(),
    })
}

/// Refuses names that git refuses too, in particular options and control characters.
pub(super) fn check_reference(reference: &str) -> Result<(), FetchError> {
    let refuse = |reason: &str| {
        Err(FetchError::UnusableReference {
            reference: reference.escape_debug().to_string(),
            reason: reason.to_owned(),
        })
    };
    if reference.trim().is_empty() {
        return refuse("it is empty, and the default branch is never used instead");
    }
    if reference.starts_with('-') {
        return refuse("it begins with `-`");
    }
    if reference.chars().any(|character| character.is_control() || " ~^:?*[\\".contains(character))
        || reference.contains("..")
        || reference.contains("@{")
    {
        return refuse("it contains a character that no branch or tag can have");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_reference_name_is_refused() {
        for reference in ["", "  ", "-upload-pack=x", "a\nb", "a b", "main~1", "a..b", "x@{1}", "*"]
        {
            assert!(check_reference(reference).is_err(), "{reference:?}");
        }
        for reference in ["main", "v1.2.0", "feature/x-y_z", "refs/pull/7/head", "0a1b2c3", "käse"]
        {
            assert_eq!(check_reference(reference), Ok(()));
        }
    }
}
