//! Where facts are kept.
//!
//! Each method of [`Store`] is one transaction. It compares what the caller believes with what is
//! stored, and changes nothing if they differ: decisions are made on a snapshot that can be old,
//! and two servers may believe that they are the active one.

mod any;
mod beside;
mod breaker;
#[cfg(test)]
mod contract_tests;
mod cursor;
mod database;
mod decider;
mod error;
mod follower;
mod journal;
mod lock;
mod memory;
mod migrate;
mod needs;
mod note;
mod postgres;
mod record;
mod rename;
mod running;
mod session;
mod sqlite;
mod stored_row;
mod tables;
mod transaction;

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use butler_registry::TokenHash;
use tokio::sync::watch;

use crate::model::{
    Breaker, ChangeCounts, Closed, Commit, DriftKind, Ending, Facts, Former, JournalEntry,
    LayerName, Moment, NewRun, Observation, OpenBreaker, PlanDigest, Run, RunId, SavedPlan, Seen,
    Sighting, StalePlan, StateLock, StateVersion, Unrelated, Upstream, WindowOverride,
};

pub use any::{AnyStore, StoreOpening, StorePlace};
pub use beside::{Cursors, Deciders, Followers, Sessions};
pub use error::{StoreError, StoreResult};
pub use memory::MemoryStore;
pub use migrate::{Migrated, migrate};
pub use note::{Note, Outcome};
pub use postgres::{AddressError, PostgresAddress, PostgresStore};
pub use running::{Running, RunningCount};
pub use sqlite::{SqliteStore, backup, restore};

/// Tells the time of a transaction.
pub type Clock = Arc<dyn Fn() -> Moment + Send + Sync>;

/// Names one attempt of one run.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct AttemptId {
    /// The layer.
    pub layer: LayerName,
    /// The run.
    pub run: RunId,
    /// Its number, which is the fence of its lease.
    pub number: u32,
}

impl std::fmt::Display for AttemptId {
    /// `RUN-NUMBER`: its id in the API for attempts, and the name of its directory.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}-{}", self.run, self.number)
    }
}

/// What the store knows about a layer, read in one transaction.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The time.
    pub now: Moment,
    /// The last reading of the repository.
    pub observation: Option<Observation>,
    /// What happened.
    pub facts: Facts,
    /// The newest run, which decisions may not read.
    pub newest_run: Option<Run>,
    /// The layers that come first.
    pub upstreams: Vec<Upstream>,
    /// How many attempts run, of all layers.
    pub running: Running,
    /// Whether automatic applies are stopped.
    pub breaker: Breaker,
}

/// What an attempt reports when it has ended.
#[derive(Clone, Debug)]
pub struct AttemptResult {
    /// How it ended.
    pub ending: Ending,
    /// The final status that it reported, if it did.
    pub reported: Option<String>,
    /// What a plan saved.
    pub plan: Option<SavedPlan>,
    /// What an apply has changed, if it reported this.
    pub applied: Option<ChangeCounts>,
    /// What a check for drift found: the hash of the difference, if there is one.
    pub difference: Option<String>,
    /// What a check for drift found to differ.
    pub drift_kind: DriftKind,
    /// The hash of the difference between infrastructure and state, if a plan or a check that compares the code found one.
    pub state_difference: Option<String>,
    /// Whether a check for drift has compared the code with the state, because another program has written the state.
    pub compares_code: bool,
    /// The entries of `drift.ignore` that name nothing of the layer, as a check for drift found.
    pub unmatched: Vec<String>,
    /// The findings of a check for drift besides the difference.
    pub seen: Seen,
    /// The version of the state: the one of a plan, or the one that an apply has left.
    pub state: Option<StateVersion>,
    /// Whether an apply changed something.
    pub changed: bool,
    /// Why the plan that it was to apply is stale, if it ended because of that.
    pub stale: Option<StalePlan>,
    /// The lock of the state that it reported.
    pub lock: Option<StateLock>,
    /// Why it failed, in one line that can be shown.
    pub failure: Option<String>,
}

impl AttemptResult {
    /// The attempt ended like this, without anything else to record.
    #[must_use]
    pub fn ended(ending: Ending) -> Self {
        Self {
            ending,
            reported: None,
            plan: None,
            applied: None,
            difference: None,
            drift_kind: DriftKind::None,
            state_difference: None,
            compares_code: false,
            unmatched: Vec::new(),
            seen: Seen::default(),
            state: None,
            changed: false,
            stale: None,
            lock: None,
            failure: None,
        }
    }
}

