//! Keeps the mirror of one repository up to date, and records what it contains.

mod address;
mod failures;
mod fetch;
mod history;
mod moved;
mod submodules;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use butler_base::blocking::blocking;
use butler_base::cancel::Stop;
use butler_base::error::{Advice as _, chain};
use butler_source::git::{GitEnvironment, SourceError};
use tokio::sync::mpsc;

use self::address::Asked;
use self::failures::Failures;
use super::desired::Desired;
use super::followed::Polled;
use super::read_includes::read_includes;
use super::remembered;
use crate::attempts::{SecretError, Secrets};
use crate::config::{Config, RepositoryEntry};
use crate::data::DataDirectory;
use crate::event::Event;
use crate::layers::{Caches, Heads, Reading, read, references};
use crate::metrics::PollDurations;
use crate::mirror::TreeError;
use crate::model::{Commit, LayerName};
use crate::store::{Outcome, Store, StoreError};
use crate::webhooks::Deliveries;

/// The time between two polls, if the configuration gives none.
const POLL: Duration = Duration::from_mins(1);

/// How often an update is repeated in one poll because what it fetched has changed the configuration.
const MOST_UPDATES: u32 = 3;

/// How long one update of a mirror may take.
const DEADLINE: Duration = Duration::from_mins(10);

/// A repository could not be read.
#[derive(Debug, thiserror::Error)]
pub enum PollError {
    /// The configuration no longer has it.
    #[error("the repository is no longer in the configuration")]
    Removed,
    /// Its credentials.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// Git.
    #[error(transparent)]
    Git(#[from] SourceError),
    /// It took too long.
    #[error("the repository did not answer completely within {} minutes", DEADLINE.as_secs() / 60)]
    TooSlow,
    /// Included configuration.
    #[error(
        "the included configuration has changed during {MOST_UPDATES} readings; it is read again"
    )]
    Unsteady,
    /// Its content.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// Its mirror.
    #[error("cannot open the mirror of the repository: {0}")]
    Mirror(String),
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl PollError {
    /// The pause that the host asks for.
    const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Git(error) => error.retry_after(),
            _ => None,
        }
    }

    /// The error with its causes and with advice, in one line.
    pub(super) fn describe(&self) -> String {
        let advice = match self {
            Self::Git(error) => error.advice(),
            _ => None,
        };
        let text = chain(self);
        advice.map_or_else(|| text.clone(), |advice| format!("{text}; {advice}"))
    }
}

/// What polls need beside the repository.
#[derive(Debug)]
pub(super) struct PollSettings {
    pub(super) data: DataDirectory,
    pub(super) secrets: Secrets,
    pub(super) git: GitEnvironment,
    /// For repositories that an include has defined.
    pub(super) git_of_includes: GitEnvironment,
    /// The most memory of the process that fetches, in bytes.
    pub(super) mirror_memory: u64,
    /// What git hosts tell about commits.
    pub(super) deliveries: Arc<Deliveries>,
    /// How long polls took.
    pub(super) durations: Arc<PollDurations>,
}

/// Polls one repository.
pub(super) struct Poller<S> {
    name: String,
    store: Arc<S>,
    settings: Arc<PollSettings>,
    desired: Arc<Desired>,
    events: mpsc::UnboundedSender<Event>,
    /// What was read last, and for which configuration.
    last: Option<Last>,
    /// What the store needed after that.
    kept: Vec<Commit>,
    caches: Arc<Mutex<Caches>>,
    /// The last question whether the repository has moved.
    asked: Mutex<Option<Asked>>,
}

/// A reading that needs not be repeated.
struct Last {
    config: Arc<Config>,
    heads: Heads,
    reading: Reading,
}

