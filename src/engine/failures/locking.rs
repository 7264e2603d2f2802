//! Recognises an error about a state lock, and whether the lock is held.

use super::phrases::{contains, normalised};

/// Words of an error about a state lock that is held. They are those of the backends.
const HELD: [&str; 24] = [
    "already locked",
    "another process has locked",
    "at least one of the pre-conditions you specified did not hold",
    "conditionalcheckfailed",
    "conditionalrequestconflict",
    "conditionnotmet",
    "coordination.k8s.io * already exists",
    "if-none-match",
    "ifnonematchfailed",
    "currently a lease on the blob",
    "leasealreadypresent",
    "leaseid",
    "locked by",
    "lock already held",
    "lock file * exist",
    "lock id * does not match",
    "lock id * doesn't match",
    "otsconditioncheckfail",
    "preconditionfailed",
    "resource temporarily unavailable",
    "state locked",
    "state is locked",
    "the object has been modified",
    "workspace is locked",
];

/// Words of an error about a state lock.
const LOCKING: [&str; 12] = [
    ACQUIRING,
    "error locking destination state",
    "error locking state",
    "error releasing the state lock",
    "failed to lock",
    "failed to unlock",
    "unable to lock",
    "unable to unlock",
    "cannot lock workspace",
    "state already locked",
    "state is already locked",
    "workspace already locked",
];

/// Words of an error of a command that has not got the state lock.
const ACQUIRING: &str = "acquiring the state lock";

/// The beginning of the explanation that the tool adds to errors about locks.
const EXPLANATION: &str = " acquires a state lock to protect";

/// Whether the message of an error about a state lock says that the lock is held.
pub(in crate::engine) fn says_that_lock_is_held(message: &str) -> bool {
    let message = normalised(message);
    HELD.iter().any(|phrase| contains(&message, phrase))
}

/// `text`, which is normalised, without the explanation that follows errors about locks.
pub(super) fn without_explanation(text: &str) -> &str {
    text.split(EXPLANATION).next().unwrap_or_default()
}

/// Whether `text`, which is normalised, is an error about a lock that is held.
pub(super) fn is_about_held_lock(text: &str) -> bool {
    LOCKING.iter().any(|phrase| text.contains(phrase))
        && HELD.iter().any(|phrase| contains(text, phrase))
}

/// Whether `text` and the HTTP status show that a lock is held, although no word of the backend is known: it has
/// the details of a holder, or the server has answered with a conflict.
pub(super) fn implies_held_lock(text: &str, status: Option<u16>) -> bool {
    text.contains(ACQUIRING)
        && (text.contains("lock info: id:") || matches!(status, Some(409 | 412 | 423)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holder_or_conflict_implies_a_held_lock() {
        let acquiring = "error acquiring the state lock error message: ";
        for (message, status, is_held) in [
            ("lock info: id: 1", None, true),
            ("http status 423", Some(423), true),
            ("http status 500", Some(500), false),
            ("lock info: none", None, false),
        ] {
            let text = format!("{acquiring}{message}");
            assert_eq!(implies_held_lock(&text, status), is_held, "{message}");
        }
        assert!(!implies_held_lock("error releasing the state lock lock info: id: 1", None));
    }
}
