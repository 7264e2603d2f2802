//! What is moved from one store to another.

use butler_registry::TokenHash;

use super::record::Record;
use crate::model::{JournalEntry, LayerName, Lease, Run, Session, StoredFollower};

/// A row of a store. They are moved in the order of these variants.
#[derive(Debug)]
pub(super) enum StoredRow {
    Layer(LayerName, Box<Record>),
    /// A run of a layer, its state as the column has it, and whether decisions read it. The oldest comes first.
    Run(LayerName, Box<Run>, String, bool),
    Lease(String, Lease),
    Counter(String, u64),
    Event(JournalEntry),
    Session(TokenHash, Session),
    Receiver(String, u64),
    Follower(Box<StoredFollower>),
    /// The sequence of the last entry of the journal, also if it was removed.
    LastSequence(u64),
}
