//! Brings the entries of the journal to one receiver, in their order.

use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};
use url::Url;

use super::delivery::{Answer, Transport};
use super::meaning::{Known, can_mean, meanings};
use super::message::{Delivery, Notification};
use super::receiver::Receiver;
use super::retry::{is_expired, next_try};
use crate::layers::Catalog;
use crate::metrics::{DeliveryResult, NotificationMetrics};
use crate::model::{JournalEntry, LayerName, Run};
use crate::store::{Clock, Snapshot, Store, StoreResult};

/// How many entries of the journal are read at once.
const ENTRIES: u32 = 200;

/// How many earlier runs of a layer are read, to find out whether one of them failed.
const EARLIER_RUNS: u32 = 50;

/// The wait after the store did not answer.
const STORE_AGAIN: Duration = Duration::from_secs(5);

/// How long repositories are waited for that were not read yet, after the server has started.
const UNREAD: Duration = Duration::from_mins(5);

/// What the outboxes of all receivers share.
pub(super) struct Shared<S, T> {
    pub(super) store: Arc<S>,
    pub(super) transport: T,
    pub(super) catalogs: watch::Receiver<Arc<Catalog>>,
    pub(super) metrics: Arc<NotificationMetrics>,
    pub(super) public_url: Option<Url>,
    pub(super) clock: Clock,
}

/// One receiver, and how far it has come.
pub(super) struct Outbox<S, T> {
    shared: Arc<Shared<S, T>>,
    /// `None` while the configuration does not have it. The outbox ends when the sender is dropped.
    receivers: watch::Receiver<Option<Arc<Receiver>>>,
    journal: watch::Receiver<u64>,
    /// The last entry of the journal that needs nothing more.
    done: u64,
    /// The cursor in the store. It can be older than `done` if the store did not answer.
    stored: u64,
    began: Instant,
}

/// Whether an outbox has reached the end of the journal.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Round {
    AtEnd,
    Open,
}

