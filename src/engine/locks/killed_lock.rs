//! What to do about the state lock of a tool that is killed.

/// What becomes of the lock of a tool that is killed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum KilledLock {
    /// It ends with the tool's process, as those of `local` and `pg` do.
    EndsWithTool,
    /// The tool may be told to take none: what is found is reported, and never taken for its own.
    NeverOwn,
    /// It stays, and is reported.
    Report,
    /// It stays, and is removed where it is surely the tool's own.
    Remove,
}

impl KilledLock {
    /// For a backend of this type, where the tool surely `locks` or may have been told not to.
    #[must_use]
    pub fn of(backend: &str, locks: bool, remove: bool) -> Self {
        match backend {
            "local" | "pg" => Self::EndsWithTool,
            _ if !locks => Self::NeverOwn,
            _ if remove => Self::Remove,
            _ => Self::Report,
        }
    }

    /// The same once it is known that the backend is of this type.
    #[must_use]
    pub fn known(self, backend: &str) -> Self {
        match Self::of(backend, true, false) {
            Self::EndsWithTool => Self::EndsWithTool,
            _ => self,
        }
    }
}
