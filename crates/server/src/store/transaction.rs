//! What a database has to offer for the transactions of [`Store`](super::Store).

use butler_registry::TokenHash;

use super::journal::changes;
use super::record::Record;
use super::{EventFilter, Outcome, Running, StoreResult};
use crate::model::{
    Commit, DeciderLease, JournalChange, JournalEntry, LayerName, Lease, Moment, Run, RunId,
    Session, StoredFollower,
};

/// One transaction of a database. Nothing that it does is visible to others before it ends, and
/// nothing remains if it ends with an error.
pub(super) trait Tables {
    /// The time of the transaction.
    fn now(&self) -> Moment;

    /// The facts of a layer; those of an unknown one are empty. Runs that decisions do not read are
    /// left out ([`Record::needs`]).
    fn record(&mut self, layer: &LayerName) -> StoreResult<Record>;

    /// Writes what differs between `before` and `after`, also what runs are needed for.
    fn write(&mut self, layer: &LayerName, before: &Record, after: &Record) -> StoreResult<()>;

    /// A run with its layer, also one that [`Tables::record`] leaves out.
    fn run(&mut self, run: &RunId) -> StoreResult<Option<(LayerName, Run)>>;

    /// The newest runs of a layer that are older than `before`, the newest first.
    fn history(
        &mut self,
        layer: &LayerName,
        before: Option<&RunId>,
        most: u32,
    ) -> StoreResult<Vec<Run>>;

    /// The newest runs of all layers that are older than `before`, the newest first.
    fn newest_runs(
        &mut self,
        before: Option<&RunId>,
        most: u32,
    ) -> StoreResult<Vec<(LayerName, Run)>>;

    /// Removes a run that decisions do not read.
    fn remove_run(&mut self, layer: &LayerName, run: &RunId) -> StoreResult<()>;

    /// The commits of all layers and of runs that are not over ([`Record::needs`]), each once.
    fn commits(&mut self) -> StoreResult<Vec<Commit>>;

    /// The layers that have an attempt without an end.
    fn busy(&mut self) -> StoreResult<Vec<LayerName>>;

    /// The layers that have a record, by name.
    fn layers(&mut self) -> StoreResult<Vec<LayerName>>;

    /// The lease on a state.
    fn lease(&mut self, state_key: &str) -> StoreResult<Option<Lease>>;

    /// Gives the facts and runs of a layer to another one, whose facts are replaced. It has no runs.
    fn rename(&mut self, from: &LayerName, to: &LayerName) -> StoreResult<()>;

    /// Removes the facts and the runs of a layer.
    fn forget(&mut self, layer: &LayerName) -> StoreResult<()>;

    /// Records a lease on a state that has none.
    fn insert_lease(&mut self, state_key: &str, lease: &Lease) -> StoreResult<()>;

    /// Removes a lease, if it exists.
    fn remove_lease(&mut self, lease: &Lease) -> StoreResult<()>;

    /// How many attempts run.
    fn running(&mut self) -> StoreResult<Running>;

    /// The value of a counter, which begins at 0.
    fn counter(&mut self, name: &str) -> StoreResult<u64>;

    /// Increments a counter.
    fn count(&mut self, name: &str) -> StoreResult<()>;

    /// Sets a counter to 0.
    fn clear(&mut self, name: &str) -> StoreResult<()>;

    /// A session, by the hash of its cookie.
    fn session(&mut self, id: TokenHash) -> StoreResult<Option<Session>>;

    /// All sessions.
    fn sessions(&mut self) -> StoreResult<Vec<(TokenHash, Session)>>;

    /// Writes a session, in place of an earlier state of it.
    fn write_session(&mut self, id: TokenHash, session: Session) -> StoreResult<()>;

    /// Removes a session, if it exists.
    fn remove_session(&mut self, id: TokenHash) -> StoreResult<()>;

    /// The cursor of a receiver of notifications.
    fn receiver(&mut self, name: &str) -> StoreResult<Option<u64>>;

    /// The names of all receivers that have a cursor.
    fn receivers(&mut self) -> StoreResult<Vec<String>>;

    /// Writes a cursor, in place of an earlier one.
    fn write_receiver(&mut self, name: &str, cursor: u64) -> StoreResult<()>;

    /// Removes a cursor, if it exists.
    fn remove_receiver(&mut self, name: &str) -> StoreResult<()>;

    /// The record of a follower.
    fn follower(&mut self, id: &str) -> StoreResult<Option<StoredFollower>>;

    /// All records of followers, in the order of their ids.
    fn followers(&mut self) -> StoreResult<Vec<StoredFollower>>;

    /// Writes the record of a follower, in place of an earlier version.
    fn write_follower(&mut self, follower: &StoredFollower) -> StoreResult<()>;

    /// The lease of the server that decides, or decided last.
    fn decider(&mut self) -> StoreResult<Option<DeciderLease>>;

    /// Writes this lease, in place of an earlier one.
    fn write_decider(&mut self, lease: &DeciderLease) -> StoreResult<()>;

    /// The sequence of the last entry of the journal, also if it was removed; 0 without one.
    fn last_sequence(&mut self) -> StoreResult<u64>;

    /// At most `limit` entries of the journal with a sequence greater than `after`, the oldest first, of all
    /// layers or of one.
    fn events(
        &mut self,
        after: Option<u64>,
        layer: Option<&LayerName>,
        limit: u32,
    ) -> StoreResult<Vec<JournalEntry>>;

    /// At most `limit` entries of the journal with a sequence less than `before`, the newest first.
    fn newest_events(
        &mut self,
        before: u64,
        filter: &EventFilter,
        limit: u32,
    ) -> StoreResult<Vec<JournalEntry>>;

    /// Removes entries of the journal that were recorded before `older_than`.
    fn prune_events(&mut self, older_than: Moment) -> StoreResult<()>;

    /// Appends an entry to the journal, with the time of the transaction.
    fn append(&mut self, layer: &LayerName, change: JournalChange) -> StoreResult<()>;
}

/// Changes the record of a layer, and writes it with its entries of the journal if it was changed.
pub(super) fn update(
    tables: &mut dyn Tables,
    layer: &LayerName,
    change: impl FnOnce(&mut Record) -> Outcome,
) -> StoreResult<Outcome> {
    let before = tables.record(layer)?;
    let mut after = before.clone();
    let made = change(&mut after);
    if made == Outcome::Made {
        tables.write(layer, &before, &after)?;
        for change in changes(&before, &after) {
            tables.append(layer, change)?;
        }
    }
    Ok(made)
}
