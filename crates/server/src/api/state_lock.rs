//! Whether a person may ask for the removal of a state lock.

use super::error::ApiError;
use crate::model::{Facts, LayerName, LockId};

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
    match facts.reported_lock() {
        Some((run, held)) if held.has_id(lock) => Ok(run.destroys),
        Some((run, held)) => Err(ApiError::conflict(format!(
            "run {} of `{layer}` has reported another lock than `{lock}`: {held}",
            run.id
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
    use crate::model::{
        Action, Attempt, Cause, Commit, Digest, Ending, FailureClass, Moment, NewRun, Revision,
        Run, RunId, StateLock,
    };
    use butler_registry::TokenHash;

    /// A plan whose only attempt, the one with this sequence number, ended like this.
    fn run(name: &str, sequence: u64, ending: Ending, lock: Option<&str>) -> Run {
        let now = Moment::default();
        let revision = Revision { commit: Commit::new("c"), digest: Digest::new("d") };
        let (action, cause) = (Action::Plan, Cause::Destroy { request: name.to_owned() });
        let id = RunId::new(name);
        let destroys = name == "destroys";
        let new = NewRun { id, action, cause, revision, change: 1, destroys };
        let mut run = Run::new(new, now);
        let (place, token) = ("here".to_owned(), TokenHash::of("brce_test"));
        let mut attempt = Attempt::new(1, place, "infra".to_owned(), token, sequence, now, now);
        attempt.end = Some((ending, now));
        attempt.lock = lock.map(|id| StateLock { id: Some(id.to_owned()), holder: None });
        run.attempts.push(attempt);
        run
    }

    #[test]
    fn only_the_lock_that_was_reported_last_is_removed() {
        let failed = Ending::Failed(FailureClass::Lock);
        let ask = |runs: &[Run], lock: &str| {
            let facts = Facts { runs: runs.to_vec(), ..Facts::default() };
            destroys_after(&"a".parse().unwrap(), &facts, &lock.parse().unwrap()).ok()
        };
        let (old, new) = (run("old", 1, failed, Some("1")), run("destroys", 2, failed, Some("2")));
        assert_eq!(ask(&[], "1"), None);
        assert_eq!(ask(std::slice::from_ref(&old), "1"), Some(false));
        for runs in [[old.clone(), new.clone()], [new.clone(), old.clone()]] {
            assert_eq!((ask(&runs, "1"), ask(&runs, "2")), (None, Some(true)));
        }
        // A failure that says nothing about locks, and a success, which has had the lock.
        let network = run("network", 3, Ending::Failed(FailureClass::Network), None);
        assert_eq!(ask(&[new.clone(), network], "2"), Some(true));
        assert_eq!(ask(&[new, run("succeeded", 3, Ending::Succeeded, None)], "2"), None);
    }
}
