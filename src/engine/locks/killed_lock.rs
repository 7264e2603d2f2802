//! What the runner does about the state lock of a killed tool.

/// What the runner does about the state lock of a killed tool.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum KilledLock {
    /// Nothing: the lock ends with the tool's process, as locks of `local` and `pg` do.
    EndsWithTool,
    /// Report it, but never as the tool's own: the environment may have disabled locking for the tool.
    NeverOwn,
    /// Report it.
    Report,
    /// Remove it if it is certainly the tool's own.
    Remove,
}

impl KilledLock {
    /// For a backend of the type `backend`. `locks` is false if the environment may have disabled locking,
    /// `remove` is `--force-unlock-own`.
    #[must_use]
    pub fn for_backend(backend: &str, locks: bool, remove: bool) -> Self {
        match backend {
            "local" | "pg" => Self::EndsWithTool,
            _ if !locks => Self::NeverOwn,
            _ if remove => Self::Remove,
            _ => Self::Report,
        }
    }

    /// The same after `init` has shown that the backend is of the type `backend`.
    #[must_use]
    pub fn with_known_backend(self, backend: &str) -> Self {
        match Self::for_backend(backend, true, false) {
            Self::EndsWithTool => Self::EndsWithTool,
            _ => self,
        }
    }
}
