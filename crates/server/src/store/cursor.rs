//! How far each receiver of notifications has come in the journal.
//!
//! The journal is the list of what is to be sent, and a cursor is the sequence of the last entry that needs
//! nothing more. The name of a receiver is all that the store has of it.

use super::error::StoreResult;
use super::transaction::Tables;

pub(super) fn cursor(tables: &mut dyn Tables, receiver: &str) -> StoreResult<u64> {
    if let Some(known) = tables.receiver(receiver)? {
        return Ok(known);
    }
    let end = tables.last_sequence()?;
    tables.write_receiver(receiver, end)?;
    Ok(end)
}

pub(super) fn advance(tables: &mut dyn Tables, receiver: &str, sequence: u64) -> StoreResult<()> {
    match tables.receiver(receiver)? {
        Some(known) if known < sequence => tables.write_receiver(receiver, sequence),
        _ => Ok(()),
    }
}

pub(super) fn retain(tables: &mut dyn Tables, receivers: &[String]) -> StoreResult<()> {
    for known in tables.receivers()? {
        if !receivers.contains(&known) {
            tables.remove_receiver(&known)?;
        }
    }
    Ok(())
}
