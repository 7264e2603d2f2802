//! What happens to the state lock of a tool that is killed.

use butler_protocol::backend::{BackendKind, LockLifetime};

/// What the runner does about the lock of a tool that is killed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum KilledLock {
    /// Nothing: the lock ends with the tool's process.
    EndsWithTool,
    /// Reports a lock that it finds, but never as the tool's own: the tool may have been told not to lock.
    NeverOwn,
    /// Reports the lock, which remains.
    Report,
    /// Removes the lock if it is surely the tool's own.
    Remove,
}

impl KilledLock {
    /// For the backend with this name. `locks` is true if the tool surely locks the state; `remove` is
    /// `--force-unlock-own`.
    #[must_use]
    pub fn for_backend(backend: &str, locks: bool, remove: bool) -> Self {
        match BackendKind::of(backend).lock {
            LockLifetime::Process => Self::EndsWithTool,
            LockLifetime::UntilRemoved if !locks => Self::NeverOwn,
            LockLifetime::UntilRemoved if remove => Self::Remove,
            LockLifetime::UntilRemoved => Self::Report,
        }
    }

    /// Takes the name of the backend into account that is only known after `init`.
    #[must_use]
    pub fn with_known_backend(self, backend: &str) -> Self {
        match Self::for_backend(backend, true, false) {
            Self::EndsWithTool => Self::EndsWithTool,
            _ => self,
        }
    }
}