/// What the store needs of a layer's configuration to start an attempt.
#[derive(Clone, Copy, Debug)]
pub struct StartRequest<'a> {
    /// The attempt.
    pub attempt: &'a AttemptId,
    /// The identity of the state, which no other attempt may use.
    pub state_key: &'a str,
    /// The layers that must be applied at the same commit.
    pub after: &'a [LayerName],
    /// The most attempts at the same time.
    pub concurrency: u32,
    /// The layer's repository.
    pub repository: &'a str,
    /// The most attempts of the repository's layers at the same time, if that is limited.
    pub repository_concurrency: Option<u32>,
    /// How long it may take before it is asked to stop.
    pub timeout: Duration,
    /// Where it will run, for messages.
    pub place: &'a str,
    /// What its process must send with each request.
    pub token: &'a TokenHash,
    /// The fence of the server that decides, if several can. One that is no longer in force starts nothing.
    pub fence: Option<u64>,
}

/// Which entries of the journal are listed.
#[derive(Clone, Debug, Default)]
pub struct EventFilter {
    /// Only those about this layer.
    pub layer: Option<LayerName>,
    /// Only those about drift.
    pub only_drift: bool,
}

/// Which runs of a layer are kept: those that are within both limits.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Keep {
    /// The newest ones of each action.
    pub runs: u32,
    /// Those that were created at most this long ago.
    pub age: Duration,
}

/// The facts of all layers.
pub trait Store: Cursors + Deciders + Followers + Sessions {
    /// Reads what the decision about a layer needs.
    ///
    /// # Errors
    /// If the store does not answer. This holds for all methods.
    fn snapshot(
        &self,
        layer: &LayerName,
        state_key: &str,
        after: &[LayerName],
    ) -> impl Future<Output = StoreResult<Snapshot>> + Send;

    /// A run, and its layer.
    fn run(
        &self,
        run: &RunId,
    ) -> impl Future<Output = StoreResult<Option<(LayerName, Run)>>> + Send;

    /// At most `most` runs of a layer, the newest first: those older than `before`, if it is given.
    fn history(
        &self,
        layer: &LayerName,
        before: Option<&RunId>,
        most: u32,
    ) -> impl Future<Output = StoreResult<Vec<Run>>> + Send;

    /// At most `most` runs of all layers, the newest first: those older than `before`, if it is given.
    fn newest_runs(
        &self,
        before: Option<&RunId>,
        most: u32,
    ) -> impl Future<Output = StoreResult<Vec<(LayerName, Run)>>> + Send;

    /// Removes runs of a layer that are not to be kept, and returns their attempts. Runs that decisions
    /// read are kept, and the last run of each action, and the last one of each that succeeded.
    fn prune(
        &self,
        layer: &LayerName,
        keep: Keep,
    ) -> impl Future<Output = StoreResult<Vec<AttemptId>>> + Send;

    /// Removes all facts and runs of a layer, as if it had never been there. Entries of the journal stay. Refused if it
    /// has none, or if one of its attempts has not ended.
    fn forget(&self, layer: &LayerName) -> impl Future<Output = StoreResult<Outcome>> + Send;

    /// The layers that have an attempt without an end, also those that are no longer configured.
    fn busy(&self) -> impl Future<Output = StoreResult<Vec<LayerName>>> + Send;

    /// The layers that have facts, by name: also those that are no longer configured.
    fn layers(&self) -> impl Future<Output = StoreResult<Vec<LayerName>>> + Send;

    /// The commits that the facts of layers are about, and that attempts may still need: read,
    /// applied, and those of runs that are not over.
    fn commits(&self) -> impl Future<Output = StoreResult<Vec<Commit>>> + Send;

    /// How often something new was read from a repository. It is asked before the repository is
    /// read.
    fn readings(&self, repository: &str) -> impl Future<Output = StoreResult<u64>> + Send;

    /// The last observation of each of these layers. Layers that were not read yet are left out.
    fn observations(
        &self,
        layers: &[LayerName],
    ) -> impl Future<Output = StoreResult<BTreeMap<LayerName, Observation>>> + Send;

    /// Records what a repository contains, unless something newer was recorded since `readings` was
    /// asked. A layer whose digest differs from the last one has changed once more; if nothing is
    /// new, nothing is written. `unrelated` has the pairs of commits without a known common ancestor: the
    /// commit of a layer that was read last, or before a break in its history, and the one that is read now.
    fn observe(
        &self,
        repository: &str,
        readings: u64,
        sightings: &[(LayerName, Sighting)],
        unrelated: &[Unrelated],
    ) -> impl Future<Output = StoreResult<Outcome>> + Send;

    /// Inserts a run if there is none with its id and its change is still the current one.
    fn insert_run(
        &self,
        layer: &LayerName,
        run: NewRun,
    ) -> impl Future<Output = StoreResult<Outcome>> + Send;

    /// Records a new attempt and its lease, if the run waits, the attempt is its next one, the
    /// layer's change is the run's, the plan that it applies is valid, the state is free, upstream
    /// layers are applied, fewer attempts run than both limits allow, and no automatic apply is stopped by
    /// the breaker.
    fn start_attempt(
        &self,
        request: StartRequest<'_>,
    ) -> impl Future<Output = StoreResult<Outcome>> + Send;