impl<S: Store + 'static> Poller<S> {
    pub(super) fn new(
        name: &str,
        store: Arc<S>,
        settings: Arc<PollSettings>,
        desired: Arc<Desired>,
        events: mpsc::UnboundedSender<Event>,
    ) -> Self {
        let (name, last, kept, caches) = (name.to_owned(), None, Vec::new(), Arc::default());
        let asked = Mutex::default();
        Self { name, store, settings, desired, events, last, kept, caches, asked }
    }

    /// Polls until `stop`, or until the repository is removed from the configuration.
    pub(super) async fn run(mut self, stop: &Stop) {
        let (mut config, due) = (self.desired.configs(), self.desired.due(&self.name));
        let mut registry = self.desired.followed.registries();
        let mut failures = Failures::default();
        // When the last poll that a delivery has caused began, and whether a delivery causes the next one.
        let (mut followed, mut is_delivered) = (None, false);
        loop {
            registry.borrow_and_update();
            let current = config.borrow_and_update().clone();
            let Some(entry) = current.repositories.get(&self.name) else { return };
            let poll = entry.entry.poll.map_or(POLL, |span| span.0);
            self.desired.poll_begins(&self.name);
            let begun = Instant::now();
            if std::mem::take(&mut is_delivered) {
                followed = Some(begun);
            }
            let ended = self.poll(stop).await;
            self.settings.durations.observe(ended.is_ok(), begun.elapsed());
            self.desired.log_include_errors();
            let deliveries = &self.settings.deliveries;
            let error = ended.as_ref().err().map(PollError::describe);
            // What was delivered before a poll that failed is read with the next one.
            let pause = if let Some(error) = &error {
                failures.failed(&self.name, error);
                let asked = ended.as_ref().err().and_then(PollError::retry_after);
                failures.pause(&self.name, poll, asked)
            } else {
                failures.succeeded(&self.name);
                deliveries.interval(&self.name, poll)
            };
            if self.desired.polled(&self.name, error) {
                // The receiver is gone when the server stops.
                let _ = self.events.send(Event::Unread(self.name.clone()));
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = due.notified() => {}
                () = deliveries.due(&self.name, followed) => is_delivered = true,
                changed = config.changed() => if changed.is_err() { return },
                // Other branches can be followed now.
                changed = registry.changed() => if changed.is_err() { return },
                _ = stop.requested() => return,
            }
        }
    }

    /// Updates the mirror, and records what is new.
    ///
    /// # Errors
    /// If the repository cannot be read. What was read before stays in force.
    pub(super) async fn poll(&mut self, stop: &Stop) -> Result<(), PollError> {
        // Asked before the repository is read: what another server reads meanwhile is newer.
        let readings = self.store.readings(&self.name).await?;
        // Those that are fetched in addition must stay, too.
        if self.kept.is_empty() || !self.desired.wanted.awaited(&self.name).is_empty() {
            self.kept = self.store.commits().await?;
        }
        let (config, heads) = self.update(stop).await?;
        let is_known =
            |last: &&Last| Arc::ptr_eq(&last.config, &config) && last.heads.is_same(&heads);
        let known = self.last.as_ref().filter(is_known);
        // Submodules that could not be fetched are tried again.
        if known.is_some_and(|last| last.heads.left_out.is_empty()) {
            return Ok(());
        }
        let (reading, left_out) = self.read_with_submodules(&config, &heads, stop).await?;
        if known.is_some_and(|last| last.heads.left_out == left_out && last.reading == reading) {
            return Ok(());
        }
        self.log_submodules(&reading, &left_out);
        let heads = Heads { left_out, ..heads };
        let sightings = self.desired.own_sightings(&self.name, &config, &reading);
        let unrelated = self.unrelated(&config, &heads, &sightings, stop).await?;
        let observed = self.store.observe(&self.name, readings, &sightings, &unrelated).await?;
        if observed == Outcome::Refused {
            // Another server has read something newer. The next poll reads it too.
            return Ok(());
        }
        let before = self.last.as_ref().map(|last| &last.reading);
        let changed: Vec<LayerName> = sightings
            .into_iter()
            .filter(|(name, sighting)| {
                before.is_none_or(|before| before.sightings.get(name) != Some(sighting))
            })
            .map(|(name, _)| name)
            .collect();
        let is_first = before.is_none();
        // Layer sets can have other members. The scheduler looks at all layers then.
        let has_moved = self.desired.heads(&self.name) != reading.heads;
        let is_new = self.desired.read(&self.name, reading.clone()) || has_moved;
        self.remember(reading.clone(), is_new).await;
        for layer in changed {
            // The receiver is gone when the server stops.
            let event = if is_first { Event::FirstRead(layer) } else { Event::Changed(layer) };
            let _ = self.events.send(event);
        }
        self.last = Some(Last { config, heads, reading });
        self.kept = self.store.commits().await?;
        Ok(())
    }

    /// Updates the mirror, and reads its includes, which can need further commits. Returns the
    /// configuration, and the commits that it needs.
    async fn update(&self, stop: &Stop) -> Result<(Arc<Config>, Heads), PollError> {
        for _ in 0..MOST_UPDATES {
            let config = self.desired.config();
            let entry = config.repositories.get(&self.name).ok_or(PollError::Removed)?;
            let heads = self.update_mirror(&config, &entry.entry, stop).await?;
            let (desired, name) = (Arc::clone(&self.desired), self.name.clone());
            let (directory, commits) = (self.directory(), heads.commits.clone());
            let work = move || read_includes(&desired, &directory, &name, &commits);
            if !blocking(move |_| work()).await? {
                return Ok((config, heads));
            }
        }
        Err(PollError::Unsteady)
    }

    /// Keeps what layer sets contain for the next server.
    async fn remember(&self, reading: Reading, is_new: bool) {
        let directory = self.directory();
        let kept =
            blocking(move |_| remembered::remember_reading(&directory, &reading, is_new)).await;
        if let Err(error) = kept {
            tracing::warn!(repository = self.name, %error, "cannot keep what a repository contains");
        }
    }

    /// The commits that the mirror must not forget. New runs are about those that were read last, or
    /// about those that the store had named then. Includes are read again at the last valid commit.
    fn keep(&self) -> Vec<String> {
        let includes = self.desired.includes_of(&self.name);
        let valid = self.desired.valid_includes(&includes).into_iter().map(|(_, commit)| commit);
        let valid = valid.map(|commit| commit.to_string()).collect::<Vec<_>>();
        let last = self.last.iter().flat_map(|last| last.heads.commits.values().flatten());
        self.kept.iter().chain(last).map(ToString::to_string).chain(valid).collect()
    }

    /// Updates the mirror. Returns the commits that the configuration needs; followers get the heads of their branches,
    /// and attempts the commits that are wanted.
    async fn update_mirror(
        &self,
        config: &Config,
        entry: &RepositoryEntry,
        stop: &Stop,
    ) -> Result<Heads, PollError> {
        let begun = self.store.clock().await?;
        let needed = references(config, &self.name);
        let followed = self.desired.followed.branches(config, &self.name);
        let commits = self.desired.wanted.awaited(&self.name);
        let mut wanted: BTreeSet<String> = needed.union(&followed).cloned().collect();
        wanted.extend(commits.iter().map(ToString::to_string));
        let has_more = wanted.len() > needed.len();
        // Includes are read before layers are known, and runs at other commits when layers are read no more.
        let mut submodules = BTreeMap::<String, BTreeSet<String>>::new();
        for include in config.include_sources().iter().filter(|it| it.repository == self.name) {
            submodules.entry(include.reference.clone()).or_default().insert(include.path.clone());
        }
        for commit in &commits {
            submodules.entry(commit.to_string()).or_default().insert(String::new());
        }
        let mut found = self.fetch(config, entry, wanted, submodules.clone(), stop).await;
        let mut error = found.as_ref().err().map(PollError::describe);
        if let Err(PollError::Git(_) | PollError::TooSlow) = found
            && has_more
            && !needed.is_empty()
        {
            // Layers do not depend on a branch that only a follower needs, or on a commit of one run.
            let repository = &self.name;
            let why = error.as_deref().unwrap_or_default();
            tracing::warn!(
                repository,
                "cannot read branches of followers, or commits of runs: {why}"
            );
            found = self.fetch(config, entry, needed.clone(), submodules, stop).await;
            error = found.as_ref().err().map(PollError::describe).or(error);
        }
        let heads = found.iter().flat_map(|found| &found.commits);
        let heads = heads.filter(|(name, _)| followed.contains(*name));
        let heads = heads.map(|(name, commit)| (name.clone(), commit.clone())).collect();
        self.desired.followed.found(&self.name, Polled { heads, error, begun });
        let mut found = found?;
        let moved = self.moved(config, entry, stop).await?;
        self.desired.moved(&self.name, moved.clone());
        for commit in &commits {
            if let Some(answer) = found.commits.get(commit.as_str()) {
                self.desired.wanted.found(&self.name, commit, answer.is_some());
            }
        }
        found.commits.retain(|name, _| needed.contains(name));
        found.notes.retain(|name, _| needed.contains(name));
        let kept: BTreeSet<&Commit> = found.commits.values().flatten().collect();
        found.left_out.retain(|commit, _| kept.contains(commit));
        if let Some(moved) = moved {
            for name in needed {
                let notes = found.notes.remove(&name).into_iter().chain([moved.clone()]);
                found.notes.insert(name, notes.collect::<Vec<_>>().join("; "));
            }
        }
        Ok(found)
    }

    fn directory(&self) -> PathBuf {
        self.settings.data.mirror(&self.name)
    }

    async fn read(&self, config: &Arc<Config>, heads: &Heads) -> Result<Reading, PollError> {
        let (config, name, heads) = (Arc::clone(config), self.name.clone(), heads.clone());
        let (directory, caches) = (self.directory(), Arc::clone(&self.caches));
        let work = move || {
            let mirror = git2::Repository::open_bare(&directory)
                .map_err(|error| PollError::Mirror(error.message().to_owned()))?;
            let mut caches = caches.lock().unwrap_or_else(PoisonError::into_inner);
            Ok(read(&config, &name, &mirror, &heads, &mut caches)?)
        };
        blocking(move |_| work()).await
    }
}

/// Polls each repository once, also those that includes define. Returns why repositories cannot be read,
/// by their names.
pub(super) async fn poll_each<S: Store + 'static>(
    desired: &Desired,
    poller: impl Fn(&str) -> Poller<S>,
    stop: &Stop,
) -> BTreeMap<String, String> {
    let (mut done, mut unread) = (BTreeSet::new(), BTreeMap::new());
    let next = |done: &BTreeSet<String>| {
        desired.config().repositories.keys().find(|name| !done.contains(*name)).cloned()
    };
    while let Some(name) = next(&done) {
        if let Err(error) = poller(&name).poll(stop).await {
            unread.insert(name.clone(), error.describe());
        }
        done.insert(name);
    }
    unread
}
