//! Whether a lock is certainly the one that a killed command has left.
//!
//! A lock is a command's own only in these cases:
//!
//! - The command printed the lock's id when it could not store its state.
//! - The command printed that it works, which it does only under its lock, and the backend reports a holder
//!   with this user, this machine and the same operation, since a time between the command's start and its
//!   first work.
//! - The command printed that it works, and the lock's id is the one that was held while the command was still
//!   alive after it was asked to stop.
//!
//! A lock is exclusive, so no other command can have held it at these times, unless the command itself was
//! started without locking. The runner never removes any other lock.

use std::time::SystemTime;

use butler_base::platform::{host_name, user_name};
use butler_protocol::backend::StateLock;

/// Observations of a command that may have left its lock.
#[derive(Clone, Debug)]
pub(in crate::engine) struct LockTrace {
    /// The tool's name of the operation.
    pub(in crate::engine) operation: &'static str,
    /// Whether it took a lock. With `-lock=false` in its environment, every lock belongs to another command.
    pub(in crate::engine) locks: bool,
    /// When it was started.
    pub(in crate::engine) begun: SystemTime,
    /// When it first printed that it works, which it does only while it holds its lock.
    pub(in crate::engine) working: Option<SystemTime>,
    /// The id of the lock that was held while it was alive and working.
    pub(in crate::engine) observed: Option<String>,
    /// The id that it printed when it could not store its state.
    pub(in crate::engine) named: Option<String>,
    /// This process's `user@host`.
    pub(in crate::engine) who: Option<String>,
}

impl LockTrace {
    /// Whether `lock` is certainly the lock of the observed command, by the rules of the module's documentation.
    pub(in crate::engine) fn has_left(&self, lock: &StateLock) -> bool {
        if !self.locks || lock.id.is_none() {
            return false;
        }
        if self.named == lock.id {
            return true;
        }
        let Some(working) = self.working else { return false };
        if self.observed == lock.id {
            return true;
        }
        lock.holder.as_ref().is_some_and(|holder| {
            self.who.as_ref() == Some(&holder.who)
                && self.operation == holder.operation
                && parse_time(&holder.created)
                    .is_some_and(|created| created >= self.begun && created <= working)
        })
    }
}

/// Parses Go's `2026-01-02 03:04:05.678 +0000 UTC`.
pub(super) fn parse_time(text: &str) -> Option<SystemTime> {
    let (date, rest) = text.split_once(' ')?;
    let (time, zone) = rest.split_once(' ')?;
    zone.starts_with("+0000").then_some(())?;
    humantime::parse_rfc3339(&format!("{date}T{time}Z")).ok()
}

/// This process's `user@host`, as the tool prints it.
pub(in crate::engine) fn own_name() -> Option<String> {
    Some(format!("{}@{}", user_name()?, host_name()?))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use butler_protocol::backend::Holder;

    use super::*;

    #[test]
    fn lock_is_own_only_if_the_evidence_is_certain() {
        let holder = Holder {
            who: "alice@host".to_owned(),
            operation: "OperationTypeApply".to_owned(),
            created: "2026-01-01 10:00:00.5 +0000 UTC".to_owned(),
        };
        let lock = StateLock { id: Some("x-1".to_owned()), holder: Some(holder) };
        let created = humantime::parse_rfc3339("2026-01-01T10:00:00.5Z").unwrap();
        let second = Duration::from_secs(1);
        let own = LockTrace {
            operation: "OperationTypeApply",
            locks: true,
            begun: created - second,
            working: Some(created + second),
            observed: None,
            named: None,
            who: Some("alice@host".to_owned()),
        };
        let id = |id: &str| Some(id.to_owned());
        assert!(own.has_left(&lock));
        for other in [
            // Of another user, of an unknown user, of another operation, taken before the command, taken after
            // the command had released its own lock, and a lock that the command only waited for.
            LockTrace { who: Some("bob@host".to_owned()), ..own.clone() },
            LockTrace { who: None, ..own.clone() },
            LockTrace { operation: "OperationTypePlan", ..own.clone() },
            LockTrace { begun: created + second, ..own.clone() },
            LockTrace { working: Some(created - second), ..own.clone() },
            LockTrace { working: None, ..own.clone() },
            // Any lock, if the command does not lock.
            LockTrace { locks: false, observed: id("x-1"), named: id("x-1"), ..own.clone() },
        ] {
            assert!(!other.has_left(&lock), "{other:?}");
        }
        let silent = StateLock { id: id("x-1"), holder: None };
        assert!(!own.has_left(&silent));
        assert!(LockTrace { observed: id("x-1"), ..own.clone() }.has_left(&silent));
        assert!(!LockTrace { observed: id("x-2"), ..own.clone() }.has_left(&silent));
        assert!(!LockTrace { observed: id("x-1"), working: None, ..own.clone() }.has_left(&silent));
        let named = LockTrace { working: None, named: id("x-1"), ..own.clone() };
        assert!(named.has_left(&silent));
        assert!(!LockTrace { named: id("x-2"), ..named }.has_left(&silent));
        let nameless = StateLock::default();
        assert!(!own.has_left(&nameless));
    }
}
