//! A layer takes over the history of its earlier name.

use super::record::Record;
use super::transaction::{Tables, update};
use super::{Outcome, StoreResult};
use crate::model::{Former, LayerName};

/// The layer `formerly`, if `layer` is to take over its history: something is known of it, and no attempt of `layer` was
/// ever started. It needs no run: a server that was slow could still create one for the earlier name, which would then
/// exist beside that of the new one.
pub(super) fn former(
    tables: &mut dyn Tables,
    layer: &LayerName,
    formerly: &LayerName,
) -> StoreResult<Option<Former>> {
    let known = tables.record(formerly)?;
    if layer == formerly || known == Record::default() {
        return Ok(None);
    }
    // Earlier versions did not record it.
    let has_started = tables.record(layer)?.has_started
        || tables.history(layer, None, u32::MAX)?.iter().any(|run| !run.attempts.is_empty());
    if has_started {
        return Ok(None);
    }
    let running = known.runs.iter().find_map(|run| Some((run.id.clone(), run.running()?.number)));
    Ok(Some(Former { running }))
}

/// Moves history, applied revision and known drift of `formerly` to `layer`, unless one of its attempts
/// has not ended.
pub(super) fn take_over(
    tables: &mut dyn Tables,
    layer: &LayerName,
    formerly: &LayerName,
) -> StoreResult<Outcome> {
    let is_due = former(tables, layer, formerly)?.is_some_and(|former| former.running.is_none());
    let known = tables.record(layer)?;
    // The count of changes goes on with what was read for the new name.
    if !is_due || known.observation.is_none() {
        return Ok(Outcome::Refused);
    }
    // No attempt was started for these runs. The layer is planned again after the move, if that is due.
    for run in tables.history(layer, None, u32::MAX)? {
        tables.remove_run(layer, &run.id)?;
    }
    tables.rename(formerly, layer)?;
    update(tables, layer, |record| {
        record.take_over(formerly, known);
        Outcome::Made
    })
}

pub(super) fn files_moved(tables: &mut dyn Tables, layer: &LayerName) -> StoreResult<Outcome> {
    update(tables, layer, Record::files_moved)
}
