//! The configuration in force, and the layers that it means.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use butler_cluster::{KnownResources, ResourceKey, ResourceKind};
use tokio::sync::{Notify, watch};

use super::ailing::{Ailing, Part};
use super::followed::Followed;
use super::includes::Includes;
use super::remembered::{self, READING};
use super::wanted_commits::WantedCommits;
use crate::config::{Config, ConfigError, IncludeSource, RemoteLimits};
use crate::data::DataDirectory;
use crate::layers::{Catalog, IncludedFiles, Reading, origin};
use crate::model::{Commit, LayerName, Sighting};
use crate::resources::TakenResource;

/// The configuration, what was read from the repositories, and the layers that follow from both.
#[derive(Debug)]
pub struct Desired {
    /// With what is included.
    config: watch::Sender<Arc<Config>>,
    /// Locked while the configuration changes.
    includes: Mutex<Includes>,
    catalog: watch::Sender<Arc<Catalog>>,
    readings: Mutex<BTreeMap<String, Reading>>,
    /// The directories of names that an earlier server knew, by repository.
    homes: Mutex<BTreeMap<String, BTreeMap<LayerName, String>>>,
    polls: Mutex<BTreeMap<String, Poll>>,
    /// A sentence about each repository that has moved, by its name.
    moved: Mutex<BTreeMap<String, String>>,
    /// How many polls of each repository have begun and ended.
    counts: Mutex<BTreeMap<String, PollCounts>>,
    /// Makes the next poll of a repository begin at once.
    due: Mutex<BTreeMap<String, Arc<Notify>>>,
    /// What is wrong with the newest configuration, if it is not in force because of that.
    errors: Mutex<Vec<String>>,
    /// The repositories of what resources define, and the polls after which they are read.
    unread: Mutex<BTreeMap<ResourceKey, (String, u64)>>,
    /// The followers, which are in a file of their own and in custom resources.
    pub followed: Followed,
    /// The commits that polls fetch in addition.
    pub wanted: WantedCommits,
    /// The failures in the server's surroundings.
    pub ailing: Arc<Ailing>,
}

/// The last poll of a repository.
#[derive(Clone, Debug)]
pub struct Poll {
    /// When it ended.
    pub at: SystemTime,
    /// Why it failed, with causes and advice.
    pub error: Option<String>,
}

/// How many polls of a repository have begun and ended, one after the other.
#[derive(Clone, Copy, Debug, Default)]
struct PollCounts {
    begun: u64,
    ended: u64,
    results: PollResults,
}

/// How the polls of a repository have ended since the server started.
#[derive(Clone, Copy, Debug, Default)]
pub struct PollResults {
    /// Those that succeeded.
    pub succeeded: u64,
    /// Those that failed.
    pub failed: u64,
    /// When the last one ended that succeeded.
    pub last_success: Option<SystemTime>,
}

impl PollResults {
    const fn add(&mut self, at: SystemTime, has_succeeded: bool) {
        if has_succeeded {
            self.succeeded += 1;
            self.last_success = Some(at);
        } else {
            self.failed += 1;
        }
    }
}

impl Desired {
    /// The layers of `config`, before any repository was read. `limits` are those of included
    /// configuration.
    #[must_use]
    pub fn new(config: Config, limits: RemoteLimits) -> Self {
        let catalog = Catalog::new(&config, &BTreeMap::new());
        Self {
            includes: Mutex::new(Includes::new(config.clone(), limits)),
            config: watch::Sender::new(Arc::new(config)),
            catalog: watch::Sender::new(Arc::new(catalog)),
            readings: Mutex::default(),
            homes: Mutex::default(),
            polls: Mutex::default(),
            moved: Mutex::default(),
            counts: Mutex::default(),
            due: Mutex::default(),
            errors: Mutex::default(),
            unread: Mutex::default(),
            followed: Followed::default(),
            wanted: WantedCommits::default(),
            ailing: Arc::default(),
        }
    }

    /// The configuration in force.
    #[must_use]
    pub fn config(&self) -> Arc<Config> {
        self.config.borrow().clone()
    }

    /// The configuration, and each later one.
    #[must_use]
    pub fn configs(&self) -> watch::Receiver<Arc<Config>> {
        self.config.subscribe()
    }

    /// The layers, and those of each change.
    #[must_use]
    pub fn catalogs(&self) -> watch::Receiver<Arc<Catalog>> {
        self.catalog.subscribe()
    }