    /// Gives a run that waits no further attempts.
    fn close_run(
        &self,
        layer: &LayerName,
        run: &RunId,
        why: Closed,
    ) -> impl Future<Output = StoreResult<Outcome>> + Send;

    /// Records something about an attempt that has not ended.
    fn note(
        &self,
        attempt: &AttemptId,
        note: Note,
    ) -> impl Future<Output = StoreResult<Outcome>> + Send;

    /// Records the end of an attempt that has not ended, with what follows from it, and frees its
    /// lease. An end without a report ([`Ending::Lost`], [`Ending::NeverStarted`]) is refused unless
    /// its process is known to be gone. An attempt that was asked to stop and did not succeed is
    /// recorded as stopped, however it ended.
    fn finish(
        &self,
        attempt: &AttemptId,
        result: AttemptResult,
    ) -> impl Future<Output = StoreResult<Outcome>> + Send;

    /// Records the approval of a plan in the run that applies it, and inserts this run if it does
    /// not exist. Refused unless the plan has this digest, is the newest one of the layer's current
    /// change, and can be applied. A repeated approval is refused too, and changes nothing.
    fn approve(
        &self,
        layer: &LayerName,
        plan: &PlanDigest,
        by: &str,
    ) -> impl Future<Output = StoreResult<Outcome>> + Send;

    /// Records that an administrator lets a run start although a window forbids its action. Refused if the run
    /// does not wait, or was let already.
    fn override_window(
        &self,
        layer: &LayerName,
        run: &RunId,
        given: WindowOverride,
    ) -> impl Future<Output = StoreResult<Outcome>> + Send;

    /// Records that a person discards a plan: it is never applied. Refused unless the plan can be applied, and no
    /// attempt to do that was started.
    fn discard(
        &self,
        layer: &LayerName,
        plan: &PlanDigest,
        by: &str,
    ) -> impl Future<Output = StoreResult<Outcome>> + Send;

    /// The layer `formerly`, if `layer` is to take over its history: something is known of it, and no attempt of
    /// `layer` was ever started.
    fn former(
        &self,
        layer: &LayerName,
        formerly: &LayerName,
    ) -> impl Future<Output = StoreResult<Option<Former>>> + Send;

    /// Moves history, applied revision and known drift of `formerly` to `layer`. Refused if
    /// [`Store::former`] says that this is not to be done, if `layer` was not read yet, or if an attempt of
    /// `formerly` has not ended. Nothing of `layer` starts until [`Store::files_moved`]. Plans that wait
    /// become stale.
    fn take_over(
        &self,
        layer: &LayerName,
        formerly: &LayerName,
    ) -> impl Future<Output = StoreResult<Outcome>> + Send;

    /// Records that the files of the earlier names of `layer` were moved.
    fn files_moved(&self, layer: &LayerName) -> impl Future<Output = StoreResult<Outcome>> + Send;

    /// Pauses a layer (by this person), or resumes it.
    fn pause(
        &self,
        layer: &LayerName,
        by: Option<&str>,
    ) -> impl Future<Output = StoreResult<()>> + Send;

    /// Whether automatic applies are stopped: the last ones that ended have failed, of all layers.
    fn breaker(&self) -> impl Future<Output = StoreResult<Breaker>> + Send;

    /// The breaker if it is open, with the failures that have opened it.
    fn open_breaker(&self) -> impl Future<Output = StoreResult<Option<OpenBreaker>>> + Send;

    /// Records that a person allows automatic applies again, and counts their failures from 0 on. Refused if
    /// the breaker is not open.
    fn reset_breaker(&self, by: &str) -> impl Future<Output = StoreResult<Outcome>> + Send;

    /// At most `limit` entries of the journal with a sequence greater than `after`, the oldest first,
    /// of all layers or of one. Each transaction records its entries itself, so none is missing.
    fn events(
        &self,
        after: Option<u64>,
        layer: Option<&LayerName>,
        limit: u32,
    ) -> impl Future<Output = StoreResult<Vec<JournalEntry>>> + Send;

    /// At most `limit` entries of the journal with a sequence less than `before`, the newest first.
    fn newest_events(
        &self,
        before: u64,
        filter: &EventFilter,
        limit: u32,
    ) -> impl Future<Output = StoreResult<Vec<JournalEntry>>> + Send;

    /// Removes entries of the journal that were recorded before `older_than`.
    fn prune_events(&self, older_than: Moment) -> impl Future<Output = StoreResult<()>> + Send;

    /// The sequence of the last entry of the journal, 0 without one. It changes after the entry can
    /// be read.
    fn journal(&self) -> watch::Receiver<u64>;
}
