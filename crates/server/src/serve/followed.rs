//! The followers in force, and the heads of the branches that they follow.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use butler_follower::Head;
use butler_follower::config::{Follower, Registry, Source};
use tokio::sync::watch;

use crate::config::{Config, without_login};
use crate::followers::BranchHead;
use crate::model::{Commit, Moment};

/// The commits of branches; `None` for a branch that does not exist.
type Heads = BTreeMap<String, Option<Commit>>;

/// What a poll has found.
#[derive(Clone, Debug)]
pub(super) struct Polled {
    /// The branches that could be read.
    pub(super) heads: Heads,
    /// Why others could not be read.
    pub(super) error: Option<String>,
    /// When the poll began.
    pub(super) begun: Moment,
}

/// The last poll of each repository.
pub(super) type Found = BTreeMap<String, Polled>;

/// The followers in force, and the heads of the branches that they follow.
#[derive(Debug, Default)]
pub struct Followed {
    registry: watch::Sender<Arc<Registry>>,
    parts: Mutex<RegistryParts>,
    heads: watch::Sender<Found>,
    /// What is wrong with the newest registry, if it is not in force because of that.
    errors: Mutex<Vec<String>>,
}

/// Where the followers come from.
#[derive(Debug, Default)]
struct RegistryParts {
    file: Registry,
    resources: Vec<Follower>,
}

/// Reads a registry of followers. Returns its text too.
///
/// # Errors
/// Everything that is wrong with it, in sentences that name the file.
pub fn read_registry(path: &Path) -> Result<(Registry, String), Vec<String>> {
    let named = |problem: &str| format!("{}: {problem}", path.display());
    let text = std::fs::read_to_string(path)
        .map_err(|error| vec![named(&format!("cannot read the registry of followers: {error}"))])?;
    match Registry::parse(&text) {
        Ok(registry) => Ok((registry, text)),
        Err(errors) => Err(errors.iter().map(|error| named(&error.to_string())).collect()),
    }
}

impl Followed {
    /// The registry in force, and each later one.
    pub fn registries(&self) -> watch::Receiver<Arc<Registry>> {
        self.registry.subscribe()
    }

    /// Puts the registry of the file into force.
    pub fn replace(&self, registry: Registry) {
        self.errors.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.change(|parts| parts.file = registry);
    }

    /// Puts the followers of custom resources into force.
    pub(super) fn replace_resources(&self, followers: &[Follower]) {
        self.change(|parts| parts.resources = followers.to_vec());
    }

    fn change(&self, change: impl FnOnce(&mut RegistryParts)) {
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut parts);
        let mut registry = parts.file.clone();
        registry.followers.extend(parts.resources.iter().cloned());
        self.registry.send_if_modified(|known| {
            let is_other = **known != registry;
            *known = Arc::new(registry);
            is_other
        });
    }

    /// Keeps the registry that is in force, because a newer one has these errors.
    pub(super) fn refuse(&self, errors: Vec<String>) {
        *self.errors.lock().unwrap_or_else(PoisonError::into_inner) = errors;
    }

    /// What is wrong with the newest registry.
    #[must_use]
    pub fn errors(&self) -> Vec<String> {
        self.errors.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The branches of a repository that are followed.
    pub(super) fn branches(&self, config: &Config, repository: &str) -> BTreeSet<String> {
        let registry = self.registry.borrow();
        let sources = registry.followers.iter().map(|follower| &follower.source);
        let own = sources.filter(|source| repository_of(config, source) == Some(repository));
        own.map(|source| source.branch.clone()).collect()
    }

    /// Takes the heads that a poll of a repository has found, or why it has failed.
    pub(super) fn found(&self, repository: &str, polled: Polled) {
        self.heads.send_if_modified(|known| {
            let is_new = known
                .get(repository)
                .is_none_or(|known| (&known.heads, &known.error) != (&polled.heads, &polled.error));
            known.insert(repository.to_owned(), polled);
            is_new
        });
    }

    /// What polls have found, and each change of it.
    pub(super) fn heads(&self) -> watch::Receiver<Found> {
        self.heads.subscribe()
    }

    /// The head of a branch.
    pub(super) fn head(&self, config: &Config, source: &Source) -> BranchHead {
        let Source { repository, branch } = source;
        let unknown =
            |why: &str| BranchHead { head: Head::Unknown { why: why.to_owned() }, read_at: None };
        let Some(name) = repository_of(config, source) else {
            return unknown(&format!(
                "the repository `{repository}` is not in the configuration of the server; add it to `repositories`"
            ));
        };
        let heads = self.heads.borrow();
        let Some(Polled { heads, error, begun }) = heads.get(name) else {
            return unknown("the repository is being read");
        };
        let head = match heads.get(branch) {
            Some(Some(commit)) => match butler_follower::Commit::parse(commit.as_str()) {
                Ok(commit) => Head::Found(commit),
                Err(error) => return unknown(&error.to_string()),
            },
            Some(None) => Head::Missing,
            None => return unknown(error.as_deref().unwrap_or("the repository is being read")),
        };
        BranchHead { head, read_at: Some(*begun) }
    }
}

/// The name of the repository that a follower names by its name or its address.
pub(crate) fn repository_of<'a>(config: &'a Config, source: &Source) -> Option<&'a str> {
    let named = config.repositories.get_key_value(&source.repository);
    // Addresses in a registry have no logins.
    let at = || {
        // Other people can define a repository with the same address.
        let own =
            config.repositories.iter().filter(|(name, _)| !config.is_included_repository(name));
        let mut all = own.chain(config.repositories.iter());
        all.find(|(_, it)| without_login(&it.entry.url.value) == source.repository)
    };
    named.or_else(at).map(|(name, _)| name.as_str())
}
