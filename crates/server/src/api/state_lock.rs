//! Whether a person may ask for the removal of a state lock.

use super::error::ApiError;
use crate::model::{Facts, LayerName, LockId, ReportedLock};

/// Whether the plan after the removal of `lock` destroys everything: if the plan that found the lock did.
///
/// # Errors
/// If an attempt uses the state, or if `lock` is not the one that was reported last. A person who copies an old id
/// must not remove the lock of another holder.
pub(super) fn destroys_after(
    layer: &LayerName,
    facts: &Facts,
    lock: &LockId,
) -> Result<bool, ApiError> {
    let of_lease = facts.lease.as_ref().map(|lease| (&lease.run, lease.fence));
    let of_layer = || facts.runs.iter().find_map(|run| Some((&run.id, run.running()?.number)));
    if let Some((run, number)) = of_lease.or_else(of_layer) {
        return Err(ApiError::conflict(format!(
            "attempt {number} of run {run} uses the state of `{layer}` and can hold the lock `{lock}`; ask again \
             when it has ended"
        )));
    }
    match &facts.reported_lock {
        Some(reported) if reported.lock.has_id(lock) => Ok(reported.destroys),
        Some(ReportedLock { run, lock: held, .. }) => Err(ApiError::conflict(format!(
            "run {run} of `{layer}` has reported another lock than `{lock}`: {held}"
        ))),
        None => Err(ApiError::conflict(format!(
            "no run of `{layer}` has reported a lock since the last success; `butler-runner layer plan {layer}` \
             finds out whether the state is locked"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{RunId, StateLock};

    #[test]
    fn only_the_lock_that_was_reported_last_is_removed() {
        let ask = |reported_lock: Option<ReportedLock>, lock: &str| {
            let facts = Facts { reported_lock, ..Facts::default() };
            destroys_after(&"a".parse().unwrap(), &facts, &lock.parse().unwrap()).ok()
        };
        let reported = |id: Option<&str>, destroys: bool| {
            let lock = StateLock { id: id.map(str::to_owned), holder: None };
            Some(ReportedLock { run: RunId::new("r"), destroys, lock })
        };
        assert_eq!(ask(None, "1"), None);
        assert_eq!(ask(reported(None, false), "1"), None);
        assert_eq!(ask(reported(Some("2"), false), "1"), None);
        assert_eq!(ask(reported(Some("1"), false), "1"), Some(false));
        assert_eq!(ask(reported(Some("1"), true), "1"), Some(true));
    }
}
