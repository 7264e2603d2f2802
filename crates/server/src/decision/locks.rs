//! What people read about a lock of the state that is not one of the server's leases.

use crate::model::{Gate, LayerName, LockId, Reason, Run};

/// The sentence about the lock that the last attempt of `run` reported, and how it is removed.
pub(super) fn reason(layer: &LayerName, run: &Run) -> Option<Reason> {
    let lock = run.reported_lock()?;
    let id: Option<LockId> = lock.id.clone().and_then(|id| id.try_into().ok());
    let text = match id {
        Some(id) => format!(
            "{lock}; if its holder has ended, `butler-runner layer unlock {layer} --state-lock {id}` \
             removes the lock"
        ),
        None => lock.to_string(),
    };
    Some(Reason::new(Gate::Lease, text))
}