    /// Replaces the server's own configuration.
    ///
    /// # Errors
    /// If included configuration does not go with it. The last one stays in force then.
    pub fn configure(&self, own: Config) -> Result<(), Vec<ConfigError>> {
        let mut includes = self.includes();
        let config = includes.configure(own)?;
        self.errors.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.put_into_force(config, &mut includes);
        Ok(())
    }

    /// Takes the custom resources of the cluster. It can be repeated: what they need can be there now.
    pub(super) fn take_resources(&self, mut known: KnownResources) {
        self.ailing.set(Part::Resources, std::mem::take(&mut known.problems));
        let mut includes = self.includes();
        let before: Vec<String> = includes.resources().problems().collect();
        let config = includes.take_resources(known);
        for problem in includes.resources().problems().filter(|it| !before.contains(it)) {
            tracing::warn!("a custom resource is not used: {problem}");
        }
        if let Some(config) = config {
            let number = includes.resources().objects().len();
            tracing::info!(
                resources = number,
                "the custom resources have changed, and are in force"
            );
            self.put_into_force(config, &mut includes);
        } else {
            self.followed.replace_resources(includes.resources().followers());
        }
        if let Some(config) = includes.retry_own() {
            tracing::info!("the configuration is in force: no resource has its names any more");
            self.errors.lock().unwrap_or_else(PoisonError::into_inner).clear();
            self.put_into_force(config, &mut includes);
        }
    }

    /// Whether the repository of what a resource defines was read since the resource has changed.
    pub(super) fn is_read(&self, key: &ResourceKey) -> bool {
        let mut unread = self.unread.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((repository, poll)) = unread.get(key) else { return true };
        // A repository says itself why it cannot be read.
        let is_known =
            key.kind == ResourceKind::Repository || self.poll_error(repository).is_none();
        let is_read = is_known && self.ended_polls(repository) >= *poll;
        if is_read {
            unread.remove(key);
        }
        is_read
    }

    /// The custom resources that were taken, and what came of them.
    pub(super) fn taken_resources(&self) -> BTreeMap<ResourceKey, TakenResource> {
        self.includes().resources().taken()
    }

    /// The followers of custom resources that are not used: their ids, and why.
    pub(crate) fn refused_followers(&self) -> Vec<(String, String)> {
        self.includes().resources().refused_followers().collect()
    }

    /// Takes the files of an include at a commit, or what is wrong with them. Returns whether the
    /// configuration has changed.
    pub(super) fn include(
        &self,
        source: &IncludeSource,
        commit: Option<&Commit>,
        read: Result<IncludedFiles, Vec<ConfigError>>,
    ) -> bool {
        let mut includes = self.includes();
        let Some(config) = includes.take(source, commit, read) else { return false };
        let commit = commit.map(tracing::field::display);
        tracing::info!(include = %source, commit, "included configuration is in force");
        self.put_into_force(config, &mut includes);
        true
    }

    /// Logs what is wrong with includes, each error once.
    pub(super) fn log_include_errors(&self) {
        for error in self.includes().take_unlogged() {
            tracing::error!("included configuration is not used: {error}");
        }
    }

    fn includes(&self) -> MutexGuard<'_, Includes> {
        self.includes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The includes of a repository.
    pub(super) fn includes_of(&self, repository: &str) -> Vec<IncludeSource> {
        self.includes().of(repository)
    }

    /// Whether an include needs not be read at `commit`.
    pub(super) fn is_current_include(
        &self,
        source: &IncludeSource,
        commit: Option<&Commit>,
    ) -> bool {
        self.includes().is_current(source, commit)
    }

