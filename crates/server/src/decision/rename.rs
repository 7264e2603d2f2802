//! A layer that has an earlier name takes over its history before anything else.

use super::types::{Decision, Input, Step};
use crate::model::{Gate, Layer, Phase, Reason};

/// What happens first: the history moves, then the files. A crash in between leaves the name whose files
/// are to be moved in the facts, and nothing starts before they were.
pub(super) fn first(input: &Input<'_>, layer: &Layer) -> Option<Decision> {
    if !input.facts.files_of.is_empty() {
        let from = input.facts.files_of.clone();
        return Some(Decision::step(Phase::PendingTrigger, Step::MoveFiles { from }));
    }
    let (former, formerly) = (input.surroundings.former.as_ref()?, layer.formerly.as_ref()?);
    let name = &formerly.name;
    let waits =
        |gate, text| Some(Decision::rest(Phase::PendingTrigger).because(Reason::new(gate, text)));
    if let Some((run, attempt)) = &former.running {
        let text = format!(
            "attempt {attempt} of run {run} of the layer `{name}` has not ended; then this layer takes \
             over the history of `{name}`"
        );
        return waits(Gate::Lease, text);
    }
    if !formerly.is_certain {
        let text = format!(
            "this layer takes over the history of `{name}` when all repositories were read: `{name}` \
             can still be a layer"
        );
        return waits(Gate::Source, text);
    }
    Some(Decision::step(Phase::PendingTrigger, Step::TakeOver { from: name.clone() }))
}
