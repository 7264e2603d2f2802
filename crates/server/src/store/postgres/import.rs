//! Rows of another store.

use super::tables::{JOURNAL, PostgresTables, signed, text};
use crate::model::Commit;
use crate::store::StoreResult;
use crate::store::stored_row::StoredRow;
use crate::store::transaction::Tables as _;

impl PostgresTables<'_> {
    /// Why nothing can be moved into these tables.
    pub(super) fn is_used(&mut self) -> StoreResult<Option<String>> {
        if let Some(lease) = self.decider()?.filter(|lease| self.now < lease.until) {
            return Ok(Some(format!("the server `{}` uses it; stop that server", lease.holder)));
        }
        let is_empty =
            self.layers()?.is_empty() && self.followers()?.is_empty() && self.last_sequence()? == 0;
        Ok((!is_empty).then(|| {
            "it has facts already; give an empty database, or another schema in `options=-c search_path=SCHEMA`"
                .to_owned()
        }))
    }

    fn insert_counter(&mut self, name: &str, value: u64) -> StoreResult<()> {
        self.execute(
            "INSERT INTO butler_counters (name, value) VALUES ($1, $2)",
            &[&name, &signed(value)],
        )
    }

    /// Inserts a row.
    pub(super) fn insert(&mut self, row: &StoredRow) -> StoreResult<()> {
        match row {
            StoredRow::Layer(name, record) => {
                let commits: Vec<&str> = record.commits().map(Commit::as_str).collect();
                self.execute(
                    "INSERT INTO butler_layers (name, commits, facts) VALUES ($1, $2, $3)",
                    &[&name.as_str(), &commits, &text(record)?],
                )
            }
            StoredRow::Run(layer, run, state, is_read) => {
                self.insert_run(layer, run, (state, *is_read))
            }
            StoredRow::Lease(state_key, lease) => self.insert_lease(state_key, lease),
            StoredRow::Counter(name, value) => self.insert_counter(name, *value),
            StoredRow::LastSequence(sequence) => {
                self.appended = Some(*sequence);
                self.insert_counter(JOURNAL, *sequence)
            }
            StoredRow::Event(entry) => self.execute(
                "INSERT INTO butler_events (sequence, at, layer, is_drift, change)
                 VALUES ($1, $2, $3, $4, $5)",
                &[
                    &signed(entry.sequence),
                    &signed(entry.at.as_millis()),
                    &entry.layer.as_str(),
                    &entry.change.what.is_drift(),
                    &text(&entry.change)?,
                ],
            ),
            StoredRow::Session(id, session) => self.write_session(*id, *session),
            StoredRow::Receiver(name, cursor) => self.write_receiver(name, *cursor),
            StoredRow::Follower(follower) => self.write_follower(follower),
        }
    }
}