    /// The commits of these includes that were valid last.
    pub(super) fn valid_includes<'a>(
        &self,
        sources: &'a [IncludeSource],
    ) -> Vec<(&'a IncludeSource, Commit)> {
        let includes = self.includes();
        let commit = |source| Some((source, includes.valid_commit(source)?.clone()));
        sources.iter().filter_map(commit).collect()
    }

    /// Keeps the commit that an earlier server has found valid last.
    pub(super) fn was_valid_include(&self, source: &IncludeSource, commit: &Commit) {
        self.includes().was_valid(source, commit);
    }

    /// What is wrong with the newest contents of includes.
    #[must_use]
    pub fn include_errors(&self) -> Vec<String> {
        self.includes().errors()
    }

    fn put_into_force(&self, config: Config, includes: &mut Includes) {
        self.followed.replace_resources(includes.resources().followers());
        let is_used = |name: &String| config.repositories.contains_key(name);
        let mut readings = self.readings.lock().unwrap_or_else(PoisonError::into_inner);
        readings.retain(|name, _| is_used(name));
        drop(readings);
        let mut polls = self.polls.lock().unwrap_or_else(PoisonError::into_inner);
        polls.retain(|name, _| is_used(name));
        drop(polls);
        let mut moved = self.moved.lock().unwrap_or_else(PoisonError::into_inner);
        moved.retain(|name, _| is_used(name));
        drop(moved);
        self.config.send_replace(Arc::new(config));
        self.put_together();
        let mut unread = self.unread.lock().unwrap_or_else(PoisonError::into_inner);
        for (key, repository) in includes.take_unread() {
            let poll = self.request_poll(&repository);
            unread.insert(key, (repository, poll));
        }
    }

    /// Forgets a configuration that resources have kept from being in force, because its files have changed.
    pub(super) fn forget_refused(&self) {
        self.includes().forget_refused();
    }

    /// Keeps the configuration that is in force, because a newer one has these errors.
    pub fn refuse(&self, errors: Vec<String>) {
        *self.errors.lock().unwrap_or_else(PoisonError::into_inner) = errors;
    }

    /// What is wrong with the newest configuration, with includes, repositories, and layer sets.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        let errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (config, polls) = (self.config(), self.polls());
        let unread = config.repositories.keys().filter_map(|name| {
            let error = polls.get(name)?.error.as_ref()?;
            Some(format!("cannot read the repository `{name}`: {error}"))
        });
        let moved = self.moved.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let of_catalog = self.catalog.borrow().problems.clone();
        let includes = self.include_errors();
        let followers = self.followed.errors();
        let resources: Vec<String> = self.includes().resources().problems().collect();
        let ailing = self.ailing.sentences();
        errors
            .into_iter()
            .chain(ailing)
            .chain(followers)
            .chain(includes)
            .chain(resources)
            .chain(unread)
            .chain(moved.into_values())
            .chain(of_catalog)
            .collect()
    }

    /// Records the sentence about a repository that has moved, or that it has not moved.
    pub(super) fn moved(&self, repository: &str, sentence: Option<String>) {
        let mut moved = self.moved.lock().unwrap_or_else(PoisonError::into_inner);
        match sentence {
            Some(sentence) => drop(moved.insert(repository.to_owned(), sentence)),
            None => drop(moved.remove(repository)),
        }
    }

    /// The sentence about a repository, if it has moved.
    #[must_use]
    pub fn move_of(&self, repository: &str) -> Option<String> {
        self.moved.lock().unwrap_or_else(PoisonError::into_inner).get(repository).cloned()
    }

    /// Why the last poll of a repository failed.
    pub(super) fn poll_error(&self, repository: &str) -> Option<String> {
        let polls = self.polls.lock().unwrap_or_else(PoisonError::into_inner);
        polls.get(repository).and_then(|poll| poll.error.clone())
    }

    /// Tells the poller of a repository to read it at once.
    #[must_use]
    pub fn due(&self, repository: &str) -> Arc<Notify> {
        let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(due.entry(repository.to_owned()).or_default())
    }

    /// Takes what an earlier server has read, so that layer sets have members before their repository
    /// is read again.
    pub(super) fn recall(&self, data: &DataDirectory) {
        let config = self.config();
        let known = config.repositories.keys().filter_map(|name| {
            let reading: Reading = remembered::recall(&data.mirror(name), READING)?;
            let mut homes = self.homes.lock().unwrap_or_else(PoisonError::into_inner);
            homes.insert(name.clone(), reading.homes.clone());
            // Other globs or another repository have other directories.
            (reading.origin == origin(&config, name)).then(|| (name.clone(), reading))
        });
        self.readings.lock().unwrap_or_else(PoisonError::into_inner).extend(known);
        self.put_together();
    }

    /// The commits of the refs of a repository that were read last, also by an earlier server.
    pub(super) fn heads(&self, repository: &str) -> BTreeMap<String, Commit> {
        let readings = self.readings.lock().unwrap_or_else(PoisonError::into_inner);
        readings.get(repository).map(|reading| reading.heads.clone()).unwrap_or_default()
    }

    /// The directories that names of layers belong to, as far as that is known of a repository.
    pub(super) fn homes(&self, repository: &str) -> BTreeMap<LayerName, String> {
        self.homes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(repository)
            .cloned()
            .unwrap_or_default()
    }

    /// The layers of `reading` that belong to `repository`. Of layers with one name, the catalog uses
    /// the first one, and what another repository contains for the name is not recorded.
    pub(super) fn own_sightings(
        &self,
        repository: &str,
        config: &Config,
        reading: &Reading,
    ) -> Vec<(LayerName, Sighting)> {
        let all = reading.sightings.iter().map(|(name, seen)| (name.clone(), seen.clone()));
        if config.repositories.len() < 2 {
            return all.collect();
        }
        let mut readings = self.readings.lock().unwrap_or_else(PoisonError::into_inner).clone();
        readings.insert(repository.to_owned(), reading.clone());
        let catalog = Catalog::new(config, &readings);
        let is_own = |name: &LayerName| {
            catalog.layers.get(name).is_some_and(|it| it.configured.repository == repository)
        };
        all.filter(|(name, _)| is_own(name)).collect()
    }

    /// Takes what a repository contains. Returns whether layer sets or backends have changed.
    pub(super) fn read(&self, repository: &str, reading: Reading) -> bool {
        if !self.config.borrow().repositories.contains_key(repository) {
            return false;
        }
        let mut readings = self.readings.lock().unwrap_or_else(PoisonError::into_inner);
        let known = readings.get(repository);
        // Most commits change neither the members of layer sets nor backends.
        let is_same = known.is_some_and(|known| {
            known.origin == reading.origin
                && known.directories == reading.directories
                && known.with_backend == reading.with_backend
                && known.state_keys == reading.state_keys
                && known.notes == reading.notes
                && known.homes == reading.homes
                && known.problems == reading.problems
        });
        let mut homes = self.homes.lock().unwrap_or_else(PoisonError::into_inner);
        homes.insert(repository.to_owned(), reading.homes.clone());
        drop(homes);
        readings.insert(repository.to_owned(), reading);
        drop(readings);
        if !is_same {
            self.put_together();
        }
        !is_same
    }

    fn put_together(&self) {
        let readings = self.readings.lock().unwrap_or_else(PoisonError::into_inner);
        let catalog = Catalog::new(&self.config.borrow(), &readings);
        for problem in &catalog.problems {
            tracing::warn!("{problem}");
        }
        self.catalog.send_replace(Arc::new(catalog));
    }

    /// Makes the next poll of a repository begin at once. Returns its number, with which
    /// [`Self::ended_polls`] tells its end.
    pub fn request_poll(&self, repository: &str) -> u64 {
        let next = self.count(repository, |counts| counts.begun + 1);
        self.due(repository).notify_one();
        next
    }

    /// The number of the last poll of a repository that has ended.
    #[must_use]
    pub fn ended_polls(&self, repository: &str) -> u64 {
        self.count(repository, |counts| counts.ended)
    }

    fn count<T>(&self, repository: &str, work: impl FnOnce(&mut PollCounts) -> T) -> T {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        work(counts.entry(repository.to_owned()).or_default())
    }

    /// Notes that a poll of a repository begins.
    pub(super) fn poll_begins(&self, repository: &str) {
        self.count(repository, |counts| counts.begun += 1);
    }

    /// Records the end of a poll. Returns whether it has another error than the last one.
    pub(crate) fn polled(&self, repository: &str, error: Option<String>) -> bool {
        let mut polls = self.polls.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new =
            |last: Option<&Poll>| last.and_then(|last| last.error.as_ref()) != error.as_ref();
        let is_other = error.is_some() && is_new(polls.get(repository));
        let (at, has_succeeded) = (SystemTime::now(), error.is_none());
        polls.insert(repository.to_owned(), Poll { at, error });
        drop(polls);
        self.count(repository, |counts| {
            counts.ended = counts.begun;
            counts.results.add(at, has_succeeded);
        });
        is_other
    }

    /// How the polls of a repository have ended.
    #[must_use]
    pub fn poll_results(&self, repository: &str) -> PollResults {
        self.count(repository, |counts| counts.results)
    }

    /// The last poll of each repository that was polled.
    #[must_use]
    pub fn polls(&self) -> BTreeMap<String, Poll> {
        self.polls.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