impl<S: Store + 'static, T: Transport> Outbox<S, T> {
    pub(super) fn new(
        shared: Arc<Shared<S, T>>,
        receivers: watch::Receiver<Option<Arc<Receiver>>>,
    ) -> Self {
        let journal = shared.store.journal();
        Self { shared, receivers, journal, done: 0, stored: 0, began: Instant::now() }
    }

    /// Delivers until the sender of the receiver is dropped, but never ends between an acknowledgement and its record.
    pub(super) async fn run(mut self) {
        loop {
            let receiver = self.receivers.borrow_and_update().clone();
            if let Some(receiver) = receiver {
                self.serve(&receiver).await;
            } else {
                // The error is found below.
                let _ = self.receivers.changed().await;
            }
            if self.receivers.has_changed().is_err() {
                return;
            }
        }
    }

    /// Whether the receiver was changed or removed, or the server ends.
    fn is_changed(&self) -> bool {
        self.receivers.has_changed().unwrap_or(true)
    }

    /// Delivers until the receiver changes.
    async fn serve(&mut self, receiver: &Receiver) {
        let mut is_known = false;
        while !self.is_changed() {
            // Before the journal is read: an entry that is recorded after that wakes the wait below.
            self.journal.mark_unchanged();
            let round = match self.begin(receiver, &mut is_known).await {
                Ok(()) => self.round(receiver).await,
                Err(error) => Err(error),
            };
            match round {
                Ok(Round::Open) => {}
                Ok(Round::AtEnd) => tokio::select! {
                    changed = self.journal.changed() => if changed.is_err() {
                        // The store is being closed.
                        let _ = self.receivers.changed().await;
                        return;
                    },
                    _ = self.receivers.changed() => return,
                },
                Err(error) => {
                    tracing::warn!(receiver = receiver.name, %error, "notifications wait for the store");
                    tokio::select! {
                        () = sleep(STORE_AGAIN) => {}
                        _ = self.receivers.changed() => return,
                    }
                }
            }
        }
    }

    /// Reads the cursor, unless it is known.
    async fn begin(&mut self, receiver: &Receiver, is_known: &mut bool) -> StoreResult<()> {
        if !*is_known {
            self.stored = self.shared.store.cursor(&receiver.name).await?;
            // What was acknowledged while the store did not answer is not sent again.
            self.done = self.done.max(self.stored);
            *is_known = true;
        }
        Ok(())
    }

    /// Handles the next entries of the journal.
    async fn round(&mut self, receiver: &Receiver) -> StoreResult<Round> {
        self.record(receiver).await?;
        let entries = self.shared.store.events(Some(self.done), None, ENTRIES).await?;
        let round = if entries.is_empty() { Round::AtEnd } else { Round::Open };
        for entry in &entries {
            let notification = self.notification(receiver, entry).await?;
            if self.is_changed() {
                break;
            }
            if let Some(notification) = notification {
                let id = delivery_id(&receiver.name, entry);
                let url = self.shared.public_url.as_ref();
                if !self.deliver(receiver, &Delivery::new(id, notification, url)).await {
                    break;
                }
                self.done = entry.sequence;
                // At once: an end of the server after that would not repeat it.
                self.record(receiver).await?;
            }
            self.done = entry.sequence;
        }
        // Also what means nothing: with another configuration, it could.
        self.record(receiver).await?;
        Ok(round)
    }

    /// Stores the cursor, unless it is stored.
    async fn record(&mut self, receiver: &Receiver) -> StoreResult<()> {
        if self.stored < self.done {
            self.shared.store.advance_cursor(&receiver.name, self.done).await?;
            self.stored = self.done;
        }
        Ok(())
    }

    /// What the receiver is told about an entry.
    async fn notification(
        &self,
        receiver: &Receiver,
        entry: &JournalEntry,
    ) -> StoreResult<Option<Notification>> {
        if !can_mean(&entry.change.what) {
            return Ok(None);
        }
        let known = self.known(entry).await?;
        let mut all = meanings(entry, &known).into_iter();
        Ok(all.find(|meaning| receiver.wants(meaning.event, &meaning.layer)))
    }

    async fn known(&self, entry: &JournalEntry) -> StoreResult<Known> {
        let store = &self.shared.store;
        let found = match &entry.change.run {
            Some(run) => store.run(run).await?,
            None => None,
        };
        // A layer that was renamed since has its history under the new name.
        let layer = found.as_ref().map_or(&entry.layer, |(layer, _)| layer).clone();
        let run = found.map(|(_, run)| run);
        let catalog = self.catalog(&layer).await;
        let configured = catalog.layers.get(&layer).map(|source| &source.configured);
        let mut known = Known {
            configured: configured.map(|configured| configured.layer.clone()),
            older: Vec::new(),
            is_undecided: false,
            layer,
            run: run.clone(),
        };
        if let Some(run) = run {
            let older = store.history(&known.layer, Some(&run.id), EARLIER_RUNS).await?;
            known.older = older.into_iter().rev().collect();
            if run.plan.is_some() {
                let key = configured.map(|configured| configured.state_key.as_str());
                let key = key.unwrap_or_default();
                let snapshot = store.snapshot(&known.layer, key, &[]).await?;
                known.is_undecided = is_undecided(&snapshot, &run);
            }
        }
        Ok(known)
    }

    /// The layers. After a start of the server, those of layer sets are missing until their repository was read,
    /// which is waited for.
    async fn catalog(&self, layer: &LayerName) -> Arc<Catalog> {
        let mut catalogs = self.shared.catalogs.clone();
        let is_known = |catalog: &Arc<Catalog>| !catalog.may_be_missing(layer);
        let mut receivers = self.receivers.clone();
        tokio::select! {
            _ = catalogs.wait_for(is_known) => {}
            _ = receivers.changed() => {}
            () = sleep_until(self.began + UNREAD) => {}
        }
        self.shared.catalogs.borrow().clone()
    }

    /// Tries until the receiver has the notification, or it is dropped. Returns `false` if the receiver changes before
    /// that, or the server ends.
    async fn deliver(&mut self, receiver: &Receiver, delivery: &Delivery) -> bool {
        let shared = Arc::clone(&self.shared);
        let count = |result| shared.metrics.count(&receiver.name, result);
        let Delivery { id, notification, .. } = delivery;
        let (name, layer, event) =
            (&receiver.name, &notification.layer, notification.event.as_str());
        let dropped = |why: &str| {
            count(DeliveryResult::Dropped);
            tracing::error!(receiver = name, delivery = id, %layer, event, "a notification is dropped: {why}");
            true
        };
        let at = notification.at;
        if is_expired(at, (shared.clock)()) {
            return dropped("it is older than a day");
        }
        let mut failures = 0;
        loop {
            let (why, asked) = match shared.transport.send(receiver, delivery).await {
                Answer::Acknowledged => {
                    count(DeliveryResult::Delivered);
                    return true;
                }
                Answer::Refused(why) => return dropped(&why),
                Answer::Failed(why, asked) => (why, asked),
            };
            count(DeliveryResult::Failed);
            failures += 1;
            let now = (shared.clock)();
            let Some(due) = next_try(id, at, now, failures, asked) else {
                return dropped(&format!("it could not be delivered within a day; {why}"));
            };
            // The first one tells that something is wrong.
            if failures == 1 {
                tracing::warn!(receiver = name, delivery = id, %layer, event, "a notification is tried again: {why}");
            } else {
                tracing::debug!(
                    receiver = name,
                    delivery = id,
                    failures,
                    "a notification is tried again: {why}"
                );
            }
            tokio::select! {
                () = sleep(due.since(now)) => {}
                _ = self.receivers.changed() => {
                    // The loop of the outbox reads the change again.
                    self.receivers.mark_changed();
                    return false;
                }
            }
        }
    }
}

/// Whether the plan that `run` has made still waits for a person.
pub(super) fn is_undecided(snapshot: &Snapshot, run: &Run) -> bool {
    let runs = &snapshot.facts.runs;
    let newest = runs.iter().rev().find(|other| other.plan.is_some());
    let change = snapshot.observation.as_ref().map(|known| known.change);
    newest.is_some_and(|newest| newest.id == run.id)
        && change == Some(run.change)
        && run.plan.as_ref().is_some_and(crate::model::SavedPlan::is_valid)
        && !runs.iter().any(|other| {
            other.applies(run) && (other.approved_by.is_some() || !other.attempts.is_empty())
        })
}

/// The same for each try. It contains the entry and not only its sequence, which a restored backup uses again.
fn delivery_id(receiver: &str, entry: &JournalEntry) -> String {
    let change = serde_json::to_string(&entry.change).unwrap_or_default();
    let (sequence, at) = (entry.sequence.to_string(), entry.at.as_millis().to_string());
    let mut hash = Sha256::new();
    for part in [receiver, &sequence, &at, entry.layer.as_str(), &change] {
        // The length separates the parts.
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hex::encode(&hash.finalize()[..16])
}
