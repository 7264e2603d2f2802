//! The removal of a state lock that the configuration of the run names.

use crate::engine::{Engine, EngineError, LockNotRemoved, NamedLock};
use crate::report::RunLog;
use crate::run::failure::Failure;
use butler_base::event::Phase;
use butler_protocol::backend::LockId;

/// Removes the lock `id` before the plan. A run that is tried again can have removed it before.
///
/// # Errors
/// If another lock is held, if the backend does not report which one, or if the lock cannot be removed.
pub(in crate::run) async fn remove(
    engine: &Engine<'_, RunLog>,
    id: &LockId,
) -> Result<(), Failure> {
    match engine.remove_lock(id).await {
        Ok(NamedLock::Removed) => engine.log.announce(&format!("Removed the state lock `{id}`")),
        Ok(NamedLock::Free) => {
            engine.log.announce(&format!("The state is not locked: `{id}` is gone already"));
        }
        Err(error) => {
            let failure = match &error {
                LockNotRemoved::Failed {
                    source: stopped @ EngineError::Stopped { .. }, ..
                } => Failure::of_engine(Phase::Plan, stopped),
                error => Failure::new(Phase::Plan, error),
            };
            return Err(Failure { blocking: error.held().cloned().map(Box::new), ..failure });
        }
    }
    Ok(())
}
